package exporter

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/gputally/gputally/collector/source/memory"
)

// stateKind is what the state file says of itself.
const stateKind = "gputally exporter state"

// state is what is in Deps.StateFile.
type state struct {
	memory.State
	Targets []stateTarget `json:"targets"`
}

// stateTarget is what was learned of an exporter: the nodes that it ever had
// rows of, and whether its missing rows say nothing of MIG.
type stateTarget struct {
	Name      string   `json:"name"`
	Nodes     []string `json:"nodes,omitempty"`
	Untelling bool     `json:"untelling,omitempty"`
}

// restore takes up the memory of the process before, once. Without a file that
// can be used the memory is empty, as at the very first start.
func (s *Source) restore() {
	if s.restored || s.deps.StateFile == "" {
		return
	}
	s.restored = true
	st, err := s.readState()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.deps.Log.Info("no memory of earlier readings: energy counts from the second one on", "file", s.deps.StateFile)
		return
	case err != nil:
		s.metrics.stateFails.Inc()
		s.deps.Log.Error("memory of earlier readings is lost: health flags and energy start anew", "file", s.deps.StateFile, "error", err)
		return
	}
	s.learnAgain(st.Targets)
	s.memory.Restore(st.State, s.deps.Clock.Now())
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

// save replaces the file by the memory as it is.
func (s *Source) save() {
	if s.deps.StateFile == "" {
		return
	}
	st := state{State: s.memory.State(stateKind, s.deps.Cluster), Targets: s.learned()}
	if err := s.file.Write(st); err != nil {
		s.metrics.stateFails.Inc()
		s.deps.Log.Error("memory of readings not saved: a restart would lose health flags and energy", "error", err)
	}
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

func (s *Source) readState() (st state, err error) {
	err = s.file.Read(s.deps.Cluster, &st, &st.State)
	return st, err
}
