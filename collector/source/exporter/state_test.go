package exporter

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/wire"
)

// TestARestartHealsNothing: R9 lets a reset, a reload or a reboot clear a flag,
// not the collector's own restart.
func TestARestartHealsNothing(t *testing.T) {
	r := newRig(t, nil)
	r.keepState()
	counter := 1_000_000
	scrape := func(board, instance int) *wire.Batch {
		t.Helper()
		counter += 700_000
		return r.batch(text(
			row("DCGM_FI_DEV_XID_ERRORS", h100, board), row(energy, h100, counter),
			row("DCGM_FI_DEV_XID_ERRORS", a100+gi(7, "1g.5gb"), 0), row("DCGM_FI_DEV_XID_ERRORS", a100+gi(8, "1g.5gb"), instance),
		))
	}
	expect := func(step string, b *wire.Batch, want []bool, events ...string) {
		t.Helper()
		h, a := b.Gpus[0], b.Gpus[1]
		diff(t, want, []bool{h.Unhealthy, a.Unhealthy, a.Leaves[0].Unhealthy, a.Leaves[1].Unhealthy})
		var kinds []string
		for _, e := range b.Events {
			kinds = append(kinds, e.Gpu+e.Leaf+" "+e.Kind)
		}
		diff(t, events, kinds)
		if t.Failed() {
			t.Fatal(step)
		}
	}
	expect("first", scrape(0, 0), []bool{false, false, false, false})
	expect("fatal", scrape(79, 95), []bool{true, false, false, true}, "GPU-h xid", "GPU-agi8 xid")
	r.restart()
	expect("restarted", scrape(79, 95), []bool{true, false, false, true})
	r.restart()
	expect("another code meanwhile", scrape(13, 95), []bool{true, false, false, true}, "GPU-h xid")
	r.restart()
	counter = -600_000
	expect("the node rebooted meanwhile", scrape(0, 95), []bool{false, false, false, true}, "GPU-h reset")
}

// TestXIDThatCameWhileTheCollectorWasAway is news.
func TestXIDThatCameWhileTheCollectorWasAway(t *testing.T) {
	r := newRig(t, nil)
	r.keepState()
	r.gpu(row("DCGM_FI_DEV_XID_ERRORS", h100, 31))
	r.restart()
	b := r.batch(row("DCGM_FI_DEV_XID_ERRORS", h100, 79))
	diff(t, []*wire.Event{{AtMs: 9_999, Gpu: "GPU-h", Kind: "xid", Code: 79}}, b.Events)
	if !b.Gpus[0].Unhealthy {
		t.Error("not flagged")
	}
}

func TestEnergyAcrossARestart(t *testing.T) {
	for name, c := range map[string]struct {
		away    int // slots
		counter int
		want    *wire.Gpu
	}{
		"at once":       {0, 1_900_000, &wire.Gpu{EnergyMj: ptr[int64](200_000), EnergySpanMs: ptr[int64](10_000)}},
		"two minutes":   {12, 10_700_000, &wire.Gpu{EnergyMj: ptr[int64](9_000_000), EnergySpanMs: ptr[int64](130_000)}},
		"a reboot":      {12, 300_000, &wire.Gpu{EnergyMj: ptr[int64](300_000), EnergySpanMs: ptr[int64](130_000), EnergyReset: true}},
		"standing":      {12, 1_700_000, &wire.Gpu{}},
		"past retiring": {24*360 + 1, 10_700_000, &wire.Gpu{}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.keepState()
			r.gpu(row(energy, h100, 1_000_000))
			r.gpu(row(energy, h100, 1_700_000))
			r.skip(c.away)
			r.restart()
			g := r.gpu(row(energy, h100, c.counter))
			diff(t, c.want, &wire.Gpu{EnergyMj: g.EnergyMj, EnergySpanMs: g.EnergySpanMs, EnergyReset: g.EnergyReset})
		})
	}
}

// TestACounterOfTheFutureStartsAnew: over a clock that went back nobody knows
// the time that the movement took.
func TestACounterOfTheFutureStartsAnew(t *testing.T) {
	r := newRig(t, nil)
	r.keepState()
	r.skip(6)
	r.gpu(row(energy, h100, 1_000_000))
	r.clk.Set(start)
	r.restart()
	if g := r.gpu(row(energy, h100, 1_700_000)); g.EnergyMj != nil {
		t.Errorf("energy %d mJ over %d ms, want none", g.GetEnergyMj(), g.GetEnergySpanMs())
	}
	if g := r.gpu(row(energy, h100, 2_400_000)); g.GetEnergyMj() != 700_000 {
		t.Errorf("energy %d mJ, want 700000", g.GetEnergyMj())
	}
}

func TestAStateFileThatCannotBeUsedIsNone(t *testing.T) {
	r := newRig(t, nil)
	r.keepState()
	r.gpu(row("DCGM_FI_DEV_XID_ERRORS", h100, 0))
	r.gpu(row("DCGM_FI_DEV_XID_ERRORS", h100, 79))
	whole, err := os.ReadFile(r.deps.StateFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, content, want string }{
		{"empty", "", "0 bytes: unexpected end of JSON input"},
		{"torn", string(whole[:len(whole)/2]), "unexpected end of JSON input"},
		{"zeros", strings.Repeat("\x00", len(whole)), `invalid character '\\x00'`},
		{"another program's", `{"version": 3}`, `kind \"\", want \"gputally exporter state\"`},
		{"a newer format", strings.Replace(string(whole), `"format":1`, `"format":2`, 1), "format 2, want 1"},
		{"another cluster's", strings.Replace(string(whole), `"cluster":"c"`, `"cluster":"d"`, 1), `cluster \"d\", want \"c\"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := os.WriteFile(r.deps.StateFile, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			r.deps.Log = slog.New(slog.NewTextHandler(&log, nil))
			r.restart()
			if g := r.gpu(row("DCGM_FI_DEV_XID_ERRORS", h100, 79)); g.Unhealthy {
				t.Error("flagged by a file that can't be used")
			}
			if !strings.Contains(log.String(), c.want) {
				t.Errorf("log\n%swant %q in it", log.String(), c.want)
			}
			if n := r.counter("gputally_exporter_state_errors_total", ""); n != 1 {
				t.Errorf("state errors %v, want 1", n)
			}
			// It is replaced by one that can be used.
			var st state
			if err := r.src.memory.File.Read(r.deps.Cluster, &st, &st.State); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAFolderThatIsAwayCostsOnlyTheMemory(t *testing.T) {
	r := newRig(t, nil)
	r.keepState()
	r.deps.StateFile += "/nowhere"
	r.restart()
	r.gpu(row(energy, h100, 1_000_000))
	if g := r.gpu(row(energy, h100, 1_700_000)); g.GetEnergyMj() != 700_000 {
		t.Errorf("energy %d mJ, want 700000", g.GetEnergyMj())
	}
	if n := r.counter("gputally_exporter_state_errors_total", ""); n != 2 {
		t.Errorf("state errors %v, want one per slot", n)
	}
}

// TestABrokenOffReadingIsNone: its batches are not spooled, so the next reading
// has to tell its energy.
func TestABrokenOffReadingIsNone(t *testing.T) {
	r := newRig(t, nil)
	r.keepState()
	r.gpu(row(energy, h100, 1_000_000))
	r.setText(row(energy, h100, 1_700_000))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if batches, err := r.src.Read(ctx, r.slot); len(batches) != 0 || err == nil {
		t.Errorf("got %d batches and error %v, want an error alone", len(batches), err)
	}
	r.skip(1)
	r.restart()
	g := r.gpu(row(energy, h100, 2_400_000))
	if g.GetEnergyMj() != 1_400_000 || g.GetEnergySpanMs() != (20*time.Second).Milliseconds() {
		t.Errorf("energy %d mJ over %d ms, want 1400000 over 20000", g.GetEnergyMj(), g.GetEnergySpanMs())
	}
}

// TestARestartBesideADeadExporter: the node is known to have had a second one,
// so what that one listed is not lost.
func TestARestartBesideADeadExporter(t *testing.T) {
	second := newRig(t, nil) // only its server is used
	r := newRig(t, func(c *Config) { c.Targets = append(c.Targets, Target{URL: second.url, TrustHostname: true}) })
	r.keepState()
	second.setText(row("DCGM_FI_DEV_GPU_UTIL", `gpu="1",UUID="GPU-z",modelName="Tesla T4",Hostname="n1"`, 3))
	r.batch(row("DCGM_FI_DEV_GPU_UTIL", h100, 3))
	second.setText("")
	r.restart()
	batches, err := r.read(row("DCGM_FI_DEV_GPU_UTIL", h100, 3))
	if err == nil || len(batches) != 1 || batches[0].Enumeration != wire.Enumeration_ENUMERATION_PARTIAL {
		t.Errorf("got %v and error %v, want a partial batch and an error", batches, err)
	}
}

// TestARestartKeepsWhatAnExporterTellsOfMIG: fields that are not exported at all
// make no GPU at rest an empty MIG GPU.
func TestARestartKeepsWhatAnExporterTellsOfMIG(t *testing.T) {
	r := newRig(t, nil)
	r.keepState()
	if g := r.gpu(text(row("DCGM_FI_DEV_POWER_USAGE", h100, 400), row("DCGM_FI_PROF_GR_ENGINE_ACTIVE", h100, 0.9))); g.Mig {
		t.Fatal("a board at work taken for an empty MIG board")
	}
	r.restart()
	if g := r.gpu(text(row("DCGM_FI_DEV_POWER_USAGE", h100, 70), row("DCGM_FI_PROF_GR_ENGINE_ACTIVE", h100, 0))); g.Mig {
		t.Error("taken for an empty MIG board after a restart")
	}
}
