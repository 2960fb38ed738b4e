package exporter

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"
)

// What the state file says of itself.
const (
	stateKind   = "gpuledger exporter state"
	stateFormat = 1
)

// state is the memory in Deps.StateFile. Times are Unix ms.
type state struct {
	Kind    string        `json:"kind"`
	Format  int           `json:"format"`
	Cluster string        `json:"cluster"`
	Targets []stateTarget `json:"targets"`
	GPUs    []stateGPU    `json:"gpus"`
}

// stateTarget is what was learned of an exporter: the nodes that it ever had
// rows of, and whether its missing rows say nothing of MIG.
type stateTarget struct {
	Name      string   `json:"name"`
	Nodes     []string `json:"nodes,omitempty"`
	Untelling bool     `json:"untelling,omitempty"`
}

type stateGPU struct {
	Node   string       `json:"node"`
	UUID   string       `json:"uuid"`
	SeenMS int64        `json:"seen_ms"`
	Energy *stateEnergy `json:"energy,omitempty"`
	XIDs   []stateXID   `json:"xids,omitempty"`
}

// stateEnergy is the counter's last value, and when which target first showed it.
type stateEnergy struct {
	CounterMJ float64 `json:"counter_mj"`
	SinceMS   int64   `json:"since_ms"`
	Target    string  `json:"target"`
}

// stateXID is the code on a board's row, or on an instance's.
type stateXID struct {
	GI        *uint32 `json:"gi,omitempty"`
	Last      float64 `json:"last"`
	Unhealthy bool    `json:"unhealthy,omitempty"`
}

// restore takes up the memory of the process before, once. Without a file that
// can be used the memory is empty, as at the very first start.
func (s *Source) restore() {
	if s.restored || s.deps.StateFile == "" {
		return
	}
	s.restored = true
	st, err := readState(s.deps.StateFile, s.deps.Cluster)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.deps.Log.Info("no memory of earlier readings: energy counts from the second one on", "file", s.deps.StateFile)
		return
	case err != nil:
		s.metrics.stateFails.Inc()
		s.deps.Log.Error("memory of earlier readings is lost: health flags and energy start anew", "file", s.deps.StateFile, "error", err)
		return
	}
	now := s.deps.Clock.Now()
	s.learnAgain(st.Targets)
	for _, g := range st.GPUs {
		mem := g.memory()
		if mem.energyAt.After(now) {
			s.deps.Log.Warn("energy counter starts anew: it was read later than now, so its span is unknown",
				"node", g.Node, "gpu", g.UUID, "read", mem.energyAt, "now", now)
			mem.energyAt = time.Time{}
		}
		s.memory[gpuPlace{g.Node, g.UUID}] = mem
	}
	s.forget(now)
}

// learnAgain takes up what was known of the targets that are still configured.
func (s *Source) learnAgain(known []stateTarget) {
	for _, k := range known {
		for _, t := range s.targets {
			if t.name != k.Name {
				continue
			}
			t.untelling = k.Untelling
			for _, node := range k.Nodes {
				s.targetsOf(node)[t] = true
			}
		}
	}
}

// save replaces the file by the memory as it is. It isn't synced: a power cut
// costs the last readings at most, and a torn file is known as one.
func (s *Source) save() {
	if s.deps.StateFile == "" {
		return
	}
	if err := writeState(s.deps.StateFile, s.state()); err != nil {
		s.metrics.stateFails.Inc()
		s.deps.Log.Error("memory of readings not saved: a restart would lose health flags and energy", "error", err)
	}
}

func (s *Source) state() state {
	st := state{Kind: stateKind, Format: stateFormat, Cluster: s.deps.Cluster, Targets: s.learned(), GPUs: []stateGPU{}}
	places := slices.SortedFunc(maps.Keys(s.memory), func(a, b gpuPlace) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.uuid, b.uuid))
	})
	for _, p := range places {
		st.GPUs = append(st.GPUs, s.memory[p].state(p))
	}
	return st
}

func (s *Source) learned() []stateTarget {
	out := make([]stateTarget, len(s.targets))
	for i, t := range s.targets {
		out[i] = stateTarget{Name: t.name, Untelling: t.untelling}
		for node, targets := range s.shared {
			if targets[t] {
				out[i].Nodes = append(out[i].Nodes, node)
			}
		}
		slices.Sort(out[i].Nodes)
	}
	return out
}

func (m *memory) state(p gpuPlace) stateGPU {
	g := stateGPU{Node: p.node, UUID: p.uuid, SeenMS: m.seen.UnixMilli()}
	if !m.energyAt.IsZero() {
		g.Energy = &stateEnergy{CounterMJ: m.energyMJ, SinceMS: m.energyAt.UnixMilli(), Target: m.energyOf}
	}
	for x, last := range m.xids {
		entry := stateXID{Last: last, Unhealthy: m.unhealthy[x]}
		if x.instance {
			entry.GI = &x.gi
		}
		g.XIDs = append(g.XIDs, entry)
	}
	slices.SortFunc(g.XIDs, func(a, b stateXID) int { return cmp.Compare(a.order(), b.order()) })
	return g
}

// order puts the board first, then the instances.
func (x stateXID) order() int64 {
	if x.GI == nil {
		return -1
	}
	return int64(*x.GI)
}

func (g stateGPU) memory() *memory {
	m := newMemory()
	m.seen = time.UnixMilli(g.SeenMS)
	if e := g.Energy; e != nil {
		m.energyMJ, m.energyAt, m.energyOf = e.CounterMJ, time.UnixMilli(e.SinceMS), e.Target
	}
	for _, x := range g.XIDs {
		var place xidPlace
		if x.GI != nil {
			place = xidPlace{instance: true, gi: *x.GI}
		}
		m.xids[place] = x.Last
		if x.Unhealthy {
			m.unhealthy[place] = true
		}
	}
	return m
}

// readState refuses a file that is not whole, or not this cluster's.
func readState(path, cluster string) (st state, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return st, fmt.Errorf("read exporter state: %w", err)
	}
	if err := json.Unmarshal(data, &st); err != nil {
		return st, fmt.Errorf("read exporter state %s, %d bytes: %w", path, len(data), err)
	}
	switch {
	case st.Kind != stateKind:
		return st, fmt.Errorf("read exporter state %s: kind %q, want %q", path, st.Kind, stateKind)
	case st.Format != stateFormat:
		return st, fmt.Errorf("read exporter state %s: format %d, want %d", path, st.Format, stateFormat)
	case st.Cluster != cluster:
		return st, fmt.Errorf("read exporter state %s: cluster %q, want %q", path, st.Cluster, cluster)
	}
	return st, nil
}

func writeState(path string, st state) error {
	data, err := json.Marshal(st)
	if err != nil {
		return fmt.Errorf("encode exporter state: %w", err)
	}
	temp := path + ".new"
	if err := os.WriteFile(temp, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write exporter state: %w", err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("write exporter state: %w", err)
	}
	return nil
}
