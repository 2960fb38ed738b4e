package gpustate

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/wire"
)

var start = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestMoveEnergy(t *testing.T) {
	type step struct {
		counter float64
		teller  string
		after   time.Duration
	}
	type moved struct {
		MJ, SpanMS int64
		Reset      bool
	}
	for name, c := range map[string]struct {
		steps []step
		want  *moved // of the last step
	}{
		"the first says nothing":            {[]step{{5000, "a", 0}}, nil},
		"a movement":                        {[]step{{5000, "a", 0}, {7000, "a", 10 * time.Second}}, &moved{2000, 10_000, false}},
		"standing still says nothing":       {[]step{{5000, "a", 0}, {5000, "a", 10 * time.Second}}, nil},
		"and lengthens the next":            {[]step{{5000, "a", 0}, {5000, "a", 10 * time.Second}, {6000, "a", 10 * time.Second}}, &moved{1000, 20_000, false}},
		"down is a reset":                   {[]step{{5000, "a", 0}, {300, "a", 10 * time.Second}}, &moved{300, 10_000, true}},
		"another teller says nothing":       {[]step{{5000, "a", 0}, {7000, "b", 10 * time.Second}}, nil},
		"and moves against itself":          {[]step{{5000, "a", 0}, {100, "b", 10 * time.Second}, {400, "b", 5 * time.Second}}, &moved{300, 5000, false}},
		"a counter of zero is a value":      {[]step{{0, "a", 0}, {10, "a", time.Second}}, &moved{10, 1000, false}},
		"milliseconds are rounded, not cut": {[]step{{0, "a", 0}, {10, "a", 1999700 * time.Microsecond}}, &moved{10, 2000, false}},
	} {
		t.Run(name, func(t *testing.T) {
			m, at := newGPU(), start
			var g *wire.Gpu
			reset := false
			for _, s := range c.steps {
				at = at.Add(s.after)
				g = &wire.Gpu{}
				reset = m.MoveEnergy(g, s.counter, s.teller, at)
			}
			var got *moved
			if g.EnergyMj != nil {
				got = &moved{*g.EnergyMj, *g.EnergySpanMs, g.EnergyReset}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("movement differs (-want +got):\n%s", diff)
			}
			if reset != (c.want != nil && c.want.Reset) {
				t.Errorf("reset is %v", reset)
			}
		})
	}
}

func TestMoveXID(t *testing.T) {
	m := newGPU()
	for i, c := range []struct {
		shown float64
		code  int64
		news  bool
		sick  bool
	}{
		{79, 0, false, false}, // there before anybody looked
		{79, 0, false, false},
		{13, 13, true, false},
		{0, 0, false, false},
		{79, 79, true, true},
		{13, 13, true, true}, // the flag stays
	} {
		code, news := m.MoveXID(Whole, c.shown, []int64{79})
		if code != c.code || news != c.news || m.Unhealthy(Whole) != c.sick {
			t.Errorf("step %d: MoveXID(%v) = %d, %v, unhealthy %v; want %d, %v, %v", i, c.shown, code, news, m.Unhealthy(Whole), c.code, c.news, c.sick)
		}
	}
	if m.Unhealthy(Instance(1)) {
		t.Error("an instance is flagged by the board's XID")
	}
	if m.Heal(); m.Unhealthy(Whole) {
		t.Error("the board is flagged after a reset")
	}
}

// TestPartsAreBounded: an exporter that reports other instances in each slot fills neither the memory nor the state file.
func TestPartsAreBounded(t *testing.T) {
	m := New(discard())
	g := m.GPU(Place{"n1", "GPU-a"}, start)
	for i := range uint32(20 * maxParts) {
		g.MoveXID(Instance(i), 0, []int64{79})
		g.MoveXID(Instance(i), 79, []int64{79})
	}
	if got := len(m.State("test", "c").GPUs[0].XIDs); got > 2*maxParts+1 {
		t.Errorf("%d parts are kept, want at most %d", got, 2*maxParts+1)
	}
	if !g.Unhealthy(Whole) {
		t.Error("the GPU is healthy although more parts than it can have failed")
	}
	g.Heal()
	g.MoveXID(Instance(3), 0, nil)
	if code, news := g.MoveXID(Instance(3), 13, nil); code != 13 || !news {
		t.Errorf("after that an XID is reported as %d, %v, want 13, true", code, news)
	}
}

// rich has every kind of thing that is remembered.
func rich() *GPUs {
	m := New(discard())
	g := m.GPU(Place{"n1", "GPU-b"}, start)
	g.MoveEnergy(&wire.Gpu{}, 123456, "exporter", start.Add(-time.Second))
	g.MoveXID(Whole, 13, nil)
	g.Happened(Whole, 79, []int64{79})
	g.Happened(Instance(7), 95, []int64{95})
	g.Happened(ComputeInstance(2, 1), 95, []int64{95})
	m.GPU(Place{"n1", "GPU-a"}, start)
	m.GPU(Place{"n0", "GPU-b"}, start)
	return m
}

func TestStateOverAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	want := rich().State("test", "c")
	file := &File{Path: path, Kind: "test"}
	if err := file.Write(want); err != nil {
		t.Fatal(err)
	}
	var got State
	if err := file.Read("c", &got, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(State{})); diff != "" {
		t.Errorf("state differs (-want +got):\n%s", diff)
	}
	m := New(discard())
	m.Restore(got, start.Add(time.Minute))
	if diff := cmp.Diff(want, m.State("test", "c")); diff != "" {
		t.Errorf("restored state differs (-want +got):\n%s", diff)
	}
	if m.Len() != 3 {
		t.Errorf("%d GPUs are remembered, want 3", m.Len())
	}
	g := m.GPU(Place{"n1", "GPU-b"}, start)
	for _, p := range []Part{Whole, Instance(7), ComputeInstance(2, 1)} {
		if !g.Unhealthy(p) {
			t.Errorf("part %+v lost its flag", p)
		}
	}
	if m.HealAll(); g.Unhealthy(Whole) {
		t.Error("HealAll left a flag")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file is %v (%v), want mode 0600", info, err)
	}
}

func TestReadRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	for want, text := range map[string]string{
		`kind "other", want "test"`:       `{"kind":"other","format":1,"cluster":"c"}`,
		`format 2, want 1`:                `{"kind":"test","format":2,"cluster":"c"}`,
		`cluster "d", want "c"`:           `{"kind":"test","format":1,"cluster":"d"}`,
		`24 bytes: unexpected end of JSO`: `{"kind":"test","format":`,
		`0 bytes:`:                        ``,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var st State
		err := (&File{Path: path, Kind: "test"}).Read("c", &st, &st)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("Read of %s says %v, want %q and the path", text, err, want)
		}
	}
	var st State
	if err := (&File{Path: path + ".none", Kind: "test"}).Read("c", &st, &st); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read of no file says %v, want that it doesn't exist", err)
	}
}

// A write in place may be torn by a power cut, at any byte, between what was there
// and what was to be; either all of one is read, or nothing.
func TestATornWriteIsKnown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	write := func(m *GPUs) string {
		if err := (&File{Path: path, Kind: "test"}).Write(m.State("test", "c")); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	m := rich()
	longer := write(m)
	m.GPU(Place{"n1", "GPU-b"}, start.Add(time.Second)).MoveEnergy(&wire.Gpu{}, 2, "exporter", start)
	other := write(m)
	m.Forget(start.Add(ForgetAfter + time.Second))
	shorter := write(m)
	for name, texts := range map[string][2]string{"as long": {longer, other}, "longer": {shorter, longer}, "shorter": {longer, shorter}} {
		old, now := texts[0], texts[1]
		for cut := range len(now) {
			torn := now[:cut]
			if cut < len(old) {
				torn += old[cut:]
			}
			if err := os.WriteFile(path, []byte(torn), 0o600); err != nil {
				t.Fatal(err)
			}
			var got State
			err := (&File{Path: path, Kind: "test"}).Read("c", &got, &got)
			line, _, _ := strings.Cut(torn, "\n")
			if untorn := strings.HasPrefix(now, line+"\n") || strings.HasPrefix(old, line+"\n"); err == nil && !untorn {
				t.Fatalf("%s, cut at byte %d of %d: it was read", name, cut, len(now))
			} else if err != nil && (cut == 0 || strings.HasPrefix(torn, now)) {
				t.Fatalf("%s, cut at byte %d of %d: read says %v, want all of one", name, cut, len(now), err)
			}
		}
	}
}

func TestAFileThatIsTakenAwayIsMadeAgain(t *testing.T) {
	file := &File{Path: filepath.Join(t.TempDir(), "state.json"), Kind: "test"}
	for range 3 {
		if err := file.Write(rich().State("test", "c")); err != nil {
			t.Fatal(err)
		}
		var got State
		if err := file.Read("c", &got, &got); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(file.Path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestForget(t *testing.T) {
	m := rich()
	m.GPU(Place{"n1", "GPU-a"}, start.Add(time.Hour))
	if m.Forget(start.Add(ForgetAfter)); m.Len() != 3 {
		t.Errorf("%d GPUs are remembered after %v, want 3", m.Len(), ForgetAfter)
	}
	if m.Forget(start.Add(ForgetAfter + time.Second)); m.Len() != 1 {
		t.Errorf("%d GPUs are remembered, want the one that was seen later", m.Len())
	}
	old := rich().State("test", "c")
	m = New(discard())
	if m.Restore(old, start.Add(ForgetAfter+time.Second)); m.Len() != 0 {
		t.Errorf("%d GPUs came back from an old file, want none", m.Len())
	}
}

// TestCounterFromTheFuture: the clock was wrong then or is now; the span isn't
// known, so the counter starts anew.
func TestCounterFromTheFuture(t *testing.T) {
	m := New(discard())
	m.Restore(rich().State("test", "c"), start.Add(-time.Hour))
	var g wire.Gpu
	if reset := m.GPU(Place{"n1", "GPU-b"}, start).MoveEnergy(&g, 1, "exporter", start); reset || g.EnergyMj != nil {
		t.Errorf("energy moved by %v, reset %v; want nothing", g.EnergyMj, reset)
	}
}

// TestM11ATellerOfNewGPUsIsForgotten: one that shows new UUIDs in each slot fills
// no memory; other nodes' GPUs stay.
func TestM11ATellerOfNewGPUsIsForgotten(t *testing.T) {
	m := New(discard())
	m.GPU(Place{"honest", "GPU-1"}, start)
	for slot := range 200 {
		at := start.Add(time.Duration(slot) * 10 * time.Second)
		for i := range 64 {
			m.GPU(Place{"liar", fmt.Sprintf("GPU-%d-%d", slot, i)}, at)
		}
		if m.Forget(at); m.Len() > maxPerNode+65 {
			t.Fatalf("%d GPUs are remembered after slot %d", m.Len(), slot)
		}
	}
	if m.gpus[Place{"honest", "GPU-1"}] == nil {
		t.Error("another node's GPU was forgotten")
	}
}

// TestForgetsInventedNodes: each slot an exporter names another node.
func TestForgetsInventedNodes(t *testing.T) {
	m := New(discard())
	for i := range 3 * maxAway {
		at := start.Add(time.Duration(i) * time.Second)
		m.GPU(Place{strconv.Itoa(i), "GPU"}, at)
		m.GPU(Place{"n1", "GPU-a"}, at)
		if i%100 == 0 {
			m.Forget(at)
		}
	}
	if m.Len() > maxAway+200 {
		t.Errorf("%d GPUs are remembered, want at most %d", m.Len(), maxAway+200)
	}
	if !m.GPU(Place{"n1", "GPU-a"}, start.Add(4*maxAway*time.Second)).energy.at.IsZero() {
		t.Error("the GPU is new")
	}
}
