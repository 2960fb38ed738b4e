package explain

import (
	"fmt"
	"math"

	"github.com/gputally/gputally/internal/meter"
)

// energySplit counts how the movement of the hour's slots was split (R16).
type energySplit struct {
	slots, unattributed, platform, followed, unfollowed int
	idleMJ, restMJ, unfollowedMJ                        int64
	byTime                                              int // slots whose rest went by slice-ms alone
	watts                                               float64
}

// energy explains the split: what went where, and why.
func (w *words) energy(entries []entry, segments []segment) Energy {
	out := Energy{Why: []string{}}
	for i := range entries {
		e := &entries[i]
		out.UnattributedMJ += e.unattributedMJ
		if e.owner != 0 {
			out.OwnersMJ += e.energyMJ
		} else {
			out.PlatformMJ += e.energyMJ
		}
	}
	out.MovedMJ = out.OwnersMJ + out.PlatformMJ + out.UnattributedMJ
	var split energySplit
	for i := range segments {
		for j := range segments[i].cells {
			if c := &segments[i].cells[j]; c.record != nil && segments[i].kind != absent {
				split.cell(c, w.slotMS)
			}
		}
	}
	out.Why = split.text()
	return out
}

func (s *energySplit) cell(c *cell, slotMS int64) {
	var total, unattributed int64
	for _, r := range c.record.Rows {
		total, unattributed = total+r.EnergyMJ, unattributed+r.UnattributedMJ
	}
	switch {
	case unattributed != 0:
		s.unattributed++
	case total == 0:
	case c.kind == lost || c.kind == unread || c.kind == excess || c.kind == blind:
		s.platform++
	default:
		s.slots++
		s.follow(c, total, slotMS)
	}
}

// follow splits the slot's energy again, with the model table's idle watts
// over one slot: where that gives what is booked, it is how it was done.
func (s *energySplit) follow(c *cell, total, slotMS int64) {
	m, _ := meter.ModelByName(c.record.Model)
	idle := min(total, int64(math.Round(m.IdleWatts*float64(slotMS))))
	for _, idleMJ := range []int64{idle, 0} {
		if byTime, ok := fits(c.record.Rows, idleMJ, total-idleMJ); ok {
			s.followed++
			s.idleMJ, s.restMJ = s.idleMJ+idleMJ, s.restMJ+total-idleMJ
			if idleMJ > 0 {
				s.watts = m.IdleWatts
			}
			if byTime {
				s.byTime++
			}
			return
		}
	}
	s.unfollowed++
	s.unfollowedMJ += total
}

// fits says that the rows are booked as these two parts give, to a millijoule
// of rounding; byTime that the rest follows from slice-ms alone.
func fits(rows []meter.Row, idle, rest int64) (byTime, ok bool) {
	var seen, held, work float64
	for _, r := range rows {
		if r.Bucket == meter.Pending || r.Bucket == meter.Unobserved {
			continue
		}
		seen += float64(r.SliceMS)
		if r.Owner != 0 {
			held, work = held+float64(r.SliceMS), work+float64(r.Work)
		}
	}
	if seen == 0 {
		return false, false
	}
	for _, byTime := range []bool{false, true} {
		if !byTime && work == 0 && held > 0 {
			continue
		}
		if matches(rows, float64(idle), float64(rest), seen, held, work, byTime) {
			return byTime, true
		}
	}
	return false, false
}

func matches(rows []meter.Row, idle, rest, seen, held, work float64, byTime bool) bool {
	platform, booked := 0.0, 0.0
	for _, r := range rows {
		if r.Bucket == meter.Pending || r.Bucket == meter.Unobserved {
			continue
		}
		want := idle * float64(r.SliceMS) / seen
		switch {
		case r.Owner == 0:
			platform, booked = platform+want, booked+float64(r.EnergyMJ)
			continue
		case byTime:
			want += rest * float64(r.SliceMS) / held
		default:
			want += rest * float64(r.Work) / work
		}
		if math.Abs(want-float64(r.EnergyMJ)) > 1+rest*workError(r, work) {
			return false
		}
	}
	if held == 0 {
		platform += rest
	}
	return math.Abs(platform-booked) <= float64(len(rows))
}

// workError is what rounding the stored work may move a share by.
func workError(r meter.Row, work float64) float64 {
	if r.Work == 0 || work == 0 {
		return 0
	}
	return 1 / work
}

func (s *energySplit) text() []string {
	out := []string{}
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if s.slots+s.unattributed+s.platform == 0 {
		return append(out, "no energy counter moved")
	}
	if s.followed > 0 {
		add("%s split by R16, recomputed: idle part %s J (%s) by slice-ms over all that was observed, the other %s J by slice-ms × A over held time, the platform's where nobody held",
			count(int64(s.followed), "slot"), joules(s.idleMJ), idleText(s.watts), joules(s.restMJ))
	}
	if s.byTime > 0 {
		add("in %s of them the other part went by slice-ms alone: an activity was absent, or all were zero", count(int64(s.byTime), "slot"))
	}
	if s.unfollowed > 0 {
		add("%s (%s J) stand as split when they came in: the batch's idle watts and the time its counter covers are not kept", count(int64(s.unfollowed), "slot"), joules(s.unfollowedMJ))
	}
	if s.platform > 0 {
		add("%s to the platform whole: GPU lost, owners not read, overfull, or nothing seen", count(int64(s.platform), "slot"))
	}
	if s.unattributed > 0 {
		add("%s unattributed: a movement over more than 1.5 slots, or a reset (which of them is not kept)", count(int64(s.unattributed), "slot"))
	}
	return out
}

func idleText(watts float64) string {
	if watts == 0 {
		return "idle watts not known"
	}
	return fmt.Sprintf("at most %g W, the model table's", watts)
}
