package commandtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/wire"
)

// TestH6WhatNobodyOpenedIsADeadLetterUntilSomebodyDoes: batches of no run are
// kept and said why, an operator lets them in with two commands, and closes the
// door again; every one of the commands may be given twice.
func TestH6WhatNobodyOpenedIsADeadLetterUntilSomebodyDoes(t *testing.T) {
	data := programtest.NewFleet(t)
	batches := programtest.MessagesOf(t, programtest.BootOf(1000, 5, nil)...)
	figures := func() string { return programtest.MustVerify(t, data).Checks["C3"].Figures }
	programtest.Produce(t, data, batches)
	if got := figures(); !strings.Contains(got, "360 stored, 5 dead") {
		t.Errorf("C3: got %q, want 360 stored, 5 dead", got)
	}
	letters := programtest.MustInvoke(t, "dlq", "list", "--data", data, "--reason", "origin", "--output", "csv")
	if strings.Count(letters, "gputally import runs open --cluster") != 5 {
		t.Errorf("letters don't name the command:\n%s", letters)
	}
	open := []string{
		"import", "runs", "open", "--data", data, "--cluster", "counted", "--sends", wire.SendsSimulated, "--collector",
		"c9", "--slot", "1m",
		"--from", "2026-03-01", "--to", "2026-03-02", "--by", "ops",
	}
	said := programtest.MustInvoke(t, open...)
	_, id, _ := strings.Cut(said, "run ")
	id, _, _ = strings.Cut(id, " ")
	if end := "gputally import runs close " + id + " --data '" + data + "'"; !strings.Contains(said, end) {
		t.Errorf("open said %q, want %q in it", said, end)
	}
	if runs := programtest.MustInvoke(t, "import", "runs", "list", "--data", data, "--output",
		"csv"); !strings.Contains(runs, id+",open,counted,simulated,c9,1m0s,") {
		t.Errorf("runs:\n%s", runs)
	}
	programtest.MustInvoke(t, "dlq", "replay", "--data", data, "--reason", "origin")
	programtest.Produce(t, data, nil) // ingest reads what was sent
	if got := figures(); !strings.Contains(got, "365 stored, 5 dead") {
		t.Errorf("C3: got %q, want 365 stored, 5 dead", got)
	}
	closing := []string{"import", "runs", "close", id, "--data", data, "--by", "ops"}
	for range 2 {
		if said := programtest.MustInvoke(t, closing...); !strings.Contains(said, id) {
			t.Errorf("close said %q, want it to name the run", said)
		}
	}
	if runs := programtest.MustInvoke(t, "import", "runs", "list", "--data", data, "--output",
		"csv"); strings.Contains(runs, id) {
		t.Errorf("runs after the end:\n%s", runs)
	}
	programtest.Produce(t, data, batches)
	if got := figures(); !strings.Contains(got, "365 stored, 10 dead") {
		t.Errorf("C3: got %q, want 365 stored, 10 dead", got)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"import", "runs", "close", "nobody", "--data", data}, `run "nobody" doesn't exist`},
		{append(open[:len(open):len(open)], "--slot", "30s"), "with slots of 1m0s"},
		{append(open[:len(open):len(open)], "--sends", "live"), "sends is"},
		{append(open[:len(open):len(open)], "--hours", "100000"), "hours is 100000"},
		{append(open[:len(open):len(open)], "--to", "2026-02-01"), "want it after from"},
		{[]string{"inventory", "cluster", "counted", "--slot", "10s", "--data", data}, "with slots of 1m0s"},
		{[]string{"inventory", "cluster", "new", "--slot", "7s", "--data", data}, "--slot"},
	} {
		if got := programtest.Invoke(t, c.args...); got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, c.want) {
			t.Errorf("%v: got %+v, want %q", c.args, got, c.want)
		}
	}
	for range 2 {
		if said := programtest.MustInvoke(t, "inventory", "cluster", "new", "--slot", "10s", "--data",
			data); !strings.Contains(said, "cluster new") {
			t.Errorf("inventory cluster said %q, want it to name the cluster", said)
		}
	}
	other := append(open[:len(open):len(open)], "--cluster", "new", "--slot", "30s") // has no data, is declared
	if got := programtest.Invoke(t, other...); got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, "slot 30s") {
		t.Errorf("another length: got %+v, want it named as it was typed", got)
	}
	for _, command := range []string{"set", "approve"} {
		if got := programtest.Invoke(t, "policy", command, "--data", data, "--by", "alice"); got.Code != cli.ExitUsage {
			t.Errorf("policy %s without a change: got %+v, want a usage error", command, got)
		}
	}
}

// TestARenewedRunIsEnded: the old one once there is a new one, and that at the end.
func TestARenewedRunIsEnded(t *testing.T) {
	storetest.Library(t)
	programtest.WithLedger(t, programtest.NewDataDir(t), func(p *app.Pipeline) {
		fake := clock.NewFake(time.Now())
		p.Session.Clock = fake
		run := decisions.Run{
			Cluster: "sim", Collector: "sim", Sends: wire.SendsSimulated, SlotMS: 10_000,
			From: time.Unix(0, 0).UTC(), To: time.Unix(1<<31, 0).UTC(),
		}
		if err := p.KeepOpen(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		ended := func() (out []bool) {
			p.Follow().View(func(s *decisions.State) {
				for _, r := range s.Runs() {
					out = append(out, r.Ended != "")
				}
			})
			return out
		}
		for n, want := range [][]bool{{false}, {false}, {false}, {true, false}} {
			if n > 0 {
				fake.Advance(decisions.MaxRunHours * time.Hour / 4)
			}
			if err := fake.BlockUntil(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			if got := ended(); !slices.Equal(got, want) {
				t.Errorf("after %d quarters: ended %v, want %v", n, got, want)
			}
		}
		if err := p.Group.Stop(); err != nil {
			t.Error(err)
		}
		if got := ended(); !slices.Equal(got, []bool{true, true}) {
			t.Errorf("after the end: %v, want all ended", got)
		}
	})
}
