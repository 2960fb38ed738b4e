package meter_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/wire"
)

// TestFoundByRandomClusters keeps, as small as they get, what the comparison
// with the slow model once found.
func TestFoundByRandomClusters(t *testing.T) {
	const hour0, hour1 = "2026-03-01T00:00:00Z", "2026-03-01T01:00:00Z"
	held := func(node, at string, slices uint32) *wire.Batch {
		b := listed(t, node, at, slices)
		b.Gpus[0].Leaves = []*wire.Leaf{{Id: "gpu", SmActive: ptr(0.8)}}
		b.Gpus[0].Holds = []*wire.Hold{{Leaf: "gpu", Owner: &wire.Owner{Namespace: "a"}}}
		return b
	}
	failed := func(node, at string, slices uint32) *wire.Batch {
		b := held(node, at, slices)
		b.Attribution = wire.Attribution_ATTRIBUTION_FAILED
		return b
	}
	nobody := func(at string) *wire.Batch {
		b := listed(t, "n1", at, 7)
		b.Gpus = nil
		return b
	}
	closed := func(at string) map[string][]int64 {
		return map[string][]int64{"GPU-a": {listed(t, "n1", at, 7).SlotStartMs}}
	}
	for name, c := range map[string]struct {
		batches     []*wire.Batch
		want        map[usageKey]usage
		retirements map[string][]int64
	}{
		"R2 a closed GPU comes back with fewer slices": {
			[]*wire.Batch{held("n1", "00:00:00", 2), nobody("00:00:10"), nobody("00:00:20"), held("n1", "00:00:30", 1)},
			map[usageKey]usage{
				{hour0, "GPU-a", "a"}: {active: 30_000},
				{hour0, "GPU-a", ""}:  {unhealthy: 20_000, stranded: 10_000},
			},
			closed("00:00:20"),
		},
		"R2 a closed GPU comes back with more slices": {
			[]*wire.Batch{held("n1", "00:00:00", 2), nobody("00:00:10"), nobody("00:00:20"), held("n1", "00:00:30", 3)},
			map[usageKey]usage{
				{hour0, "GPU-a", "a"}: {active: 20_000},
				{hour0, "GPU-a", ""}:  {unhealthy: 20_000, unobserved: 20_000},
			},
			closed("00:00:20"),
		},
		"R10 no gap reaches over a closing": {
			[]*wire.Batch{held("n1", "00:00:00", 7), held("n1", "00:00:20", 7)},
			map[usageKey]usage{{hour0, "GPU-a", "a"}: {active: 140_000}},
			closed("00:00:10"),
		},
		"R14 a closing just before the hour ends all runs": {
			[]*wire.Batch{
				held("n1", "00:59:30", 7), held("n1", "00:59:40", 7), held("n2", "00:59:40", 7),
				held("n1", "00:59:50", 7), held("n2", "00:59:50", 7), held("n1", "01:00:10", 7),
			},
			map[usageKey]usage{
				{hour0, "GPU-a", "a"}: {active: 210_000},
				{hour1, "GPU-a", "a"}: {active: 70_000, unproven: 70_000},
			},
			closed("00:59:50"),
		},
		"R10 no gap reaches over a slot that another node had": {
			[]*wire.Batch{held("n1", "00:00:00", 7), failed("n2", "00:00:10", 7), held("n1", "00:00:20", 7)},
			map[usageKey]usage{
				{hour0, "GPU-a", "a"}: {active: 140_000},
				{hour0, "GPU-a", ""}:  {unobserved: 70_000},
			},
			nil,
		},
		"R10 a side beyond its own hour's capacity holds nothing": {
			[]*wire.Batch{listed(t, "n1", "00:59:40", 4), held("n1", "00:59:50", 7), held("n1", "01:00:10", 7)},
			map[usageKey]usage{
				{hour0, "GPU-a", ""}:  {stranded: 40_000, unobserved: 40_000},
				{hour1, "GPU-a", ""}:  {unobserved: 70_000},
				{hour1, "GPU-a", "a"}: {active: 70_000},
			},
			nil,
		},
		"R14 who had the GPU just before the hour": {
			[]*wire.Batch{
				held("n1", "00:59:30", 7), listed(t, "n2", "00:59:40", 7), failed("n1", "00:59:50", 7), held("n1", "01:00:10", 7),
			},
			map[usageKey]usage{
				{hour0, "GPU-a", "a"}: {active: 70_000},
				{hour0, "GPU-a", ""}:  {stranded: 70_000, unobserved: 70_000},
				{hour1, "GPU-a", ""}:  {unobserved: 70_000},
				{hour1, "GPU-a", "a"}: {active: 70_000},
			},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := computeRetired(t, c.batches, c.retirements)
			figures := cmp.AllowUnexported(usage{}, usageKey{})
			if diff := cmp.Diff(c.want, got, figures); diff != "" {
				t.Errorf("usage differs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.want, slowUsage(c.batches, c.retirements), figures); diff != "" {
				t.Errorf("usage by the slow model differs (-want +got):\n%s", diff)
			}
			rebuilt, _ := computeRebuilt(t, c.batches, c.retirements)
			if diff := cmp.Diff(c.want, rebuilt, figures); diff != "" {
				t.Errorf("usage by a rebuilt inventory differs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnreadTime: what is inferred over a batch without owners counts against
// that batch's own observed time only.
func TestUnreadTime(t *testing.T) {
	held := func(at string) *wire.Batch {
		b := listed(t, "n1", at, 1)
		b.Gpus[0].Leaves = []*wire.Leaf{{Id: "gpu"}}
		b.Gpus[0].Holds = []*wire.Hold{{Leaf: "gpu", Owner: &wire.Owner{Namespace: "a"}}}
		return b
	}
	failed := func(at string) *wire.Batch {
		b := held(at)
		b.Attribution = wire.Attribution_ATTRIBUTION_FAILED
		return b
	}
	partly := failed("00:00:10")
	partly.Observed = []*wire.Interval{{FromMs: 0, ToMs: 3000}}
	_, hours := computeCluster(t, []*wire.Batch{held("00:00:00"), partly, held("00:00:20"), failed("00:00:30")})
	if got := hours[0]; got.UnobservedAttribution != 10_000 || got.Unobserved != 10_000 {
		t.Errorf("%d of %d unobserved slice-ms are for want of owners; want 10000 of 10000", got.UnobservedAttribution, got.Unobserved)
	}
}

func TestProfileAttributesDontChangeSlices(t *testing.T) {
	b := listed(t, "n1", "00:00:00", 7)
	b.Gpus[0].Mig, b.Gpus[0].Model = true, "NVIDIA H100 80GB HBM3"
	b.Gpus[0].Leaves = []*wire.Leaf{{Id: "gi1", Gi: ptr(uint32(1)), Profile: "3g.40gb+me"}}
	got, _ := computeCluster(t, []*wire.Batch{b})
	want := map[usageKey]usage{{"2026-03-01T00:00:00Z", "GPU-a", ""}: {free: 30_000, stranded: 40_000}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(usage{}, usageKey{})); diff != "" {
		t.Errorf("usage differs (-want +got):\n%s", diff)
	}
}

// listed is a batch of 10 s on 2026-03-01 that lists GPU-a without leaves.
func listed(t *testing.T, node, clock string, slices uint32) *wire.Batch {
	t.Helper()
	b, err := wire.ParseJSONLine([]byte(`{"cluster":"k","node":"` + node + `","slot":"2026-03-01T` + clock +
		`Z","slot_ms":10000,"collector":"c","boot_ms":1,"seq":0,"gpus":[{"uuid":"GPU-a"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	b.Gpus[0].Slices = slices
	return b
}

func ptr[T any](v T) *T { return &v }
