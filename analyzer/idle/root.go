package idle

import (
	"fmt"
	"strings"
	"time"

	"github.com/gputally/gputally/analyzer/episode"
)

// Series identifies what an episode belongs to: an owner on a leaf.
type Series struct {
	Cluster, GPU, Leaf, Tenant, Project, Workload string
}

// Hour is the ledger's time of one series in one UTC hour.
type Hour struct {
	Series
	Start           time.Time // UTC, the start of the hour
	Node            string
	User            string
	Model           string
	Slices          uint16 // of the GPU in this hour
	LeafSlices      uint16 // of the leaf; 0: the whole GPU
	ActiveSliceMS   uint64
	IdleSliceMS     uint64
	UnprovenSliceMS uint64
}

func (h Hour) heldSliceMS() uint64 { return h.ActiveSliceMS + h.IdleSliceMS + h.UnprovenSliceMS }

// Finder joins hours to episodes in one pass, with only one open episode in memory.
type Finder struct {
	config Config
	rates  episode.Rates
	last   Hour
	seen   bool
	run    []Hour // the open episode, unproven hours at its end included
	found  []episode.Episode
}

// New returns an empty Finder. The configuration must be valid.
func New(config Config, rates episode.Rates) *Finder {
	return &Finder{config: config, rates: rates}
}

// Add takes the next hour. Hours must come in order of (cluster, GPU, leaf, tenant,
// project, workload, start), each once; otherwise Add returns an error that names both
// hours. Active hours may be left out.
func (f *Finder) Add(h Hour) error {
	if f.seen && compare(f.last, h) >= 0 {
		return fmt.Errorf("read idle hours: not sorted: %s %s comes after %s %s", h.Series, h.Start.Format(time.RFC3339),
			f.last.Series, f.last.Start.Format(time.RFC3339))
	}
	follows := f.seen && h.Series == f.last.Series && h.Start.Equal(f.last.Start.Add(time.Hour))
	if !follows {
		f.close()
	}
	f.last, f.seen = h, true
	switch f.classify(h) {
	case stateIdle:
		f.run = append(f.run, h)
	case stateUnproven:
		f.bridge(h)
	default:
		f.close()
	}
	return nil
}

// Episodes ends the pass and returns the episodes found, sorted.
func (f *Finder) Episodes() []episode.Episode {
	f.close()
	episode.Sort(f.found)
	return f.found
}

type state int

const (
	stateActive state = iota
	stateIdle
	stateUnproven
)

func (f *Finder) classify(h Hour) state {
	held := h.heldSliceMS()
	switch {
	case held == 0:
		return stateActive // nothing is held: nothing can be idle
	case h.IdleSliceMS*shareUnit >= held*f.config.MinIdlePer10k():
		return stateIdle
	case h.ActiveSliceMS == 0:
		return stateUnproven
	default:
		return stateActive
	}
}

// bridge keeps the episode open over an unproven hour, unless there are too many of
// them in a row.
func (f *Finder) bridge(h Hour) {
	if len(f.run) == 0 {
		return
	}
	f.run = append(f.run, h)
	if trailingUnproven(f, f.run) > f.config.MaxBridgeHours {
		f.close()
	}
}

func trailingUnproven(f *Finder, run []Hour) int {
	n := 0
	for n < len(run) && f.classify(run[len(run)-1-n]) == stateUnproven {
		n++
	}
	return n
}

// close ends the open episode, and keeps it if it is long enough.
func (f *Finder) close() {
	run := f.run[:len(f.run)-trailingUnproven(f, f.run)]
	if len(run) > 0 && idleDuration(run) >= f.config.MinDuration {
		f.found = append(f.found, f.episode(run))
	}
	f.run = f.run[:0]
}

// String names the series in errors.
func (s Series) String() string {
	return strings.Join([]string{s.Cluster, s.GPU, s.Leaf, s.Tenant, s.Project, s.Workload}, "/")
}

func compare(a, b Hour) int {
	left := []string{a.Cluster, a.GPU, a.Leaf, a.Tenant, a.Project, a.Workload}
	right := []string{b.Cluster, b.GPU, b.Leaf, b.Tenant, b.Project, b.Workload}
	for i := range left {
		if c := strings.Compare(left[i], right[i]); c != 0 {
			return c
		}
	}
	return a.Start.Compare(b.Start)
}
