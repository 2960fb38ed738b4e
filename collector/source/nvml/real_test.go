package nvml

import (
	"encoding/csv"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/local"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

// smi is what nvidia-smi says of one GPU, by the names of its query.
type smi map[string]string

const smiQuery = "uuid,name,index,driver_version,vbios_version,pci.bus_id,temperature.gpu,power.draw,memory.total,memory.used,mig.mode.current,ecc.errors.uncorrected.volatile.total"

func askSMI(t *testing.T) (boards []smi) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "nvidia-smi", "--query-gpu="+smiQuery, "--format=csv,noheader,nounits").Output()
	if err != nil {
		t.Fatalf("run nvidia-smi: %v", err)
	}
	lines := csv.NewReader(strings.NewReader(string(out)))
	lines.TrimLeadingSpace = true
	rows, err := lines.ReadAll()
	if err != nil {
		t.Fatalf("read nvidia-smi's answer %q: %v", out, err)
	}
	names := strings.Split(smiQuery, ",")
	for _, row := range rows {
		b := smi{}
		for i, name := range names {
			b[name] = row[i]
		}
		boards = append(boards, b)
	}
	return boards
}

// near compares a value with nvidia-smi's, which was read a moment later.
func (b smi) near(t *testing.T, name string, got *float64, within float64) {
	t.Helper()
	want, err := strconv.ParseFloat(b[name], 64)
	switch {
	case err != nil: // "[N/A]"
		if got != nil {
			t.Errorf("%s is %v, nvidia-smi says %s", name, *got, b[name])
		}
	case got == nil:
		t.Errorf("%s is absent, nvidia-smi says %v", name, want)
	case math.Abs(*got-want) > within:
		t.Errorf("%s is %v, nvidia-smi says %v", name, *got, want)
	}
}

// TestRealCard reads the cards of this machine twice and compares with
// nvidia-smi.
func TestRealCard(t *testing.T) {
	if os.Getenv("GPUTALLY_REAL_GPU") != "1" {
		t.Skip("needs an NVIDIA GPU and its driver: set GPUTALLY_REAL_GPU=1 where they are")
	}
	clk, log := clock.Real(), slog.New(slog.NewTextHandler(t.Output(), nil))
	reg := prometheus.NewPedanticRegistry()
	builder, err := local.New(local.DefaultConfig(), local.Deps{Cluster: "c", Node: "n", Clock: clk, Log: log, Registry: reg})
	if err != nil {
		t.Fatal(err)
	}
	src, err := New(DefaultConfig(), builder)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	var b *wire.Batch
	for range 2 {
		slot := source.At(clk.Now(), 2*time.Second)
		if err := clock.Sleep(t.Context(), clk, slot.End().Sub(clk.Now())); err != nil {
			t.Fatal(err)
		}
		src.Watch()
		before := clk.Now()
		batches, err := src.Read(t.Context(), slot)
		src.Commit()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("read in %v", clk.Since(before))
		b = batches[0]
		b.Collector = "test"
		if err := wire.Validate(b); err != nil {
			t.Error(err)
		}
	}
	boards := askSMI(t)
	if len(b.Gpus) != len(boards) {
		t.Fatalf("batch lists %d GPUs, nvidia-smi %d", len(b.Gpus), len(boards))
	}
	t.Logf("info: %+v\nbatch: %v", src.Info(), b)
	for i, g := range b.Gpus {
		compareCard(t, src.Info(), g, boards[i])
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		t.Log(f)
	}
}

func compareCard(t *testing.T, info source.Info, g *wire.Gpu, want smi) {
	t.Helper()
	i := info.GPUs[g.Uuid]
	for name, got := range map[string]string{
		"uuid": g.Uuid, "name": g.Model, "index": strconv.Itoa(int(g.Index)), "driver_version": info.Driver,
		"vbios_version": i.VBIOS, "pci.bus_id": i.PCIBusID,
	} {
		if got != want[name] {
			t.Errorf("%s is %q, nvidia-smi says %q", name, got, want[name])
		}
	}
	if g.Mig != (want["mig.mode.current"] == "Enabled") {
		t.Errorf("MIG is %v, nvidia-smi says %s", g.Mig, want["mig.mode.current"])
	}
	board := func(id uint32) *float64 { return metric(id, g.MetricFields, g.MetricValues) }
	want.near(t, "temperature.gpu", board(150), 5)
	want.near(t, "power.draw", g.PowerWatts, 60)
	want.near(t, "memory.total", board(250), 1)
	want.near(t, "memory.used", board(252), 2048)
	want.near(t, "ecc.errors.uncorrected.volatile.total", board(311), 0)
	if g.EnergyMj == nil || g.GetEnergySpanMs() < 500 || g.GetEnergySpanMs() > 5000 {
		t.Errorf("energy is %v over %d ms, want some over 2 s", g.EnergyMj, g.GetEnergySpanMs())
	}
	for _, l := range g.Leaves {
		if l.SmActive != nil && (*l.SmActive < 0 || *l.SmActive > 1) {
			t.Errorf("SM activity of %s is %v, want 0 to 1", l.Id, *l.SmActive)
		}
	}
}
