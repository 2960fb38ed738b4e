package app

import (
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

type blindObserver struct{}

func (blindObserver) Observe([]*wire.Batch) {}

// A collector that meters nothing is not ready, and says why.
func TestACollectorThatMetersNothingIsNotReady(t *testing.T) {
	clk := clock.NewFake(time.Date(2026, 10, 5, 8, 0, 0, 0, time.UTC))
	m := &metering{observer: blindObserver{}, clock: clk, bound: 30 * time.Second}
	want := func(reason string) {
		t.Helper()
		err := m.ready(t.Context())
		if (err == nil) != (reason == "") || (err != nil && !strings.Contains(err.Error(), reason)) {
			t.Errorf("ready says %v, want %q", err, reason)
		}
	}
	good := &wire.Batch{Attribution: wire.Attribution_ATTRIBUTION_OK}
	failed := &wire.Batch{Attribution: wire.Attribution_ATTRIBUTION_FAILED}
	want("the first slot is not over")
	m.Observe(nil)
	want("the source gave no batch")
	m.Observe([]*wire.Batch{failed})
	want("owners can't be read")
	m.Observe([]*wire.Batch{good})
	want("")
	m.Observe([]*wire.Batch{failed})
	want("") // one slot is no reason to be taken out
	clk.Advance(31 * time.Second)
	want("owners can't be read")
	m.Observe([]*wire.Batch{good})
	want("")
	clk.Advance(31 * time.Second)
	want("no slot was read")
}

func TestACollectorInAPodWantsTheNodesName(t *testing.T) {
	t.Setenv(settings.NodeEnv, "")
	t.Setenv(settings.PodEnv, "10.0.0.1")
	if name, err := (settings.CollectorConfig{}).NodeName(); err == nil || !strings.Contains(err.Error(), "$NODE_NAME") {
		t.Errorf("named %q, %v: want a refusal that names $NODE_NAME", name, err)
	}
	t.Setenv(settings.NodeEnv, "gpu-1")
	if name, err := (settings.CollectorConfig{}).NodeName(); name != "gpu-1" || err != nil {
		t.Errorf("named %q, %v", name, err)
	}
}
