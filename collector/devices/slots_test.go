package devices_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/gputally/gputally/collector/devices"
	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/internal/wire"
)

func (r *rig) observe(b ...*wire.Batch) {
	r.t.Helper()
	for _, x := range b {
		x.Collector = "c"
		if err := wire.Validate(x); err != nil {
			r.t.Fatalf("the test's batch: %v", err)
		}
	}
	r.Observe(b)
}

// to moves the clock to the end of slot n.
func (r *rig) to(n int) { r.clock.Set(slotStart.Add(time.Duration(n+1) * 10 * time.Second)) }

const power = "DCGM_FI_DEV_POWER_USAGE"

func TestSilenceAfterThreeSlots(t *testing.T) {
	r := newRig(t)
	r.want("gputally_device_last_slot_timestamp_seconds", "Hostname")
	r.observe(batch(0, wholeGPU()))
	for _, c := range []struct {
		after time.Duration // the slot's end
		shown bool
	}{{-10 * time.Second, true}, {-11 * time.Second, false}, {0, true}, {30 * time.Second, true}, {30*time.Second + time.Millisecond, false}} {
		r.clock.Set(slotStart.Add(10*time.Second + c.after))
		if got := len(r.samples(power)) > 0; got != c.shown {
			t.Errorf("%s after the slot's end: shown %v, want %v", c.after, got, c.shown)
		}
		r.want("gputally_device_last_slot_timestamp_seconds", "Hostname", sample{"n1", float64(slotStart.Unix())})
	}
	r.to(7)
	r.observe(batch(7, wholeGPU()))
	r.want(power, "UUID", sample{"GPU-whole", 400})
}

func TestANodeWithoutABatchKeepsItsSlotWhileItIsFresh(t *testing.T) {
	r := newRig(t)
	other := batch(0, wholeGPU())
	other.Node, other.Gpus[0].Uuid = "n2", "GPU-other"
	r.observe(batch(0, wholeGPU()), other)
	r.to(3)
	r.observe(batch(3, wholeGPU()))
	r.want(power, "Hostname", sample{"n1", 400}, sample{"n2", 400})
	r.to(4)
	r.observe(batch(4, wholeGPU()))
	r.want(power, "Hostname", sample{"n1", 400})
}

func TestTheSameSlotAgainAndAnOlderOne(t *testing.T) {
	r := newRig(t)
	r.observe(batch(0, wholeGPU(hold("gpu", train))))
	r.observe(batch(0, wholeGPU(hold("gpu", train))))
	once := r.text()
	r.observe(batch(-1, wholeGPU(hold("gpu", serve))))
	if diff := cmp.Diff(once, r.text()); diff != "" {
		t.Errorf("after an older slot (-want +got):\n%s", diff)
	}
	r.want("gputally_gpu_energy_joules_total", "UUID", sample{"GPU-whole", 4000})
	r.observe(batch(0, wholeGPU(hold("gpu", serve))))
	r.want(power, "pod", sample{"serve-7", 400})
}

func TestObserveKeepsNothingOfABatch(t *testing.T) {
	r := newRig(t)
	b := batch(0, wholeGPU(hold("gpu", proto.CloneOf(train))))
	r.observe(b)
	want := r.text()
	b.Gpus[0].Holds[0].Owner.Pod, b.Gpus[0].Model, b.Gpus[0].MetricValues[0] = "x", "x", 1
	if diff := cmp.Diff(want, r.text()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEnergySinceTheCollectorsStart(t *testing.T) {
	r := newRig(t)
	move := func(n int, mj, spanMS int64) {
		r.to(n)
		g := wholeGPU(hold("gpu", train))
		g.EnergyMj, g.EnergySpanMs = &mj, &spanMS
		r.observe(batch(n, g))
	}
	move(0, 90_000_000, 3_600_000) // before the start
	r.want("gputally_gpu_energy_joules_total", "UUID pod", sample{"GPU-whole", 0})
	move(1, 4_000_500, 10_000)
	move(9, 32_000_000, 80_000) // slots that could not be read
	r.want("gputally_gpu_energy_joules_total", "UUID pod", sample{"GPU-whole", 36_000.5})
	r.to(10)
	r.observe(batch(10, &wire.Gpu{Uuid: "GPU-whole", Slices: 7, Lost: true}))
	r.want("gputally_gpu_energy_joules_total", "UUID", sample{"GPU-whole", 36_000.5})
}

func TestLostGPUs(t *testing.T) {
	const lost = "gputally_gpu_lost"
	r := newRig(t)
	r.observe(batch(0, wholeGPU(), migGPU()))
	r.want(lost, "UUID", sample{"GPU-mig", 0}, sample{"GPU-whole", 0})

	r.to(1)
	partial := batch(1, wholeGPU())
	partial.Enumeration = wire.Enumeration_ENUMERATION_PARTIAL
	r.observe(partial)
	r.want(lost, "UUID", sample{"GPU-whole", 0})

	r.to(2)
	gone := wholeGPU()
	gone.Lost = true
	r.observe(batch(2, gone))
	r.want(lost, "UUID modelName", sample{"GPU-mig NVIDIA A100-SXM4-40GB", 1}, sample{"GPU-whole NVIDIA H100 80GB HBM3", 1})
	r.want(power, "UUID")
	r.want("gputally_gpu_unhealthy", "UUID")

	r.to(3)
	elsewhere := batch(3, migGPU())
	elsewhere.Node = "n2"
	r.observe(batch(3, wholeGPU()), elsewhere)
	r.to(4)
	elsewhere.SlotStartMs += 10_000
	r.observe(batch(4, wholeGPU()), elsewhere)
	r.want(lost, "UUID Hostname", sample{"GPU-mig n2", 0}, sample{"GPU-whole n1", 0})
}

func TestAMissingGPUIsForgottenAfterADay(t *testing.T) {
	const day = 8640 // slots
	r := newRig(t)
	r.observe(batch(0, wholeGPU(), migGPU()))
	r.to(day)
	r.observe(batch(day, wholeGPU()))
	r.want("gputally_gpu_lost", "UUID", sample{"GPU-mig", 1}, sample{"GPU-whole", 0})
	r.to(day + 1)
	r.observe(batch(day+1, wholeGPU()))
	r.want("gputally_gpu_lost", "UUID", sample{"GPU-whole", 0})
}

func TestNothingOfASlotThatNobodySaw(t *testing.T) {
	r := newRig(t)
	b := batch(0, wholeGPU())
	b.Unobserved = true
	r.observe(b)
	r.want(power, "UUID")
	r.want("gputally_attribution_ok", "Hostname")
	r.want("gputally_device_last_slot_timestamp_seconds", "Hostname", sample{"n1", float64(slotStart.Unix())})
}

func TestLastXIDUntilAReset(t *testing.T) {
	const xid = "DCGM_FI_DEV_XID_ERRORS"
	r := newRig(t)
	slot := func(n int, events ...*wire.Event) {
		r.to(n)
		b := batch(n, wholeGPU(), migGPU())
		b.Events = events
		r.observe(b)
	}
	slot(0, &wire.Event{Gpu: "GPU-whole", Leaf: "gpu", Kind: "xid", Code: 48}, &wire.Event{Kind: "incident"})
	slot(1, &wire.Event{Gpu: "GPU-whole", Kind: "xid", Code: 63}, &wire.Event{Gpu: "GPU-mig", Leaf: "gi3ci0", Kind: "xid", Code: 31})
	slot(2)
	r.want(xid, "UUID GPU_I_ID GPU_C_I_ID", sample{"GPU-mig 3 0", 31}, sample{"GPU-whole", 63})
	slot(3, &wire.Event{Gpu: "GPU-whole", Kind: "reset"})
	r.want(xid, "UUID", sample{"GPU-mig", 31})
}

// TestEveryFieldHasAName keeps fields that sources read from losing theirs here.
func TestEveryFieldHasAName(t *testing.T) {
	g := wholeGPU()
	g.MetricFields, g.MetricValues = nil, nil
	for id := range uint32(2000) {
		// The batch has places of their own for these.
		if field.ByID(id) != nil && id != field.EnergyMJ && id != field.MIGMaxSlices {
			g.MetricFields, g.MetricValues = append(g.MetricFields, id), append(g.MetricValues, 1)
		}
	}
	r := newRig(t)
	r.observe(batch(0, g))
	r.want("gputally_gpu_dcgm_field_value", "field")
	for _, id := range g.MetricFields {
		if name := field.ByID(id).Names[0]; len(r.samples(name)) != 1 {
			t.Errorf("%s: %d series, want 1", name, len(r.samples(name)))
		}
	}
}

func TestFieldsReadByConfiguration(t *testing.T) {
	names := map[uint32]string{191: "DCGM_FI_DEV_FAN_SPEED", 240: "not a metric", 241: "gputally_gpu_lost", 242: "DCGM_FI_DEV_GPU_TEMP"}
	r := newRig(t, func(_ *devices.Config, deps *devices.Deps) {
		deps.FieldName = func(id uint32) string { return names[id] }
	})
	g := wholeGPU()
	g.MetricFields, g.MetricValues = []uint32{150, 191, 240, 241, 242, 243}, []float64{54, 30, 1, 2, 3, 4}
	r.observe(batch(0, g))
	r.want("DCGM_FI_DEV_FAN_SPEED", "UUID", sample{"GPU-whole", 30})
	r.want("DCGM_FI_DEV_GPU_TEMP", "UUID", sample{"GPU-whole", 54})
	r.want("gputally_gpu_dcgm_field_value", "field", sample{"240", 1}, sample{"241", 2}, sample{"242", 3}, sample{"243", 4})
}

// TestOneBadMetricSparesTheOthers: Prometheus would refuse all of them.
func TestOneBadMetricSparesTheOthers(t *testing.T) {
	r := newRig(t)
	twice := migGPU()
	twice.Leaves[2].Gi, twice.Leaves[2].Ci, twice.Leaves[2].Profile = twice.Leaves[1].Gi, nil, twice.Leaves[1].Profile
	const namespace = "n\xff\"\n"
	odd := wholeGPU(hold("gpu", &wire.Owner{Namespace: namespace, Pod: "p"}))
	odd.MetricFields = append(odd.MetricFields, 150)
	odd.MetricValues = append(odd.MetricValues, 99)
	r.observe(batch(0, twice, odd))
	r.want("DCGM_FI_PROF_SM_ACTIVE", "UUID modelName namespace",
		sample{"GPU-mig NVIDIA A100-SXM4-40GB", 0.5}, sample{"GPU-whole " + odd.Model + " " + wire.Name(namespace), 0.5})
	r.want("DCGM_FI_DEV_GPU_TEMP", "UUID", sample{"GPU-mig", 61}, sample{"GPU-whole", 54})
	if n := r.samples("gputally_device_rows_skipped_total"); n[0].Value == 0 {
		t.Error("nothing is counted as skipped")
	}
}

func TestConfigAndRegistration(t *testing.T) {
	for _, n := range []int{0, -1, 101} {
		if err := (devices.Config{MaxAgeSlots: n}).Validate(); err == nil || !strings.Contains(err.Error(), "max_age_slots") {
			t.Errorf("max_age_slots %d: error %v does not name it", n, err)
		}
	}
	r := newRig(t)
	if _, err := devices.New(devices.DefaultConfig(), devices.Deps{Registry: r.reg}); err == nil {
		t.Error("a second one registers with the same registry")
	}
	if _, err := devices.New(devices.Config{}, devices.Deps{Registry: prometheus.NewRegistry()}); err == nil {
		t.Error("a configuration that is none is taken")
	}
}

func TestScrapesWhileSlotsCome(t *testing.T) {
	r := newRig(t)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 20 {
				if _, err := r.reg.Gather(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := range 20 {
		r.to(n)
		r.observe(batch(n, wholeGPU(hold("gpu", train)), migGPU()))
	}
	wait.Wait()
	r.want("gputally_gpu_energy_joules_total", "UUID", sample{"GPU-whole", 80_000})
}
