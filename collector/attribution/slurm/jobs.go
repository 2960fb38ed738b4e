package slurm

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gputally/gputally/internal/wire"
)

// lookEvery is the interval at which the jobs of mapping files are queried again.
const lookEvery = time.Minute

// fileJob is what is known about a job in a mapping file.
type fileJob struct {
	owner   *wire.Owner
	unknown bool // unknown to Slurm in the last query
	// endedSince is the time of the first of consecutive queries in which the job was ended or unknown; zero: it
	// wasn't in the last.
	endedSince time.Time
	dropped    bool // it holds nothing: its epilog did not run
}

// refreshJobs updates the files' jobs: new ones before they are used, and all of them every lookEvery.
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
		// Only new jobs can have been started with a new order of types.
		r.layouts.entries = nil
	}
}

// note stores squeue's records. The owner of a job that Slurm doesn't know is what was known before, else its id.
func (r *Reader) note(ids []string, found map[string]job, now time.Time) {
	for _, id := range ids {
		was := r.known[id]
		j, ok := found[id]
		if was == nil {
			was = &fileJob{owner: job{id: id}.owner()}
			r.known[id] = was
			if !ok {
				r.deps.Log.Warn("a job in a mapping file is unknown to Slurm; the owner is its id", "job", id,
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

// drop drops the jobs that were ended or unknown for lookEvery. A job that squeue doesn't list may be hidden from the
// collector's user (PrivateData=jobs): it is dropped only if other jobs have all GPUs that the node has in use.
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
		r.deps.Log.Warn("a mapping file still names an ended job, which no epilog removed: it holds nothing from "+
			"now on",
			"job", id, "reason", reason, "since", j.endedSince, "mapping_dir", r.cfg.MappingDir)
	}
}

// accounted returns whether as many devices have a running job as the node has in use.
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
