package slurm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gputally/gputally/collector/attribution"
)

// errMoved means that an answer doesn't match the previous one: a job started or ended in between, or squeue doesn't
// show all jobs to this user.
var errMoved = errors.New("squeue and scontrol disagree")

// fromScontrol queries Slurm every scontrol_every and returns the last answer with its time, while it is not too old.
func (r *Reader) fromScontrol(ctx context.Context) (attribution.Snapshot, error) {
	now := r.deps.Clock.Now()
	if now.Before(r.askAt) {
		return r.last(nil)
	}
	snap, err := r.ask(ctx)
	if err != nil {
		// Sooner than scontrol_every, but not all nodes of a cluster every second.
		r.askAt = now.Add(r.cfg.ScontrolEvery / 5)
		return r.last(err)
	}
	r.answer, r.lastFail = snap, nil
	r.askAt = now.Add(r.cfg.ScontrolEvery)
	return snap, nil
}

// last returns the last answer, or the error why there is none.
func (r *Reader) last(err error) (attribution.Snapshot, error) {
	if err != nil {
		r.lastFail = err
	}
	age := r.deps.Clock.Now().Sub(r.answer.At)
	switch {
	case r.answer.At.IsZero():
		return attribution.Snapshot{}, fmt.Errorf("query Slurm: %w", r.lastFail)
	case age <= r.cfg.ScontrolMaxAge:
		return r.answer, nil
	}
	return attribution.Snapshot{}, fmt.Errorf("query Slurm: the last answer is %s old: %w", age, r.lastFail)
}

// ask first queries only the jobs that certainly have GPUs. If the positions differ from those in use on the node, it
// queries all unknown jobs, then all again, since one may have grown.
func (r *Reader) ask(ctx context.Context) (attribution.Snapshot, error) {
	snap, err := r.askOnce(ctx, job.asksForGPUs)
	if errors.Is(err, errMoved) {
		snap, err = r.askOnce(ctx, everyJob)
	}
	if errors.Is(err, errMoved) {
		clear(r.allocated)
		snap, err = r.askOnce(ctx, everyJob)
	}
	return snap, err
}

func everyJob(job) bool { return true }

func (r *Reader) askOnce(ctx context.Context, about func(job) bool) (attribution.Snapshot, error) {
	jobs, err := r.client.onNode(ctx)
	if err != nil {
		return attribution.Snapshot{}, err
	}
	if jobs, err = r.allocations(ctx, jobs, about); err != nil {
		return attribution.Snapshot{}, err
	}
	// Jobs that squeue listed before this instant and whose positions the node reports in use after it held them at
	// it.
	at := r.deps.Clock.Now()
	node, err := r.client.describeNode(ctx)
	if err != nil {
		return attribution.Snapshot{}, err
	}
	used, err := gpuPositions(node.used)
	if err != nil {
		return attribution.Snapshot{}, fmt.Errorf("GresUsed: %w", err)
	}
	r.layouts.entries = node.gres
	held, err := r.reconcile(jobs, used)
	if err != nil {
		return attribution.Snapshot{}, err
	}
	snap, err := r.holdings(ctx, held)
	snap.At = at
	return snap, err
}

// allocations queries the positions of those jobs that about chooses, once each. It returns the jobs that are known
// and still exist: short jobs start and end between two queries, and the comparison with the node shows whether one
// is missing.
func (r *Reader) allocations(ctx context.Context, jobs []job, about func(job) bool) (there []job, err error) {
	current := map[string]bool{}
	for _, j := range jobs {
		current[j.key()] = true
		if _, known := r.allocated[j.key()]; !known {
			if !about(j) {
				continue
			}
			state, positions, err := r.client.allocation(ctx, j)
			if unknownJob(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			j.state = state
			r.allocated[j.key()] = positions
		}
		there = append(there, j)
	}
	maps.DeleteFunc(r.allocated, func(key string, _ []uint32) bool { return !current[key] })
	return there, nil
}

// holder is a job at a position.
type holder struct {
	position uint32
	job      job
}

// reconcile compares the jobs' positions with those in use on the node. A completing job's record may still have
// positions whose epilog is done and that another job has: it holds those in use that no other job has.
func (r *Reader) reconcile(jobs []job, used []uint32) ([]holder, error) {
	byOthers := map[uint32]bool{}
	var held []holder
	for _, j := range jobs {
		if j.state == stateCompleting {
			continue
		}
		for _, p := range r.allocated[j.key()] {
			if !slices.Contains(used, p) {
				delete(r.allocated, j.key()) // the job may have shrunk
				return nil, fmt.Errorf("%w: job %s of %s has position %d, which is free on the node", errMoved, j.id, j.user, p)
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
			return nil, fmt.Errorf("%w: position %d is in use, but by no job that squeue shows (PrivateData=jobs shows them "+
				"only to operators)", errMoved, p)
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
