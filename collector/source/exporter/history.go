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

// Sample is a value that an exporter showed, under a name that is known.
type Sample struct {
	Series field.Series
	Labels map[string]string // without the name; none is empty. Other samples may share it
	Value  float64
	At     time.Time // of the scrape; zero: the reading's
}

// Exposition is all that one exporter showed in a slot.
type Exposition struct {
	// Target names the exporter over all slots: its counters move only against
	// themselves.
	Target string
	// Node names the rows that have no Hostname label; empty: they must have one.
	Node    string
	Samples []Sample
	// Renamed says that the scraper renamed the exporter's own labels (see
	// RenamedLabels), though these rows may not show it.
	Renamed bool
}

// History makes batches of what others have scraped and kept, by the very rules
// of a Source. It is for one goroutine.
type History struct {
	s      *Source
	byName map[string]*target
}

// NewHistory needs no targets and no clock, and keeps no state file.
func NewHistory(cfg Config, deps Deps) (*History, error) {
	if err := cfg.validateRules(); err != nil {
		return nil, fmt.Errorf("configure exporter history: %w", err)
	}
	if deps.Cluster == "" {
		return nil, errors.New("configure exporter history: cluster is empty")
	}
	return &History{s: newSource(cfg, deps), byName: map[string]*target{}}, nil
}

// Batches states what is known of each node that has rows in the slot. Slots
// ascend, and each one's batches count as taken: who can't keep them begins anew.
// Its error is about GPUs that are left out, and rows of no node. A
// target that was there before and isn't now makes the enumeration of nodes that
// it shares with others partial.
func (h *History) Batches(slot source.Slot, seen []Exposition) ([]*wire.Batch, error) {
	var readings []reading
	here := map[*target]bool{}
	for _, e := range seen {
		r := reading{target: h.target(e), at: slot.Start, renamed: e.Renamed, samples: e.Samples}
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
			err = errors.Join(err, errors.New("rows left out: they name no node, by none of the labels Hostname and instance"))
		}
		return b.Node == ""
	})
	h.s.memory.Commit()
	h.s.memory.Forget(slot.Start)
	return batches, err
}

func (h *History) target(e Exposition) *target {
	t := h.byName[e.Target]
	if t == nil {
		t = &target{name: e.Target, trusts: true}
		h.byName[e.Target] = t
		h.s.targets = append(h.s.targets, t)
	}
	t.node = e.Node
	return t
}

// NodeOf is the node that a row names; empty: none.
func NodeOf(labels map[string]string) string { return first(labels, labelsNode) }

// GPUOf is what a row calls its GPU: the UUID, else the index; empty: no GPU.
func GPUOf(labels map[string]string) string {
	if uuid := first(labels, labelsUUID); uuid != "" {
		return uuid
	}
	return first(labels, labelsIndex)
}
