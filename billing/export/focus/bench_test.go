package focus_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/gputally/gputally/billing/export/focus"
	"github.com/gputally/gputally/billing/rating"
)

// BenchmarkWrite writes a month of a tenant with twenty projects on GPUs of one
// model; an operation is a file, its rows are counted.
func BenchmarkWrite(b *testing.B) {
	var rows []rating.Row
	for hour := range 31 * 24 {
		for project := range 20 {
			rows = append(rows, rating.Row{
				Hour: march.Add(time.Duration(hour) * time.Hour), Tenant: "+a", Project: fmt.Sprintf("p%d", project),
				Model: "NVIDIA H100", Slices: 7, Bucket: []string{"active", "idle", "unproven"}[hour%3], SliceMS: int64(1_000_003 * (project + 1)),
			})
		}
	}
	month := rate(b, parse(b, hostileBook), "2026-03", rows)
	for b.Loop() {
		summary, err := focus.Write(io.Discard, focus.Options{}, month.bills(focus.KindInvoice))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(summary.Rows), "rows")
	}
}
