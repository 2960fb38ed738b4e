package exporter

import (
	"slices"

	"github.com/gputally/gputally/collector/source/gpustate"
)

// stateKind is what the state file says of itself.
const stateKind = "gputally exporter state"

// state is what is in Deps.StateFile.
type state struct {
	gpustate.State
	Targets []stateTarget `json:"targets"`
}

// stateTarget is what was learned of an exporter: the nodes that it ever had
// rows of, and whether its missing rows say nothing of MIG.
type stateTarget struct {
	Name        string   `json:"name"`
	Nodes       []string `json:"nodes,omitempty"`
	SilentOnMIG bool     `json:"untelling,omitempty"`
}

// restore takes up the memory of the process before, once.
func (s *Source) restore() {
	var st state
	if s.memory.RestoreOnce(&st, &st.State, s.deps.Clock.Now()) {
		s.learnAgain(st.Targets)
	}
}

// learnAgain takes up what was known of the targets that are still configured.
func (s *Source) learnAgain(known []stateTarget) {
	for _, k := range known {
		for _, t := range s.targets {
			if t.name != k.Name {
				continue
			}
			t.silentOnMIG = k.SilentOnMIG
			for _, node := range k.Nodes {
				s.targetsOf(node)[t] = true
			}
		}
	}
}

func (s *Source) save() { s.memory.Save(state{State: s.memory.State(), Targets: s.learned()}) }

func (s *Source) learned() []stateTarget {
	out := make([]stateTarget, len(s.targets))
	for i, t := range s.targets {
		out[i] = stateTarget{Name: t.name, SilentOnMIG: t.silentOnMIG}
		for node, targets := range s.shared {
			if targets[t] {
				out[i].Nodes = append(out[i].Nodes, node)
			}
		}
		slices.Sort(out[i].Nodes)
	}
	return out
}
