package slurm

import (
	"context"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
)

// counted counts the calls of a runner by program and result.
func counted(run runner, reg prometheus.Registerer) runner {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gputally_slurm_calls_total", Help: "Calls of Slurm's programs by program and result; a job that Slurm doesn't know is an error too.",
	}, []string{"program", "result"})
	reg.MustRegister(calls)
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

// Why a job of a mapping file was dropped.
const (
	droppedEnded   = "ended"
	droppedUnknown = "unknown"
)

func countDropped(reg prometheus.Registerer) *prometheus.CounterVec {
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gputally_slurm_dropped_jobs_total", Help: "Jobs whose line no epilog took out of the mapping files, dropped because they have ended or are unknown to Slurm.",
	}, []string{"reason"})
	for _, reason := range []string{droppedEnded, droppedUnknown} {
		dropped.WithLabelValues(reason)
	}
	reg.MustRegister(dropped)
	return dropped
}
