package programtest

import (
	"log/slog"
	"testing"
	"time"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

// HourMS is an hour in milliseconds.
const HourMS = 3_600_000

// NewLedger returns a data directory whose ledger has, from 1 October 2026, five hours
// of one whole GPU: ml-train is active in the first hour, and idle in the next four
// with a share of one half.
func NewLedger(t *testing.T) string {
	t.Helper()
	storetest.Library(t)
	return prepared(t, "ledger", func(data string) { insertUsage(t, data) })
}

func insertUsage(t *testing.T, data string) {
	t.Helper()
	a := OpenNew(t, data)
	start := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	owner := usagetest.Owner{
		Leaf: "GPU-1", Tenant: "ml-train", Project: "llm", User: "ada", Workload: "job 7",
		Active: HourMS, EnergyMJ: 1_800_000_500,
	}
	idle := owner
	idle.Active, idle.Idle, idle.EnergyMJ = 0, HourMS/2, 0
	for i, o := range []usagetest.Owner{owner, idle, idle, idle, idle} {
		usagetest.Insert(t, a.DB, usagetest.GPUHour{
			Hour: start.Add(time.Duration(i) * time.Hour), GPU: "GPU-1", Node: "n1", Model: "NVIDIA H100 80GB HBM3",
			Slices: 1, Version: 1, Owners: []usagetest.Owner{o},
		})
	}
	if err := a.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// OpenNew opens a new data directory with an engine, as a standalone does.
func OpenNew(t *testing.T, path string) *app.Access {
	t.Helper()
	s := newSession(t, path)
	dir, err := datadir.Open(path, app.Holder(s))
	if err != nil {
		t.Fatalf("open data directory: %v", err)
	}
	a, err := app.StartEmbedded(t.Context(), s, dir, settings.Default(), false)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	return a
}

func newSession(t *testing.T, data string) *cli.Session {
	t.Helper()
	return &cli.Session{
		Stdout: t.Output(), Stderr: t.Output(), Clock: clock.Real(), Data: data,
		Command: "gputally standalone",
		Log:     slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
}
