package exporter

import (
	"github.com/gputally/gputally/collector/source/field"
)

// warning is what is logged once in the log: values of a name that are absent, and
// why. There are as many as targets, times names of the table and unknown ones
// (maxUnknown), times reasons.
type warning struct {
	target *target
	name   string
	reason string
}

// leaveOut counts an absent value; one whose unit or name is the reason is named
// in the log, once per target.
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

// noteOtherNode says once per target that its rows are taken for its own node's.
func (s *Source) noteOtherNode(t *target) {
	if s.named.First(warning{t, labelsNode[0], "node"}) {
		s.deps.Log.Warn("rows with another Hostname label count for the target's own node: "+
			"name that node under node, or set trust_hostname: true to let the label decide", "target", t.name, "node", t.node)
	}
}

const (
	maxNamed   = 10_000 // lines in the log; later ones may repeat
	maxUnknown = 16     // unknown names of one exposition
	maxModels  = 32     // in metrics
)

var explained = map[string]string{
	field.AbsentUndecided: "nothing in the exposition tells whether it is a ratio (DCGM 4.7) or percent (4.6): " +
		"export another field beside it, such as DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL or DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
	field.AbsentHelp: "its HELP text names another unit than DCGM has for that name, or one that is not known " +
		"here",
	field.AbsentContradiction: "two metrics of one quantity, in two units, say different things",
	absentUnknown:             "its name is not known here, and none that is known shows the quantity",
}

// nameUnknown names metrics that look like one that is needed and isn't there.
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

// mergeUnits makes one value of each quantity that was shown in two units.
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
