package slurm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gpuledger/gpuledger/collector/attribution"
)

// errMoved is an answer that doesn't fit the one before: a job came or went in
// between, or there is one that squeue doesn't show us.
var errMoved = errors.New("squeue and scontrol disagree")

// fromScontrol asks at its own pace and gives the last answer in between, while
// it is young enough.
func (r *Reader) fromScontrol(ctx context.Context) (attribution.Snapshot, error) {
	now := r.deps.Clock.Now()
	if now.Before(r.askAt) {
		return r.last(nil)
	}
	snap, err := r.ask(ctx)
	if err != nil {
		// Sooner than scontrol_every, but no whole cluster at once every second.
		r.askAt = now.Add(r.cfg.ScontrolEvery / 5)
		return r.last(err)
	}
	r.answer, r.answered, r.lastFail = snap, now, nil
	r.askAt = now.Add(r.cfg.ScontrolEvery)
	return snap, nil
}

// last is the last answer, or why there is none.
func (r *Reader) last(err error) (attribution.Snapshot, error) {
	if err != nil {
		r.lastFail = err
	}
	age := r.deps.Clock.Now().Sub(r.answered)
	switch {
	case r.answered.IsZero():
		return attribution.Snapshot{}, fmt.Errorf("ask slurm: %w", r.lastFail)
	case age <= r.cfg.ScontrolMaxAge:
		return r.answer, nil
	}
	return attribution.Snapshot{}, fmt.Errorf("ask slurm: the last answer is %s old: %w", age, r.lastFail)
}

func (r *Reader) ask(ctx context.Context) (attribution.Snapshot, error) {
	snap, err := r.askOnce(ctx)
	if errors.Is(err, errMoved) {
		clear(r.allocated) // a job may have grown or shrunk
		snap, err = r.askOnce(ctx)
	}
	return snap, err
}

func (r *Reader) askOnce(ctx context.Context) (attribution.Snapshot, error) {
	jobs, err := r.client.onNode(ctx)
	if err != nil {
		return attribution.Snapshot{}, err
	}
	if err := r.allocations(ctx, jobs); err != nil {
		return attribution.Snapshot{}, err
	}
	node, err := r.client.describeNode(ctx)
	if err != nil {
		return attribution.Snapshot{}, err
	}
	r.layouts.entries = node.gres
	held, err := r.reconcile(jobs, node.used)
	if err != nil {
		return attribution.Snapshot{}, err
	}
	return r.holdings(ctx, held)
}

// key tells the runs of a job apart.
func (j job) key() string { return j.id + " " + j.start }

// allocations makes known exactly the positions of jobs, asking once for each.
func (r *Reader) allocations(ctx context.Context, jobs []job) error {
	current := map[string]bool{}
	for _, j := range jobs {
		current[j.key()] = true
		if _, known := r.allocated[j.key()]; known {
			continue
		}
		positions, err := r.client.positions(ctx, j)
		if unknownJob(err) {
			return fmt.Errorf("%w: job %s has gone", errMoved, j.id)
		}
		if err != nil {
			return err
		}
		r.allocated[j.key()] = positions
	}
	maps.DeleteFunc(r.allocated, func(key string, _ []uint32) bool { return !current[key] })
	return nil
}

// holder is a job at a position.
type holder struct {
	position uint32
	job      job
}

// reconcile compares the jobs' positions with those that the node says are in
// use. A completing job's record still names positions whose epilog is done and
// that may be another's by now: it holds what is in use and nobody else's.
func (r *Reader) reconcile(jobs []job, used []uint32) ([]holder, error) {
	byOthers := map[uint32]bool{}
	var held []holder
	for _, j := range jobs {
		if j.state == stateCompleting {
			continue
		}
		for _, p := range r.allocated[j.key()] {
			if !slices.Contains(used, p) {
				return nil, fmt.Errorf("%w: job %s of %s has position %d, which the node says is free", errMoved, j.id, j.user, p)
			}
			byOthers[p] = true
			held = append(held, holder{p, j})
		}
	}
	accounted := maps.Clone(byOthers)
	for _, j := range jobs {
		for _, p := range r.allocated[j.key()] {
			if j.state == stateCompleting && slices.Contains(used, p) && !byOthers[p] {
				accounted[p] = true
				held = append(held, holder{p, j})
			}
		}
	}
	for _, p := range used {
		if !accounted[p] {
			return nil, fmt.Errorf("%w: position %d is in use, but by no job that squeue shows (PrivateData=jobs shows them only to operators)", errMoved, p)
		}
	}
	return held, nil
}

func (r *Reader) holdings(ctx context.Context, held []holder) (attribution.Snapshot, error) {
	var snap attribution.Snapshot
	if len(held) == 0 {
		return snap, nil
	}
	positions, err := r.layouts.get(ctx, r.client.describeNode)
	if err != nil {
		return snap, err
	}
	for _, h := range held {
		device, err := positions.at(h.position)
		if err != nil {
			return attribution.Snapshot{}, fmt.Errorf("job %s: %w", h.job.id, err)
		}
		snap.Holdings = append(snap.Holdings, attribution.Holding{Device: device, Owner: h.job.owner()})
	}
	return snap, nil
}
