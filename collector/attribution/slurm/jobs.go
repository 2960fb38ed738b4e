package slurm

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gputally/gputally/internal/wire"
)

// lookEvery is the pace at which the jobs of mapping files are looked up again.
const lookEvery = time.Minute

// fileJob is what is known of a job that mapping files name.
type fileJob struct {
	owner   *wire.Owner
	unknown bool // to Slurm, at the last look
	// endedSince is the first of the looks in a row that found it ended or
	// unknown; zero: the last one didn't.
	endedSince time.Time
	dropped    bool // it holds nothing: its epilog did not run
}

// refreshJobs brings what is known of the files' jobs up to date: those that are new
// before anything is said of them, and all of them every lookEvery.
func (r *Reader) refreshJobs(ctx context.Context, files []mapped) error {
	all, fresh := r.named(files)
	if !r.cfg.Details {
		for _, id := range fresh {
			r.known[id] = &fileJob{owner: &wire.Owner{Job: id}}
		}
		r.noteVersions(files, fresh)
		return nil
	}
	now := r.deps.Clock.Now()
	asked, due := fresh, !now.Before(r.lookAt)
	if due {
		asked = all
	}
	if len(asked) > 0 {
		if due {
			r.lookAt = now.Add(lookEvery)
		}
		found, err := r.lookUp(ctx, asked)
		if err != nil && len(fresh) > 0 {
			return err
		}
		if err == nil {
			r.note(asked, found, now)
		}
		if err == nil && due {
			r.drop(ctx, files, now)
		}
	}
	r.noteVersions(files, fresh)
	return nil
}

func (r *Reader) noteVersions(files []mapped, fresh []string) {
	r.stamps = make(map[string]stamp, len(files))
	for _, m := range files {
		r.stamps[m.path] = m.stamp
	}
	if len(fresh) > 0 {
		// New jobs are the only ones that a new order of types can be about.
		r.layouts.entries = nil
	}
}

// note keeps what squeue said. One that Slurm doesn't know has its id as owner,
// or what was known of it.
func (r *Reader) note(ids []string, found map[string]job, now time.Time) {
	for _, id := range ids {
		was := r.known[id]
		j, ok := found[id]
		if was == nil {
			was = &fileJob{owner: job{id: id}.owner()}
			r.known[id] = was
			if !ok {
				r.deps.Log.Warn("Slurm doesn't know a job that a mapping file names; it keeps its id as owner", "job", id,
					"mapping_dir", r.cfg.MappingDir)
			}
		}
		if ok {
			was.owner = j.owner()
		}
		switch was.unknown = !ok; {
		case ok && !hasEnded(j.state):
			was.endedSince, was.dropped = time.Time{}, false
		case was.endedSince.IsZero():
			was.endedSince = now
		}
	}
}

// drop ends the jobs that have had no life for lookEvery. A job that squeue
// doesn't show may be hidden from the collector's user (PrivateData=jobs): it is
// dropped only if others account for all GPUs that the node has in use.
func (r *Reader) drop(ctx context.Context, files []mapped, now time.Time) {
	accounted := sync.OnceValue(func() bool { return r.accounted(ctx, files) })
	for id, j := range r.known {
		if j.dropped || j.endedSince.IsZero() || now.Sub(j.endedSince) < lookEvery || j.unknown && !accounted() {
			continue
		}
		reason := droppedEnded
		if j.unknown {
			reason = droppedUnknown
		}
		j.dropped = true
		r.dropped.WithLabelValues(reason).Inc()
		r.deps.Log.Warn("a mapping file still names a job that is over, so no epilog took it out: it holds nothing from "+
			"here on",
			"job", id, "reason", reason, "since", j.endedSince, "mapping_dir", r.cfg.MappingDir)
	}
}

// accounted says whether as many devices have a live job as the node has in use.
func (r *Reader) accounted(ctx context.Context, files []mapped) bool {
	node, err := r.describeNode(ctx)
	if err != nil {
		return false
	}
	used, known := gpusInUse(node.used)
	live := 0
	for _, m := range files {
		if slices.ContainsFunc(m.jobs, func(id string) bool { return r.known[id].endedSince.IsZero() }) {
			live++
		}
	}
	return known && live >= used
}
