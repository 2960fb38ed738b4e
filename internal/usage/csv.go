package usage

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
)

// measures are the columns of a CSV after the grouping columns.
var measures = []string{
	"active_slice_ms", "idle_slice_ms", "unproven_slice_ms", "free_slice_ms",
	"stranded_slice_ms", "unhealthy_slice_ms", "unobserved_slice_ms", "gpu_hours", "energy_joules",
}

// WriteCSV writes the rows of a query as RFC 4180 with a header: the grouping columns, then the seven buckets in
// slice_ms, gpu_hours (decimal, at most 9 places) and energy_joules (three places).
func WriteCSV(w io.Writer, q Query, rows []Row) error {
	out := csv.NewWriter(w)
	if err := out.Write(slices.Concat(q.By, measures)); err != nil {
		return fmt.Errorf("write usage: %w", err)
	}
	for _, row := range rows {
		record := make([]string, 0, len(row.By)+len(measures))
		for _, value := range row.By {
			record = append(record, TextCell(value))
		}
		for _, bucket := range row.Buckets {
			record = append(record, bucket.String())
		}
		if err := out.Write(append(record, row.GPUHours, row.EnergyJoules())); err != nil {
			return fmt.Errorf("write usage: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write usage: %w", err)
	}
	return nil
}
