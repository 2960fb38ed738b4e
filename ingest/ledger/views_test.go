package ledger_test

import (
	"testing"
	"time"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

const (
	dumpSamples5m = `
SELECT concat(toString(at), ' ', gpu, ' slots ', toString(slots), ' sm ', ifNull(toString(round(sm_active_ratio, 4)), 'NULL'),
              ' power ', ifNull(toString(power_watts), 'NULL'), ' energy ', ifNull(toString(energy_joules), 'NULL'),
              ' memory ', ifNull(toString(memory_used_bytes), 'NULL'), ' temperature ', ifNull(toString(temperature_celsius), 'NULL'),
              ' clock ', ifNull(toString(sm_clock_hertz), 'NULL'), ' pcie ', ifNull(toString(pcie_transmit_bytes_per_second), 'NULL'),
              ' xid ', ifNull(toString(xid_code), 'NULL')) AS line
FROM samples_5m ORDER BY at, gpu`
	dumpDaily = `
SELECT concat(toString(day), ' ', model, ' ', kind, ' ', tenant, ' ', toString(gpu_hours), ' GPU-hours, ', toString(energy_joules), ' J, active ',
              toString(active_slice_ms), ', free ', toString(free_slice_ms)) AS line
FROM usage_daily ORDER BY line`
	dailyAgainstHourly = `
SELECT concat(toString((SELECT sum(active_slice_ms + idle_slice_ms + unproven_slice_ms + free_slice_ms + stranded_slice_ms + unhealthy_slice_ms + unobserved_slice_ms) FROM usage_daily)), ' ', toString((SELECT sum(energy_joules) FROM usage_daily))) AS line
UNION ALL
SELECT concat(toString(sum(toUInt64(slices) * present_ms)), ' ',
              toString(toDecimal128(sum(platform_energy_mj + unattributed_mj + arraySum(energy_mj)), 3) / 1000))
FROM usage_hourly FINAL WHERE present_ms > 0`
)

// TestSamplesByFiveMinutes: means in base units, NULL where nothing was read.
func TestSamplesByFiveMinutes(t *testing.T) {
	h := newHouse(t, clock.NewFake(monday.Add(8*time.Hour)))
	f := newFleet(1, time.Minute, 1, 0)
	batches := f.node(monday, monday.Add(7*time.Minute), "A")
	for i, b := range batches {
		g := b.Gpus[0]
		g.PowerWatts, g.EnergyMj = new(float64(100+10*i)), new(int64(6_000_000))
		if i%2 == 0 {
			g.Leaves[0].SmActive = new(float64(i) / 10)
		}
		if i < 5 {
			// DCGM fields 252 (frame buffer used, MiB), 150 (°C), 100 (MHz), 1009 (bytes/s), 230 (XID).
			g.MetricFields, g.MetricValues = []uint32{252, 150, 100, 1009, 230}, []float64{2, 40, 1980, 2048, float64(i)}
		}
	}
	h.topic.append(t, batches...)
	h.ingest(t)
	h.want(t, "samples by five minutes", dumpSamples5m,
		"2026-03-02 00:00:00 A slots 5 sm 0.2 power 120 energy 30000 memory 2097152 temperature 40 clock 1980000000 pcie 2048 xid 4",
		"2026-03-02 00:05:00 A slots 2 sm 0.6 power 155 energy 12000 memory NULL temperature NULL clock NULL pcie NULL xid NULL")
}

// TestUsageByDay: days sum to the hours they come from.
func TestUsageByDay(t *testing.T) {
	h := newHouse(t, clock.NewFake(monday.Add(48*time.Hour)))
	f := newFleet(1, time.Minute, 1, 0)
	batches := f.node(monday.Add(-2*time.Hour), monday.Add(90*time.Minute), "A", "B")
	for _, b := range batches[:30] {
		g := b.Gpus[0]
		g.EnergyMj, g.Leaves[0].SmActive = new(int64(1001)), new(0.5)
		g.Holds = []*wire.Hold{{Leaf: "gpu", Owner: &wire.Owner{Uid: "u", Namespace: "team"}}}
	}
	h.topic.append(t, batches...)
	h.ingest(t)
	h.pass(t, h.ledger(t, h.db, nil), 4)
	h.want(t, "usage by day", dumpDaily,
		"2026-03-01 NVIDIA H100 80GB HBM3 owner team 0.5 GPU-hours, 30.03 J, active 12600000, free 0",
		"2026-03-01 NVIDIA H100 80GB HBM3 platform  3.5 GPU-hours, 0 J, active 0, free 88200000",
		"2026-03-02 NVIDIA H100 80GB HBM3 platform  3 GPU-hours, 0 J, active 0, free 75600000")

	random := newHouse(t, clock.NewFake(monday.Add(48*time.Hour)))
	random.topic.append(t, newFleet(9, time.Minute, 2, 4).hours(monday.Add(-90*time.Minute), 3)...)
	random.ingest(t)
	if _, err := random.ledger(t, random.db, nil).Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sums := random.dump(t, dailyAgainstHourly); len(sums) != 2 || sums[0] != sums[1] {
		t.Errorf("slice-ms and joules by day and by hour differ: %v", sums)
	}
}
