package exporter

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/internal/wire"
)

// Sample is a value of an exporter under a known name.
type Sample struct {
	Series field.Series
	Labels map[string]string // without the name; none is empty. Samples may share it
	Value  float64
	At     time.Time // of the scrape; zero: the reading's
}

// Exposition are all samples of one exporter in a slot.
type Exposition struct {
	// Target identifies the exporter across slots: its counters are compared only with their own earlier values.
	Target string
	// Node is the node of rows without a Hostname label; empty: they must have one.
	Node    string
	Samples []Sample
	// Renamed: the scraper renamed the exporter's own labels (see RenamedLabels), even if these rows don't show it.
	Renamed bool
}

// History makes batches of stored samples, by the rules of a Source. It is not safe for concurrent use.
type History struct {
	s      *Source
	byName map[string]*target
}

// NewHistory needs no targets and no clock, and has no state file.
func NewHistory(cfg Config, deps Deps) (*History, error) {
	if err := cfg.validateRules(); err != nil {
		return nil, fmt.Errorf("configure exporter history: %w", err)
	}
	if deps.Cluster == "" {
		return nil, errors.New("configure exporter history: cluster is empty")
	}
	return &History{s: newSource(cfg, deps), byName: map[string]*target{}}, nil
}

// Batches returns a batch for each node that has rows in the slot. Slots must ascend, and each call's batches count
// as delivered: if they are lost, start again with a new History. Its error is about GPUs that are left out, rows
// without a node, and expositions of too many GPUs. If a target has disappeared, the enumeration of nodes that it
// shares with others is partial.
func (h *History) Batches(slot source.Slot, seen []Exposition) ([]*wire.Batch, error) {
	var readings []reading
	here := map[*target]bool{}
	for _, e := range seen {
		r := reading{target: h.target(e), at: slot.Start, renamed: e.Renamed, samples: e.Samples}
		if e.listsTooMany() {
			r.samples, r.err = nil, fmt.Errorf("the exporter lists more than %d GPUs of one node", DefaultMaxGPUs)
		}
		here[r.target] = true
		readings = append(readings, r)
	}
	for _, t := range h.s.targets {
		if !here[t] {
			readings = append(readings, reading{target: t, err: errAway})
		}
	}
	batches, err := h.s.batches(slot, readings)
	batches = slices.DeleteFunc(batches, func(b *wire.Batch) bool {
		if b.Node == "" {
			err = errors.Join(err, errors.New("rows left out: they have neither a Hostname nor an instance label"))
		}
		return b.Node == ""
	})
	h.s.memory.Commit()
	h.s.memory.Forget(slot.Start)
	return batches, err
}

// listsTooMany reports whether an exposition has more than DefaultMaxGPUs GPUs of a node. A live target may raise that
// by max_gpus; here it holds for each node, as the number of nodes has no limit.
func (e Exposition) listsTooMany() bool {
	known, number := map[[2]string]bool{}, map[string]int{}
	for _, s := range e.Samples {
		node, gpu := NodeOf(s.Labels), GPUOf(s.Labels)
		if gpu == "" || known[[2]string{node, gpu}] || hasAny(s.Labels, otherDevices) {
			continue
		}
		known[[2]string{node, gpu}] = true
		if number[node]++; number[node] > DefaultMaxGPUs {
			return true
		}
	}
	return false
}

func (h *History) target(e Exposition) *target {
	t := h.byName[e.Target]
	if t == nil {
		t = &target{name: fmt.Sprintf("%.200q", e.Target), trusts: true}
		h.byName[e.Target] = t
		h.s.targets = append(h.s.targets, t)
	}
	t.node = e.Node
	return t
}

// NodeOf is a row's node; empty: none.
func NodeOf(labels map[string]string) string { return first(labels, labelsNode) }

// GPUOf is a row's GPU: the UUID, else the index; empty: no GPU.
func GPUOf(labels map[string]string) string {
	if uuid := first(labels, labelsUUID); uuid != "" {
		return uuid
	}
	return first(labels, labelsIndex)
}
