package slurm

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gpuledger/gpuledger/collector/attribution"
	"github.com/gpuledger/gpuledger/internal/wire"
)

func (r *Reader) fromFiles(ctx context.Context) (attribution.Snapshot, error) {
	files, err := r.directory.read()
	if err != nil {
		return attribution.Snapshot{}, err
	}
	if err := r.learn(ctx, files); err != nil {
		return attribution.Snapshot{}, err
	}
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
			snap.Holdings = append(snap.Holdings, attribution.Holding{Device: device, Owner: r.known[id]})
		}
	}
	return snap, nil
}

// learn makes known exactly the owners that files name. Each is asked for once;
// one that Slurm doesn't know keeps its id.
func (r *Reader) learn(ctx context.Context, files []mapped) error {
	named := map[string]bool{}
	var fresh []string
	for _, m := range files {
		for _, id := range m.jobs {
			if !named[id] && r.known[id] == nil {
				fresh = append(fresh, id)
			}
			named[id] = true
		}
	}
	maps.DeleteFunc(r.known, func(id string, _ *wire.Owner) bool { return !named[id] })
	if len(fresh) == 0 {
		return nil
	}
	// New jobs are the only ones that a new order of types can be about.
	r.layouts.entries = nil
	if !r.cfg.Details {
		for _, id := range fresh {
			r.known[id] = &wire.Owner{Job: id}
		}
		return nil
	}
	return r.askFor(ctx, fresh)
}

func (r *Reader) askFor(ctx context.Context, ids []string) error {
	var found map[string]job
	err := r.unpaused(func() (err error) {
		if found, err = r.client.byID(ctx, ids); err != nil {
			err = fmt.Errorf("ask for user and account of job %s: %w", ids[0], err)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		j, ok := found[id]
		if !ok {
			r.deps.Log.Warn("Slurm doesn't know a job that a mapping file names; it keeps its id as owner", "job", id, "mapping_dir", r.cfg.MappingDir)
			j = job{id: id}
		}
		r.known[id] = j.owner()
	}
	return nil
}

// unpaused asks, unless a question failed less than scontrol_every ago: that a
// whole cluster's nodes asked each second is no help to a slurmctld in trouble.
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
