package attribution

import (
	"cmp"
	"maps"
	"time"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/internal/wire"
)

// Attribute adds the holds, and whether they are known, to the node's own batches of a slot. Batches of other nodes
// are marked as unknown.
func (t *Tracker) Attribute(slot source.Slot, batches []*wire.Batch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range batches {
		if b.Node == t.deps.Node {
			t.attribute(slot, b)
			continue
		}
		t.metrics.elsewhere.Inc()
		t.once("node "+b.Node, "the source's node differs from collector.node: all its time is unobserved; "+
			"set collector.node to its name",
			"node", b.Node, "asked_for", t.deps.Node)
		fail(b)
	}
	for _, l := range t.lines {
		l.forget(slot.Start)
	}
	t.forget(slot.Start)
}

// fail marks the owners of a batch as unknown.
func fail(b *wire.Batch) {
	b.Attribution = wire.Attribution_ATTRIBUTION_FAILED
	for _, g := range b.Gpus {
		g.Holds = nil
	}
}

// remember is how long a device counts as known after it was last seen, and for how long a warning isn't repeated.
const remember = 24 * time.Hour

func (t *Tracker) forget(now time.Time) {
	old := func(at time.Time) bool { return now.Sub(at) > remember }
	maps.DeleteFunc(t.seen, func(_ string, at time.Time) bool { return old(at) })
	maps.DeleteFunc(t.warned, func(_ string, at time.Time) bool { return old(at) })
}

// once logs a warning at most once a day.
func (t *Tracker) once(what, msg string, args ...any) {
	if _, known := t.warned[what]; !known {
		t.warned[what] = t.deps.Clock.Now()
		t.deps.Log.Warn(msg, args...)
	}
}

func (t *Tracker) attribute(slot source.Slot, b *wire.Batch) {
	for _, g := range b.Gpus {
		g.Holds = nil
	}
	failed := ""
	for _, o := range wire.Observed(b) {
		failed = cmp.Or(failed, t.unknown(slot.Start.Add(ms(o.FromMs)), slot.Start.Add(ms(o.ToMs))))
	}
	if failed == "" {
		failed = t.hold(slot, b)
	}
	b.Attribution = wire.Attribution_ATTRIBUTION_OK
	if failed != "" {
		fail(b)
		t.metrics.failed.Inc()
	}
	if failed != "" && t.lastFail == "" {
		t.deps.Log.Warn("attribution failed: no time of this slot is counted as free", "slot", slot.Start, "reason", failed)
	}
	t.lastFail = failed
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// claim is a stay on a leaf.
type claim struct {
	place
	owner *wire.Owner
	at    source.Span
}

// hold adds the holds: readers in their order, each on the leaves that the earlier ones left. It returns why it
// failed; empty: it did not.
func (t *Tracker) hold(slot source.Slot, b *wire.Batch) (failed string) {
	x := t.index(b)
	taken, entire := map[*wire.Leaf][]source.Span{}, map[*wire.Leaf]bool{}
	for _, l := range t.lines {
		var claims []claim
		for _, s := range l.within(slot.Start, slot.End()) {
			places := x.find(s.holding.Device)
			if len(places) == 0 {
				failed = cmp.Or(failed, t.missing(l.reader.Name(), x, &s))
			} else {
				t.seen[s.key.device] = slot.Start
			}
			for _, p := range places {
				entire[p.leaf] = entire[p.leaf] || s.holding.Replica == ""
				claims = append(claims, claim{p, s.holding.Owner, slot.Span(s.from, s.to)})
			}
		}
		for _, c := range claims {
			for _, left := range c.at.Without(taken[c.leaf]) {
				c.gpu.Holds = append(c.gpu.Holds, holdOf(c, left, slot.Length.Milliseconds()))
			}
		}
		for _, c := range claims { // only now, since several owners named by one reader share a leaf
			taken[c.leaf] = append(taken[c.leaf], c.at)
		}
	}
	t.share(x, entire)
	return failed
}

// share sets the number of replicas of each leaf. The holder of an entire leaf holds no replica of it, whatever
// another reader reports.
func (t *Tracker) share(x *index, entire map[*wire.Leaf]bool) {
	for _, l := range t.lines {
		for _, s := range l.shared {
			for _, at := range x.find(s.Device) {
				if !entire[at.leaf] {
					at.leaf.Replicas = cmp.Or(at.leaf.Replicas, s.Replicas)
				}
			}
		}
	}
}

func holdOf(c claim, at source.Span, slotMS int64) *wire.Hold {
	h := &wire.Hold{Leaf: c.leaf.Id, Owner: c.owner}
	if at.From > 0 {
		h.FromMs = &at.From
	}
	if at.To < slotMS {
		h.ToMs = &at.To
	}
	return h
}

// missing handles a holding whose device isn't in the batch. If its time could be counted as free on another device,
// it returns why the slot fails.
func (t *Tracker) missing(reader string, x *index, s *stay) (failed string) {
	h := &s.holding
	_, seen := t.seen[s.key.device]
	reason := x.why(h.Device, seen)
	t.metrics.unresolved.WithLabelValues(reason).Inc()
	name := reader + ": " + h.Device.String()
	t.once(name+" "+reason, "a held device was not found on the node", "reader", reader, "device", h.Device.String(),
		"missing", reason, "namespace", h.Owner.Namespace, "pod", h.Owner.Pod, "job", h.Owner.Job, "tenant", h.Owner.Tenant)
	if reason == unresolvedGone {
		return ""
	}
	return name + " is held, and may be any device of the node: " + reason
}
