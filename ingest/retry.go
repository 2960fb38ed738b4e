package ingest

import (
	"context"
	"time"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/store"
)

// attemptLimit bounds one attempt of a step: a store that accepts a connection and
// never answers is treated as down. An insert of one chunk takes a second, and minutes
// on a very slow disk.
const attemptLimit = 5 * time.Minute

// Classes of errors. A temporary error is retried soon. A refused step (a missing
// table or privilege, an incompatible version) needs a person; it is retried too, at
// longer intervals, because nothing may be skipped and the offsets keep the position.
const (
	classPassing = "passing"
	classRefused = "refused"
)

// Pauses between attempts: the first one, doubled each time up to the greatest.
var pauses = map[string][2]time.Duration{
	classPassing: {100 * time.Millisecond, 10 * time.Second},
	classRefused: {5 * time.Second, time.Minute},
}

func classOf(err error) string {
	if _, ok := store.Code(err); ok && !store.Retryable(err) {
		return classRefused
	}
	return classPassing
}

// retry tries a step until it succeeds or ctx ends. Nothing is lost meanwhile because
// offsets are not committed, and memory is bounded by one fetch and one chunk.
func (in *Ingester) retry(ctx context.Context, step string, do func(context.Context) error) error {
	last, pause := "", time.Duration(0)
	for {
		err := in.attempt(ctx, do)
		if err == nil || ctx.Err() != nil {
			return err
		}
		class := classOf(err)
		if pause = min(2*pause, pauses[class][1]); class != last {
			last, pause = class, pauses[class][0]
		}
		in.m.retries.WithLabelValues(step, class).Inc()
		in.deps.Log.Error("step failed, ingest will retry it", "step", step, "class", class, "error", err, "pause", pause)
		if err := clock.Sleep(ctx, in.deps.Clock, pause); err != nil {
			return err
		}
	}
}

func (in *Ingester) attempt(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, in.attemptLimit)
	defer cancel()
	return do(ctx)
}
