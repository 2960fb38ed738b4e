package exporter

import (
	"github.com/gputally/gputally/collector/source/field"
)

// warning identifies a warning about a name's absent values and their reason, which is logged once. Their number is
// bounded by targets, times names of the table and unknown ones (maxUnknown), times reasons.
type warning struct {
	target *target
	name   string
	reason string
}

// leaveOut counts an absent value; if its unit or name is the reason, it is logged once per target.
func (s *Source) leaveOut(t *target, name, reason string) {
	s.metrics.absent.WithLabelValues(reason).Inc()
	switch reason {
	case field.AbsentUndecided, field.AbsentHelp, field.AbsentContradiction, absentUnknown:
	default:
		return
	}
	t.unclear = true
	if s.named.First(warning{t, name, reason}) {
		s.deps.Log.Warn("a metric's values are taken as absent: "+explained[reason],
			"target", t.name, "metric", name, "reason", reason)
	}
}

// noteOtherNode logs once per target that its rows are counted for its own node.
func (s *Source) noteOtherNode(t *target) {
	if s.named.First(warning{t, labelsNode[0], "node"}) {
		s.deps.Log.Warn("rows with another Hostname label are counted for the target's own node: "+
			"set node to that node, or trust_hostname: true to use the label", "target", t.name, "node", t.node)
	}
}

const (
	maxNamed   = 10_000 // lines in the log; later ones may repeat
	maxUnknown = 16     // unknown names of one exposition
	maxModels  = 32     // in metrics
)

var explained = map[string]string{
	field.AbsentUndecided: "the exposition doesn't show whether it is a ratio (DCGM 4.7) or percent (4.6): " +
		"export another field beside it, such as DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL or DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
	field.AbsentHelp: "its HELP text names another unit than DCGM has for that name, or one that is not known " +
		"here",
	field.AbsentContradiction: "two metrics of one quantity, in two units, contradict each other",
	absentUnknown:             "its name is unknown, and no known name has the quantity",
}

// nameUnknown logs metrics that look like a needed one that is missing.
func (s *Source) nameUnknown(r *reading) {
	if len(r.unknown) == 0 {
		return
	}
	shown := map[uint32]bool{}
	for _, smp := range r.samples {
		shown[smp.Series.Field().ID] = true
	}
	for _, name := range r.unknown {
		if f := field.Alike(name); f != nil && !shown[f.ID] {
			s.leaveOut(r.target, name, absentUnknown)
		}
	}
}

// mergeUnits combines quantities that were reported in two units.
func (s *Source) mergeUnits(nodes map[string]*nodeView) {
	for _, n := range nodes {
		for _, b := range n.boards {
			s.mergeUnitsOf(b, &b.device)
			for _, inst := range b.instances {
				s.mergeUnitsOf(b, &inst.device)
			}
		}
	}
}

func (s *Source) mergeUnitsOf(b *board, d *device) {
	for _, f := range field.WithBase() {
		base, ok := d.values[f.Base.ID]
		if !ok {
			continue
		}
		delete(d.values, f.Base.ID)
		own, both := d.values[f.ID]
		if !both {
			d.values[f.ID] = base
			continue
		}
		v, absent := f.Merge(own, base)
		if absent != "" {
			delete(d.values, f.ID)
			s.leaveOut(b.target, f.Base.Name, absent)
			continue
		}
		d.values[f.ID] = v
	}
}
