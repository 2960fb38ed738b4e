package slurm

import (
	"context"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/internal/telemetry"
)

// counted counts the calls of a runner by program and result.
func counted(run runner, reg prometheus.Registerer) runner {
	calls := telemetry.In(reg, "gputally_slurm_").Counters("calls_total",
		"Calls of Slurm's programs by program and result; a job unknown to Slurm is an error too.",
		"program", "result")
	return func(ctx context.Context, program string, args ...string) ([]byte, error) {
		out, err := run(ctx, program, args...)
		result := "ok"
		if err != nil {
			result = "error"
		}
		calls.WithLabelValues(filepath.Base(program), result).Inc()
		return out, err
	}
}

// Reasons for dropping a job of a mapping file.
const (
	droppedEnded   = "ended"
	droppedUnknown = "unknown"
)

func countDropped(reg prometheus.Registerer) *prometheus.CounterVec {
	dropped := telemetry.In(reg, "gputally_slurm_").Counters("dropped_jobs_total",
		"Jobs whose line no epilog removed from "+
			"the mapping files, dropped because they have ended or are unknown to Slurm.", "reason")
	telemetry.Zero(dropped, droppedEnded, droppedUnknown)
	return dropped
}
