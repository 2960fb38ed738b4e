package ingest

import (
	"context"
	"time"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/store"
)

// attemptLimit bounds one attempt of a step: a store that took a connection and
// never answers is one that is away. An insert of one chunk takes a second, and
// minutes on a disk that hardly moves.
const attemptLimit = 5 * time.Minute

// Classes of errors. What passes by itself is tried again soon. What is refused
// (a table or a right is missing, the store is of another version) needs a
// person; it is waited for too, since nothing may be skipped and the offsets
// keep the place, but in longer steps.
const (
	classPassing = "passing"
	classRefused = "refused"
)

// pauses between attempts, doubled from the first to the greatest.
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

// retry tries a step until it succeeds or ctx ends: offsets stay, nothing is
// lost, and memory is bounded by one fetch and one chunk of it.
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
		in.deps.Log.Error("ingest waits and tries again", "step", step, "class", class, "error", err, "pause", pause)
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
