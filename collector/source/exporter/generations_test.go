package exporter

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

// physical is what a GPU did in a slot, in the units of the driver's library.
type physical struct {
	uuid, pod             string
	index                 int
	energyMJ              int64
	powerW, temp, memTemp float64
	utilPct, memPct       int
	smMHz, memMHz         int
	fbFreeMiB, fbUsedMiB  int64
	gr, sm, tensor, dram  float64
	xid                   int
	nvlinkKiB             int64
}

// shown is a metric as a generation shows it: name, HELP text, value.
type shown struct {
	name, help string
	value      func(p physical) float64
}

// generation is a version of dcgm-exporter.
type generation struct {
	name                                             string
	uuid, model, host, namespace, pod, more          string // labels
	energy, util, mem, smClock, memClock, free, used shown
	power, temp, memTemp, xid, gr, sm, tensor, dram  string
	nvlink                                           shown
}

func (g generation) metrics() []shown {
	plain := func(name string, v func(p physical) float64) shown { return shown{name, "", v} }
	return []shown{
		g.energy, g.util, g.mem, g.smClock, g.memClock, g.free, g.used, g.nvlink,
		{g.power, "Power draw (in W).", func(p physical) float64 { return p.powerW }},
		{g.temp, "GPU temperature (in C).", func(p physical) float64 { return p.temp }},
		{g.memTemp, "Memory temperature (in C).", func(p physical) float64 { return p.memTemp }},
		plain(g.xid, func(p physical) float64 { return float64(p.xid) }),
		plain(g.gr, func(p physical) float64 { return p.gr }),
		plain(g.sm, func(p physical) float64 { return p.sm }),
		plain(g.tensor, func(p physical) float64 { return p.tensor }),
		plain(g.dram, func(p physical) float64 { return p.dram }),
	}
}

func (g generation) labels(p physical) string {
	out := fmt.Sprintf(`gpu="%d",%s=%q,device="nvidia%d",%s="NVIDIA H100 80GB HBM3",%s="n1"%s`, p.index, g.uuid, p.uuid, p.index, g.model, g.host, g.more)
	if p.pod != "" {
		out += fmt.Sprintf(`,%s="team-a",%s=%q`, g.namespace, g.pod, p.pod)
	}
	return out
}

func (g generation) text(gpus []physical) string {
	var out strings.Builder
	for _, m := range g.metrics() {
		fmt.Fprintf(&out, "# HELP %s %s\n# TYPE %s gauge\n", m.name, m.help, m.name)
		for _, p := range gpus {
			fmt.Fprintf(&out, "%s{%s} %v\n", m.name, g.labels(p), m.value(p))
		}
	}
	return out.String()
}

func millijoules(p physical) float64 { return float64(p.energyMJ) }
func utilPercent(p physical) float64 { return float64(p.utilPct) }
func memPercent(p physical) float64  { return float64(p.memPct) }
func nvlinkMB(p physical) float64    { return float64(p.nvlinkKiB) / 1000 }

// sevenGenerations are dcgm-exporter's versions as far as names, labels and units
// tell them apart.
func sevenGenerations() []generation {
	classic := generation{
		name: "2.x", uuid: "UUID", model: "modelName", host: "Hostname", namespace: "exported_namespace", pod: "exported_pod",
		energy:   shown{"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Total energy consumption since boot (in mJ).", millijoules},
		util:     shown{"DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", utilPercent},
		mem:      shown{"DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization (in %).", memPercent},
		smClock:  shown{"DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).", func(p physical) float64 { return float64(p.smMHz) }},
		memClock: shown{"DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz).", func(p physical) float64 { return float64(p.memMHz) }},
		free:     shown{"DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).", func(p physical) float64 { return float64(p.fbFreeMiB) }},
		used:     shown{"DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", func(p physical) float64 { return float64(p.fbUsedMiB) }},
		nvlink:   shown{"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "Total number of NVLink bandwidth counters for all lanes", nvlinkMB},
		power:    "DCGM_FI_DEV_POWER_USAGE", temp: "DCGM_FI_DEV_GPU_TEMP", memTemp: "DCGM_FI_DEV_MEMORY_TEMP", xid: "DCGM_FI_DEV_XID_ERRORS",
		gr: "DCGM_FI_PROF_GR_ENGINE_ACTIVE", sm: "DCGM_FI_PROF_SM_ACTIVE", tensor: "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", dram: "DCGM_FI_PROF_DRAM_ACTIVE",
	}
	first := classic
	first.name, first.uuid, first.model, first.namespace, first.pod = "1.x", "uuid", "model_name", "pod_namespace", "pod_name"
	first.energy.name, first.util.name, first.mem.name = "dcgm_total_energy_consumption", "dcgm_gpu_utilization", "dcgm_mem_copy_utilization"
	first.smClock.name, first.memClock.name, first.free.name, first.used.name = "dcgm_sm_clock", "dcgm_memory_clock", "dcgm_fb_free", "dcgm_fb_used"
	first.power, first.temp, first.memTemp, first.xid = "dcgm_power_usage", "dcgm_gpu_temp", "dcgm_memory_temp", "dcgm_xid_errors"
	first.gr, first.sm, first.tensor = "dcgm_fi_prof_gr_engine_active", "dcgm_fi_prof_sm_active", "dcgm_fi_prof_pipe_tensor_active"
	first.dram, first.nvlink.name = "dcgm_fi_prof_dram_active", "dcgm_nvlink_bandwidth_total"

	third := classic
	third.name, third.namespace, third.pod, third.more = "3.x", "namespace", "pod", `,DCGM_FI_DRIVER_VERSION="535.104.05"`
	fourth := third
	fourth.name, fourth.more = "4.0 to 4.5", `,pci_bus_id="00000000:04:00.0",DCGM_FI_DRIVER_VERSION="580.65"`
	alias := fourth
	alias.name, alias.util.name, alias.power, alias.temp, alias.memTemp = "4.6 with new names", "DCGM_FI_DEV_GPU_UTIL_RATIO",
		"DCGM_FI_DEV_BOARD_POWER_WATTS", "DCGM_FI_DEV_GPU_TEMP_CELSIUS", "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS"
	alias.xid, alias.gr, alias.sm = "DCGM_FI_DEV_XID_ERROR", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", "DCGM_FI_PROF_SM_UTIL_RATIO"
	alias.tensor, alias.dram, alias.nvlink.name = "DCGM_FI_PROF_TENSOR_UTIL_RATIO", "DCGM_FI_PROF_DRAM_UTIL_RATIO", "DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL"
	hostname := fourth
	hostname.name, hostname.host = "4.8.3 and 4.8.4", "hostname"

	base := alias
	base.name, base.host, base.more = "4.9", "hostname", `,pci_bus_id="00000000:04:00.0",DCGM_FI_SYSTEM_DRIVER_VERSION="590.12"`
	base.energy = shown{"DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", "Total energy consumption since boot (in J).", func(p physical) float64 { return math.Floor(float64(p.energyMJ) / 1000) }}
	base.util = shown{"DCGM_FI_DEV_GPU_UTIL_RATIO", "GPU utilization ratio.", func(p physical) float64 { return float64(p.utilPct) / 100 }}
	base.mem = shown{"DCGM_FI_DEV_MEMORY_UTIL_RATIO", "Memory utilization ratio.", func(p physical) float64 { return float64(p.memPct) / 100 }}
	base.smClock = shown{"DCGM_FI_DEV_SM_CLOCK_HERTZ", "SM clock frequency (in Hz).", func(p physical) float64 { return float64(p.smMHz) * 1e6 }}
	base.memClock = shown{"DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", "Memory clock frequency (in Hz).", func(p physical) float64 { return float64(p.memMHz) * 1e6 }}
	base.free = shown{"DCGM_FI_DEV_FB_FREE_BYTES", "Framebuffer memory free (in bytes).", func(p physical) float64 { return float64(p.fbFreeMiB << 20) }}
	base.used = shown{"DCGM_FI_DEV_FB_USED_BYTES", "Framebuffer memory used (in bytes).", func(p physical) float64 { return float64(p.fbUsedMiB << 20) }}
	base.nvlink = shown{"DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", "", func(p physical) float64 { return float64(p.nvlinkKiB * 1024) }}
	return []generation{first, classic, third, fourth, alias, hostname, base}
}

// randomHour is what two GPUs do in four slots of a quarter of an hour, in values
// that all generations can say: whole joules, MiB and percent.
func randomHour(r *rand.Rand) (slots [][]physical) {
	counter := []int64{r.Int64N(1e9) * 1000, r.Int64N(1e9) * 1000}
	for range 5 {
		var gpus []physical
		for i := range counter {
			// It moves in every slot: an unchanged counter counts as absent.
			if before := counter[i] / 1000; before > 0 && r.IntN(20) == 0 {
				counter[i] = r.Int64N(min(before, 1000)) * 1000 // it was reset
			} else {
				counter[i] = (before + 1 + r.Int64N(700*900)) * 1000
			}
			used := r.Int64N(80_000)
			p := physical{
				uuid: fmt.Sprintf("GPU-%d", i), index: i, energyMJ: counter[i], powerW: 60 + math.Round(r.Float64()*640_000)/1000,
				temp: float64(25 + r.IntN(60)), memTemp: float64(25 + r.IntN(70)), utilPct: r.IntN(101), memPct: r.IntN(101),
				smMHz: 345 + r.IntN(1700), memMHz: 1593 + r.IntN(1200), fbUsedMiB: used, fbFreeMiB: 81_000 - used,
				gr: math.Round(r.Float64()*1e6) / 1e6, sm: math.Round(r.Float64()*1e6) / 1e6, tensor: r.Float64(), dram: r.Float64(),
				xid: []int{0, 0, 0, 31, 79}[r.IntN(5)], nvlinkKiB: r.Int64N(1e9),
			}
			if r.IntN(3) > 0 {
				p.pod = fmt.Sprintf("train-%d", r.IntN(3))
			}
			gpus = append(gpus, p)
		}
		slots = append(slots, gpus)
	}
	return slots
}

type answers func(req *http.Request) (*http.Response, error)

func (a answers) RoundTrip(req *http.Request) (*http.Response, error) { return a(req) }

// exposed scrapes a generation's hour, and settles each slot.
func exposed(t *testing.T, g generation, hour [][]physical) (batches []*wire.Batch, rows [][]meter.GPUSlot) {
	t.Helper()
	slot := source.Slot{Start: start, Length: 15 * time.Minute}
	clk := clock.NewFake(slot.End())
	text := ""
	client := &http.Client{Transport: answers(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text))}, nil
	})}
	cfg := DefaultConfig()
	cfg.Targets = []Target{{URL: "http://n1:9400/metrics", Node: "n1"}}
	src, err := New(cfg, Deps{Cluster: "c", HTTPClient: client, Clock: clk, Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	ids := meter.NewIdentities()
	for _, gpus := range hour {
		text = g.text(gpus)
		got, err := src.Read(context.Background(), slot)
		if err != nil || len(got) != 1 {
			t.Fatalf("%s: %d batches, %v", g.name, len(got), err)
		}
		src.Commit()
		got[0].Collector = "k"
		if err := wire.Validate(got[0]); err != nil {
			t.Fatalf("%s: %v", g.name, err)
		}
		batches, rows = append(batches, got[0]), append(rows, meter.Classify(got[0], ids))
		clk.Advance(slot.Length)
		slot = slot.Next()
	}
	return batches, rows
}

// TestSevenGenerationsOfOneHour: the same facts and the same rows of the ledger,
// whichever version of the exporter tells of the hour.
func TestSevenGenerationsOfOneHour(t *testing.T) {
	seed, hours := uint64(time.Now().UnixNano()), 1000
	if testing.Short() {
		hours = 20
	}
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for h := range hours {
		hour := randomHour(r)
		var want []*wire.Batch
		var wantRows [][]meter.GPUSlot
		for i, g := range sevenGenerations() {
			got, rows := exposed(t, g, hour)
			if i == 0 {
				want, wantRows = got, rows
				if last := got[len(got)-1].Gpus[0]; last.EnergyMj == nil || last.Leaves[0].GpuUtil == nil || len(last.MetricFields) != 11 {
					t.Fatalf("hour %d of seed %d: %s tells %v", h, seed, g.name, last)
				}
				continue
			}
			if same := slices.EqualFunc(want, got, func(a, b *wire.Batch) bool { return proto.Equal(a, b) }); !same {
				d := cmp.Diff(want, got, protocmp.Transform())
				t.Fatalf("hour %d of seed %d: %s differs from 1.x (-1.x +it):\n%s", h, seed, g.name, d)
			}
			if !reflect.DeepEqual(wantRows, rows) {
				t.Fatalf("hour %d of seed %d: rows of %s differ from 1.x's (-1.x +its):\n%s", h, seed, g.name, cmp.Diff(wantRows, rows))
			}
		}
	}
}

// TestWholeJoulesRoundByLessThanOne: a counter of whole joules tells of a movement
// within 1 J, and of an hour of slots within 1 J, too: what one slot lacks the next
// one has.
func TestWholeJoulesRoundByLessThanOne(t *testing.T) {
	gens := sevenGenerations()
	hour := randomHour(rand.New(rand.NewPCG(1, 2)))
	for i := range hour {
		for j := range hour[i] {
			hour[i][j].energyMJ = int64(1e9) + int64(i)*123_456_789 + int64(j)*777
		}
	}
	exact, _ := exposed(t, gens[1], hour)
	whole, _ := exposed(t, gens[6], hour)
	for g := range hour[0] {
		var sum int64
		for i := 1; i < len(exact); i++ {
			d := exact[i].Gpus[g].GetEnergyMj() - whole[i].Gpus[g].GetEnergyMj()
			if sum += d; d <= -1000 || d >= 1000 || sum <= -1000 || sum >= 1000 {
				t.Errorf("GPU %d, slot %d: differs by %d mJ, all slots by %d; want less than 1000", g, i, d, sum)
			}
		}
	}
}

// eighth is what nobody has made yet: new names, new units, and an old name with
// another unit in its HELP text.
const eighth = `# HELP DCGM_FI_DEV_GPU_ENERGY_KILOWATTHOURS_TOTAL Energy (in kWh).
DCGM_FI_DEV_GPU_ENERGY_KILOWATTHOURS_TOTAL{` + h100 + `} 1
DCGM_FI_DEV_GPU_UTIL_PERMILLE{` + h100 + `} 1000
DCGM_FI_DEV_FB_USED_GIBIBYTES{` + h100 + `} 40
# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in kW).
DCGM_FI_DEV_POWER_USAGE{` + h100 + `} 0.7
# HELP DCGM_FI_DEV_FB_FREE Framebuffer memory free (in bytes).
DCGM_FI_DEV_FB_FREE{` + h100 + `} 16777215
DCGM_FI_DEV_GPU_TEMP{` + h100 + `} 50
`

func TestAnEighthGenerationIsNamedAndNotGuessed(t *testing.T) {
	r := newRig(t, nil)
	var log bytes.Buffer
	r.deps.Log = slog.New(slog.NewTextHandler(&log, nil))
	r.restart()
	r.gpu(eighth)
	g := r.gpu(eighth)
	if g.Mig || g.EnergyMj != nil || g.PowerWatts != nil || g.Leaves[0].GpuUtil != nil {
		t.Errorf("got %v, want a whole GPU without energy, power and utilisation", g)
	}
	diff(t, []uint32{150}, g.MetricFields)
	for reason, want := range map[string]float64{absentUnknown: 6, field.AbsentHelp: 4} {
		if n := r.counter("gputally_exporter_values_absent_total", reason); n != want {
			t.Errorf("absent for %q: %v, want %v", reason, n, want)
		}
	}
	for _, name := range []string{"ENERGY_KILOWATTHOURS_TOTAL", "GPU_UTIL_PERMILLE", "FB_USED_GIBIBYTES", "POWER_USAGE", "FB_FREE"} {
		if n := strings.Count(log.String(), name); n != 1 {
			t.Errorf("%s is named %d times in the log, want once:\n%s", name, n, log.String())
		}
	}
}

func TestGPUUtilRatioIsDecidedByTheOthers(t *testing.T) {
	const name, newLabel = "DCGM_FI_DEV_GPU_UTIL_RATIO", `,DCGM_FI_SYSTEM_DRIVER_VERSION="590"`
	classic := row("DCGM_FI_DEV_FB_USED", h100, 7)
	base := row("DCGM_FI_DEV_FB_USED_BYTES", h100, 7<<20)
	for _, c := range []struct {
		label, text string
		want        *float64
		absent      string
	}{
		{"1 beside classic names", row(name, h100, 1) + classic, ptr(1.0), ""},
		{"1 beside base names", row(name, h100, 1) + base, ptr(100.0), ""},
		{"both: base names are of 4.7 alone", row(name, h100, 0.5) + classic + base, ptr(50.0), ""},
		{"29 hundredths", row(name, h100, 0.29) + base, ptr(29.0), ""},
		{"alone", row(name, h100, 1), nil, field.AbsentUndecided},
		{"alone, though only percent can be 37", row(name, h100, 37), nil, field.AbsentUndecided},
		{"the new label beside classic names", row(name, h100+newLabel, 1) + classic, nil, field.AbsentUndecided},
		{"a fraction beside classic names", row(name, h100, 0.37) + classic, nil, field.AbsentUndecided},
		{"37 beside base names", row(name, h100, 37) + base, nil, field.AbsentUndecided},
		{"a unit that it never has", "# HELP " + name + " GPU utilization (in kW).\n" + row(name, h100, 1) + base, nil, field.AbsentHelp},
	} {
		t.Run(c.label, func(t *testing.T) {
			r := newRig(t, nil)
			g := r.gpu(c.text)
			diff(t, c.want, g.Leaves[0].GpuUtil)
			if c.absent != "" && r.counter("gputally_exporter_values_absent_total", c.absent) != 1 {
				t.Errorf("the value is not counted as absent for %q", c.absent)
			}
		})
	}
}

// TestBothNamesOfAQuantityAreOne: the classic one counts, and is absent where the
// other one says something else.
func TestBothNamesOfAQuantityAreOne(t *testing.T) {
	r := newRig(t, nil)
	scrape := func(mj, joules int64) *wire.Gpu {
		return r.gpu(row("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", h100, mj) + row("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", h100, joules) +
			row("DCGM_FI_DEV_FB_USED", h100, 70_000) + row("DCGM_FI_DEV_FB_USED_BYTES", h100, 70_001<<20))
	}
	scrape(5_000_000_400, 5_000_000)
	g := scrape(5_007_000_900, 5_007_000)
	if g.GetEnergyMj() != 7_000_500 {
		t.Errorf("energy %d mJ, want the classic counter's 7000500, once", g.GetEnergyMj())
	}
	diff(t, []float64{70_000}, g.MetricValues)
	if g := scrape(5_014_000_000, 5_014_000_000); g.EnergyMj != nil {
		t.Errorf("two counters that differ by a factor of 1000: energy %d, want none", g.GetEnergyMj())
	}
	if n := r.counter("gputally_exporter_values_absent_total", field.AbsentContradiction); n != 1 {
		t.Errorf("contradictions counted: %v, want 1", n)
	}
}
