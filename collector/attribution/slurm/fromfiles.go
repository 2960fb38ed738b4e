package slurm

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gputally/gputally/collector/attribution"
)

func (r *Reader) fromFiles(ctx context.Context) (attribution.Snapshot, error) {
	files, err := r.directory.read()
	if err != nil {
		return attribution.Snapshot{}, err
	}
	if err := r.refreshJobs(ctx, files); err != nil {
		return attribution.Snapshot{}, err
	}
	files = r.withHolders(files)
	var positions layout
	if slices.ContainsFunc(files, func(m mapped) bool { return m.uuid == "" }) {
		if positions, err = r.layouts.get(ctx, r.describeNode); err != nil {
			return attribution.Snapshot{}, err
		}
	}
	var snap attribution.Snapshot
	for _, m := range files {
		device, err := m.device(positions)
		if err != nil {
			return attribution.Snapshot{}, err
		}
		for _, id := range m.jobs {
			snap.Holdings = append(snap.Holdings, attribution.Holding{Device: device, Owner: r.known[id].owner})
		}
	}
	return snap, nil
}

// withHolders removes the jobs that were dropped, and files without other jobs.
func (r *Reader) withHolders(files []mapped) (held []mapped) {
	for _, m := range files {
		m.jobs = slices.DeleteFunc(slices.Clone(m.jobs), func(id string) bool { return r.known[id].dropped })
		if len(m.jobs) > 0 {
			held = append(held, m)
		}
	}
	return held
}

// unpaused calls ask, unless a query failed less than scontrol_every ago: queries from all nodes of a cluster each
// second would add to the load of a slurmctld in trouble.
func (r *Reader) unpaused(ask func() error) error {
	now := r.deps.Clock.Now()
	if r.lastFail != nil && now.Before(r.retryAt) {
		return r.lastFail
	}
	r.lastFail = ask()
	r.retryAt = now.Add(r.cfg.ScontrolEvery)
	return r.lastFail
}

func (r *Reader) describeNode(ctx context.Context) (node nodeGres, err error) {
	err = r.unpaused(func() (err error) {
		node, err = r.client.describeNode(ctx)
		return err
	})
	return node, err
}

// lookUp queries squeue about jobs.
func (r *Reader) lookUp(ctx context.Context, ids []string) (found map[string]job, err error) {
	err = r.unpaused(func() (err error) {
		if found, err = r.client.byID(ctx, ids); err != nil {
			err = fmt.Errorf("query user and account of job %s: %w", ids[0], err)
		}
		return err
	})
	return found, err
}

// named returns the jobs of files, each once, and those to be queried now: unknown jobs, and dropped jobs whose file
// has changed, since a requeued job may run again.
func (r *Reader) named(files []mapped) (all, fresh []string) {
	seen, asked := map[string]bool{}, map[string]bool{}
	for _, m := range files {
		changed := r.stamps[m.path] != m.stamp
		for _, id := range m.jobs {
			if !seen[id] {
				seen[id], all = true, append(all, id)
			}
			j := r.known[id]
			if (j == nil || j.dropped && changed) && !asked[id] {
				asked[id], fresh = true, append(fresh, id)
			}
		}
	}
	maps.DeleteFunc(r.known, func(id string, _ *fileJob) bool { return !seen[id] })
	return all, fresh
}
