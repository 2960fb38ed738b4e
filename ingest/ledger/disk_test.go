package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

const dumpBytes = `
SELECT concat(table, ' ', toString(sum(bytes_on_disk))) AS line
FROM system.parts
WHERE database = currentDatabase() AND active AND table IN ('holds', 'samples', 'batches', 'usage_hourly')
GROUP BY table ORDER BY table`

// busy makes a day of a node of eight GPUs in slots of ten seconds, with the
// noise that real ones have: owners for hours, half of the time at work, means
// that wander, clocks and memory that stay.
func (f *fleet) busy(b *wire.Batch, mig bool) {
	for i := range 8 {
		g := boards(fmt.Sprintf("GPU-%012d", i))[0]
		g.PowerWatts, g.EnergyMj = new(300+float64(f.IntN(2000))/10), new(3_000_000+f.Int64N(2_000_000))
		g.MetricFields, g.MetricValues = []uint32{252, 251, 150, 140, 100, 101, 1009, 1010, 1011}, []float64{
			60_000, 21_000, float64(50 + f.IntN(4)), float64(60 + f.IntN(3)), 1980, 2619, float64(f.IntN(1 << 28)), float64(f.IntN(1 << 28)), float64(f.IntN(1 << 30)),
		}
		if mig {
			g.Mig, g.Leaves = true, nil
			for gi := range uint32(7) {
				g.Leaves = append(g.Leaves, &wire.Leaf{Id: fmt.Sprintf("gi-%d", gi), Slices: 1, Profile: "1g.10gb", Gi: new(gi)})
			}
		}
		for n, l := range g.Leaves {
			f.work(b, g, l, i*7+n)
		}
		b.Gpus = append(b.Gpus, g)
	}
}

// work gives a leaf its owner of the hour, and lets it work every other hour.
func (f *fleet) work(b *wire.Batch, g *wire.Gpu, l *wire.Leaf, n int) {
	hour := int(b.SlotStartMs / 3_600_000)
	l.SmActive, l.GrEngineActive = new(0.0), new(0.0)
	if (hour+n)%2 == 0 {
		*l.SmActive = 0.5 + float64(f.IntN(3000))/10_000
		*l.GrEngineActive = *l.SmActive + 0.1
	}
	l.MetricFields, l.MetricValues = []uint32{1004, 1005}, []float64{*l.SmActive * 0.6, *l.SmActive * 0.4}
	if pod := fmt.Sprintf("pod-%d-%d", n, hour/3); (hour/3+n)%4 != 0 {
		g.Holds = append(g.Holds, &wire.Hold{Leaf: l.Id, Owner: &wire.Owner{Uid: pod, Namespace: "team", Pod: pod, Container: "main"}})
	}
}

// BenchmarkDiskPerGPUDay measures, after all merges, what `config check`
// reckons with: bytes per GPU and day of each table, and per node and slot of
// the message.
func BenchmarkDiskPerGPUDay(b *testing.B) {
	for _, mig := range []bool{false, true} {
		b.Run(fmt.Sprintf("mig=%v", mig), func(b *testing.B) {
			for b.Loop() {
				h := newHouse(b, clock.NewFake(monday.Add(48*time.Hour)))
				f := newFleet(1, 10*time.Second, 1, 0)
				var message int
				for at := monday; at.Before(monday.Add(day)); at = at.Add(10 * time.Second) {
					batch := f.batch(0, at.UnixMilli())
					batch.Attribution, batch.Observed = wire.Attribution_ATTRIBUTION_OK, nil
					f.busy(batch, mig)
					message += proto.Size(batch)
					h.topic.append(b, batch)
				}
				h.ingest(b)
				if _, err := h.ledger(b, h.db, nil).Pass(b.Context()); err != nil {
					b.Fatal(err)
				}
				h.exec(b, "OPTIMIZE TABLE holds FINAL", "OPTIMIZE TABLE samples FINAL", "OPTIMIZE TABLE batches FINAL", "OPTIMIZE TABLE usage_hourly FINAL")
				for _, line := range h.dump(b, dumpBytes) {
					var table string
					var bytes float64
					if _, err := fmt.Sscan(line, &table, &bytes); err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(bytes/8, table+"-B/GPU-day")
				}
				b.ReportMetric(float64(message)/8640, "message-B/node-slot")
			}
		})
	}
}
