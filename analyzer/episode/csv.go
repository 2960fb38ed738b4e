package episode

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/gputally/gputally/internal/usage"
)

// csvHeader names the columns of WriteCSV.
var csvHeader = []string{
	"id", "kind", "tenant", "project", "workload", "node", "gpu", "leaf",
	"start", "end", "wasted_gpu_hours", "wasted_cost", "currency", "cause", "grade", "leaves", "user",
	"severity", "alerted", "parent",
}

// WriteCSV writes a header and one row per episode, in the given order. Times are RFC
// 3339 in UTC, numbers exact decimals; a text that a spreadsheet could take for a
// formula begins with an apostrophe (usage.TextCell).
func WriteCSV(w io.Writer, episodes []Episode) error {
	out := csv.NewWriter(w)
	if err := out.Write(csvHeader); err != nil {
		return fmt.Errorf("write csv header: %w", err)
	}
	for _, e := range episodes {
		if err := out.Write(record(e)); err != nil {
			return fmt.Errorf("write csv row of episode %s: %w", e.ID(), err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write csv: %w", err)
	}
	return nil
}

func record(e Episode) []string {
	text := usage.TextCell
	return []string{
		text(e.ID()), text(string(e.Kind)), text(e.Tenant), text(e.Project), text(e.Workload), text(e.Node),
		text(e.At().GPU), text(e.At().Leaf),
		e.Start.UTC().Format(time.RFC3339), e.End.UTC().Format(time.RFC3339),
		e.WastedGPUHours.String(), e.WastedCost.String(), text(e.Currency),
		text(e.Cause), text(string(e.Grade)), strconv.Itoa(len(e.Leaves)), text(e.User), e.Severity.String(),
		e.AlertedText(), e.Parent,
	}
}

// AlertedText is Alerted as RFC 3339; empty: no alert.
func (e *Episode) AlertedText() string {
	if e.Alerted.IsZero() {
		return ""
	}
	return e.Alerted.UTC().Format(time.RFC3339)
}
