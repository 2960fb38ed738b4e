package gpustate

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// ForgetAfter is how long the state of a GPU that is no longer listed is kept: as long as the inventory keeps the GPU
// (retire_after, R2).
const ForgetAfter = 24 * time.Hour

// Place is where a GPU was seen. If two nodes report one UUID, as clones of a machine image may, each has its own
// GPU.
type Place struct{ Node, UUID string }

// GPUs are the states of a source's GPUs; not safe for concurrent use.
type GPUs struct {
	gpus map[Place]*GPU
	log  *slog.Logger
}

// New returns GPUs without any state.
func New(log *slog.Logger) *GPUs { return &GPUs{gpus: map[Place]*GPU{}, log: log} }

// GPU returns the state of a GPU that was just listed.
func (m *GPUs) GPU(place Place, at time.Time) *GPU {
	g := m.gpus[place]
	if g == nil {
		g = newGPU()
		m.gpus[place] = g
	}
	g.seen = at
	return g
}

// Len is the number of GPUs.
func (m *GPUs) Len() int { return len(m.gpus) }

// HealAll clears every mark: the machine was rebooted.
func (m *GPUs) HealAll() {
	for _, g := range m.gpus {
		g.Heal()
	}
}

// Commit makes the increases of the last reading final: its batch is spooled.
func (m *GPUs) Commit() {
	for _, g := range m.gpus {
		if !g.pending.at.IsZero() {
			g.energy, g.pending = g.pending, energy{}
		}
	}
}

// maxPerNode bounds the GPUs of a node: more than are removed or renamed in a day, but fewer than an exporter can
// report that invents new ones in each slot.
const maxPerNode = 1024

// maxAway bounds the GPUs of all nodes that have not been listed for a minute, if they are more than those that have.
const maxAway = 16 * maxPerNode

// Forget removes GPUs that have not been listed for long; of a node with too many GPUs those that aren't listed now;
// and all that have not been listed for a minute if there are too many of them.
func (m *GPUs) Forget(now time.Time) {
	count, away := map[string]int{}, 0
	for place, g := range m.gpus {
		count[place.Node]++
		if now.Sub(g.seen) > time.Minute {
			away++
		}
	}
	tooMany := away > max(maxAway, len(m.gpus)-away)
	maps.DeleteFunc(m.gpus, func(p Place, g *GPU) bool {
		age := now.Sub(g.seen)
		return age > ForgetAfter || (count[p.Node] > maxPerNode && age > 0) || (tooMany && age > time.Minute)
	})
}

// Format of State.
const Format = 1

// State is the content of a file; a source embeds it to add its own. Times are Unix ms.
type State struct {
	Kind    string     `json:"kind"`
	Format  int        `json:"format"`
	Cluster string     `json:"cluster"`
	GPUs    []gpuState `json:"gpus"`
}

type gpuState struct {
	Node   string       `json:"node"`
	UUID   string       `json:"uuid"`
	SeenMS int64        `json:"seen_ms"`
	Energy *energyState `json:"energy,omitempty"`
	XIDs   []xidState   `json:"xids,omitempty"`
}

// energyState is the counter's last value, with the time and exporter of its first report.
type energyState struct {
	CounterMJ float64 `json:"counter_mj"`
	SinceMS   int64   `json:"since_ms"`
	Target    string  `json:"target"`
}

// xidState is the last code of a part, and whether the part is unhealthy.
type xidState struct {
	GI        *int64  `json:"gi,omitempty"`
	CI        *int64  `json:"ci,omitempty"`
	Last      float64 `json:"last"`
	Unhealthy bool    `json:"unhealthy,omitempty"`
}

// State returns the content of a file of that kind, in a fixed order.
func (m *GPUs) State(kind, cluster string) State {
	st := State{Kind: kind, Format: Format, Cluster: cluster, GPUs: []gpuState{}}
	places := slices.SortedFunc(maps.Keys(m.gpus), func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.UUID, b.UUID))
	})
	for _, p := range places {
		st.GPUs = append(st.GPUs, m.gpus[p].state(p))
	}
	return st
}

func (m *GPU) state(p Place) gpuState {
	g := gpuState{Node: p.Node, UUID: p.UUID, SeenMS: m.seen.UnixMilli()}
	// A pending increase may be in the spool when the process ends: losing it is better than counting it twice.
	e := m.energy
	if !m.pending.at.IsZero() {
		e = m.pending
	}
	if !e.at.IsZero() {
		g.Energy = &energyState{CounterMJ: e.mj, SinceMS: e.at.UnixMilli(), Target: e.of}
	}
	parts := maps.Clone(m.unhealthy)
	for part := range m.xids {
		parts[part] = m.unhealthy[part]
	}
	for _, part := range slices.SortedFunc(maps.Keys(parts),
		func(a, b Part) int { return cmp.Or(cmp.Compare(a.GI, b.GI), cmp.Compare(a.CI, b.CI)) }) {
		entry := xidState{Last: m.xids[part], Unhealthy: parts[part]}
		if part.GI >= 0 {
			entry.GI = &part.GI
		}
		if part.CI >= 0 {
			entry.CI = &part.CI
		}
		g.XIDs = append(g.XIDs, entry)
	}
	return g
}

// Restore adds the parts of a State that are recent enough at now.
func (m *GPUs) Restore(st State, now time.Time) {
	for _, g := range st.GPUs {
		mem := g.gpu()
		if mem.energy.at.After(now) {
			m.log.Warn("energy counter starts again: its last reading is in the future, so the span is unknown",
				"node", g.Node, "gpu", g.UUID, "read", mem.energy.at, "now", now)
			mem.energy = energy{}
		}
		m.gpus[Place{g.Node, g.UUID}] = mem
	}
	m.Forget(now)
}

func (g gpuState) gpu() *GPU {
	m := newGPU()
	m.seen = time.UnixMilli(g.SeenMS)
	if e := g.Energy; e != nil {
		m.energy = energy{e.CounterMJ, time.UnixMilli(e.SinceMS), e.Target}
	}
	for _, x := range g.XIDs {
		part := Whole
		if x.GI != nil {
			part.GI = *x.GI
		}
		if x.CI != nil {
			part.CI = *x.CI
		}
		m.xids[part] = x.Last
		if x.Unhealthy {
			m.unhealthy[part] = true
		}
	}
	return m
}

// check refuses the file of another source, version or cluster.
func (st State) check(kind, cluster string) error {
	switch {
	case st.Kind != kind:
		return fmt.Errorf("kind %q, want %q", st.Kind, kind)
	case st.Format != Format:
		return fmt.Errorf("format %d, want %d", st.Format, Format)
	case st.Cluster != cluster:
		return fmt.Errorf("cluster %q, want %q", st.Cluster, cluster)
	}
	return nil
}
