package exporter

import (
	"slices"

	"github.com/gputally/gputally/collector/source/gpustate"
)

// stateKind identifies the state file's format.
const stateKind = "gputally exporter state"

// state is the content of Deps.StateFile.
type state struct {
	gpustate.State
	Targets []stateTarget `json:"targets"`
}

// stateTarget is what was learned about an exporter: the nodes of which it has rows, and whether its missing
// rows have no meaning for MIG.
type stateTarget struct {
	Name        string   `json:"name"`
	Nodes       []string `json:"nodes,omitempty"`
	SilentOnMIG bool     `json:"untelling,omitempty"`
}

// restore reads the state of the previous process, once.
func (s *Source) restore() {
	var st state
	if s.memory.RestoreOnce(&st, &st.State, s.deps.Clock.Now()) {
		s.learnAgain(st.Targets)
	}
}

// learnAgain restores what was learned about targets that are still configured.
func (s *Source) learnAgain(known []stateTarget) {
	for _, k := range known {
		for _, t := range s.targets {
			if t.name != k.Name {
				continue
			}
			t.silentOnMIG = k.SilentOnMIG
			for _, node := range k.Nodes {
				s.shared[listing{node, t}] = s.deps.Clock.Now()
			}
		}
	}
}

func (s *Source) save() { s.memory.Save(state{State: s.memory.State(), Targets: s.learned()}) }

func (s *Source) learned() []stateTarget {
	out := make([]stateTarget, len(s.targets))
	for i, t := range s.targets {
		out[i] = stateTarget{Name: t.name, SilentOnMIG: t.silentOnMIG}
		for l := range s.shared {
			if l.target == t {
				out[i].Nodes = append(out[i].Nodes, l.node)
			}
		}
		slices.Sort(out[i].Nodes)
	}
	return out
}
