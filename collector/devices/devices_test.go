package devices_test

import (
	"bytes"
	"flag"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/proto"

	"github.com/gputally/gputally/collector/devices"
	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/tenants"
	"github.com/gputally/gputally/internal/wire"
)

var update = flag.Bool("update", false, "write the goldens")

var slotStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const mapping = `versions:
- effective: 2026-03-01T00:00:00Z
  rules:
  - {match: {namespace: "ml-*"}, tenant: research, project: models}
  - {match: {account: physics}, tenant: science}
- effective: 2026-03-01T13:00:00Z
  rules:
  - {match: {namespace: "ml-*"}, tenant: renamed}
`

// rig is Devices on a clock that stands at the end of the first slot.
type rig struct {
	*devices.Devices
	t     testing.TB
	clock *clock.Fake
	reg   *prometheus.Registry
}

func newRig(t testing.TB, change ...func(*devices.Config, *devices.Deps)) *rig {
	t.Helper()
	m, err := tenants.Parse("tenants.yaml", []byte(mapping))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, clock: clock.NewFake(slotStart.Add(10 * time.Second)), reg: prometheus.NewPedanticRegistry()}
	cfg := devices.DefaultConfig()
	deps := devices.Deps{Tenants: m, Info: info, Clock: r.clock, Log: discard(), Registry: r.reg}
	for _, c := range change {
		c(&cfg, &deps)
	}
	if r.Devices, err = devices.New(cfg, deps); err != nil {
		t.Fatal(err)
	}
	return r
}

func info() source.Info {
	return source.Info{Driver: "570.86.15", CUDA: "12.8", DCGM: "4.6.0", NVML: "12.570.86.15", GPUs: map[string]source.GPUInfo{
		"GPU-whole": {VBIOS: "96.00.61.00.01", Serial: "1650924012345", PCIBusID: "00000000:18:00.0", Minor: proto.Uint32(3)},
		"GPU-mig":   {PCIBusID: "00000000:2A:00.0", Minor: proto.Uint32(0)},
	}}
}

// batch is slot n of node n1, of 10 s, with GPUs.
func batch(n int, gpus ...*wire.Gpu) *wire.Batch {
	return &wire.Batch{
		Format: wire.Format, Cluster: "k", Node: "n1", SlotStartMs: slotStart.UnixMilli() + int64(n)*10_000, SlotMs: 10_000,
		Attribution: wire.Attribution_ATTRIBUTION_OK, Enumeration: wire.Enumeration_ENUMERATION_COMPLETE, Gpus: gpus,
	}
}

var (
	train = &wire.Owner{Namespace: "ml-vision", Pod: "train-0", Uid: "6f1c", Container: "main"}
	serve = &wire.Owner{Namespace: "ml-vision", Pod: "serve-7", Uid: "77aa", Container: "main"}
	job   = &wire.Owner{Job: "4711", User: "eve", Account: "physics"}
)

// wholeGPU is an H100 that works at 400 W.
func wholeGPU(holds ...*wire.Hold) *wire.Gpu {
	return &wire.Gpu{
		Uuid: "GPU-whole", Model: "NVIDIA H100 80GB HBM3", Slices: 7, Index: 2,
		PowerWatts: proto.Float64(400), IdleWatts: proto.Float64(80), EnergyMj: proto.Int64(4_000_000), EnergySpanMs: proto.Int64(10_000),
		Leaves:       []*wire.Leaf{{Id: "gpu", Slices: 7, SmActive: proto.Float64(0.5), GrEngineActive: proto.Float64(0.75), GpuUtil: proto.Float64(99)}},
		Holds:        holds,
		MetricFields: []uint32{150, 202, 252, 9999}, MetricValues: []float64{54, 3, 70_123, 1.5},
	}
}

// migGPU has a 3g at work, an idle 1g compute instance of a 2g, and 2 slices that
// nothing covers; an instance that is gone at the slot's end had the 3g's id.
func migGPU(holds ...*wire.Hold) *wire.Gpu {
	return &wire.Gpu{
		Uuid: "GPU-mig", Model: "NVIDIA A100-SXM4-40GB", Slices: 7, Mig: true, Index: 1, PowerWatts: proto.Float64(210),
		Leaves: []*wire.Leaf{
			{Id: "gi1.gone", Slices: 3, Profile: "3g.20gb", Gi: proto.Uint32(1), ToMs: proto.Int64(4000)},
			{
				Id: "gi1", Slices: 3, Profile: "3g.20gb", Gi: proto.Uint32(1), FromMs: proto.Int64(4000), SmActive: proto.Float64(0.5),
				MetricFields: []uint32{252, 1005}, MetricValues: []float64{12_000, 0.25},
			},
			{
				Id: "gi3ci0", Slices: 1, Profile: "1c.2g.10gb", Gi: proto.Uint32(3), Ci: proto.Uint32(0), SmActive: proto.Float64(0), Unhealthy: true,
				MetricFields: []uint32{252}, MetricValues: []float64{10},
			},
		},
		Holds:        holds,
		MetricFields: []uint32{150, 252, 1002}, MetricValues: []float64{61, 12_010, 0.2},
	}
}

func hold(leaf string, o *wire.Owner) *wire.Hold { return &wire.Hold{Leaf: leaf, Owner: o} }

func (r *rig) gather() []*dto.MetricFamily {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatalf("gather: %v", err)
	}
	return families
}

func (r *rig) text() string {
	r.t.Helper()
	var out bytes.Buffer
	for _, f := range r.gather() {
		if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
			r.t.Fatal(err)
		}
	}
	return out.String()
}

// sample is one series: what it has of the labels asked for, in their order, and
// the value.
type sample struct {
	Labels string
	Value  float64
}

// samples are a metric's series in the order of the exposition.
func (r *rig) samples(name string, names ...string) []sample {
	r.t.Helper()
	var out []sample
	for _, f := range r.gather() {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.Metric {
			var values []string
			for _, name := range names {
				if i := slices.IndexFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName() == name }); i >= 0 {
					values = append(values, m.Label[i].GetValue())
				}
			}
			out = append(out, sample{strings.Join(values, " "), m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()})
		}
	}
	return out
}

func (r *rig) want(name string, labels string, want ...sample) {
	r.t.Helper()
	got := r.samples(name, strings.Fields(labels)...)
	slices.SortFunc(got, func(a, b sample) int { return strings.Compare(a.Labels, b.Labels) })
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("%s by %s (-want +got):\n%s", name, labels, diff)
	}
}

// scene is a node with everything: a whole GPU of a pod, instances of a job and
// of a pod, a GPU shared by replicas, a lost one.
func scene() *wire.Batch {
	shared := wholeGPU(hold("gpu", train), hold("gpu", serve), hold("gpu", serve))
	shared.Uuid, shared.Index, shared.Leaves[0].Replicas, shared.Unhealthy = "GPU-shared", 0, 4, true
	b := batch(0, shared, migGPU(hold("gi1", job), hold("gi3ci0", train)), wholeGPU(hold("gpu", train)),
		&wire.Gpu{Uuid: "GPU-lost", Model: "NVIDIA H100 80GB HBM3", Index: 3, Slices: 7, Lost: true})
	b.Events = []*wire.Event{{Gpu: "GPU-shared", Kind: "xid", Code: 79}, {Gpu: "GPU-mig", Leaf: "gi1", Kind: "xid", Code: 31}, {Gpu: "GPU-gone", Kind: "xid", Code: 48}}
	return b
}

func TestGolden(t *testing.T) {
	r := newRig(t)
	r.Observe([]*wire.Batch{scene()})
	got := r.text()
	const file = "testdata/scene.prom"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// TestPromtoolFindsNothing but the names that are DCGM's and dcgm-exporter's own.
func TestPromtoolFindsNothing(t *testing.T) {
	path, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("promtool is needed in CI: %v", err)
		}
		t.Skipf("needs promtool, of the package prometheus: %v", err)
	}
	r := newRig(t)
	r.Observe([]*wire.Batch{scene()})
	cmd := exec.CommandContext(t.Context(), path, "check", "metrics")
	cmd.Stdin = strings.NewReader(r.text())
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState.ExitCode() != 3 { // 3: something was found
		t.Fatalf("promtool check metrics: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "DCGM_FI_") && !strings.Contains(line, "label names should be written in 'snake_case'") {
			t.Errorf("promtool: %s", line)
		}
	}
}

func discard() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }
