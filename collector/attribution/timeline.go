package attribution

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// keepPolls bounds how much a timeline stores while no slot is emitted, as after the wall clock stepped back.
const keepPolls = 2 * time.Hour

// stay is the time of one holding, as polled; a zero to: it is still held.
type stay struct {
	key      key
	holding  Holding
	from, to time.Time
}

// timeline is the history of one reader's answers.
type timeline struct {
	reader Reader
	polls  []time.Time // successful ones, ascending
	open   map[key]*stay
	closed []stay
	shared []Shared
}

func newTimeline(r Reader) *timeline { return &timeline{reader: r, open: map[key]*stay{}} }

// observe adds a successful answer: new holdings begin at this instant, missing ones end.
func (l *timeline) observe(at time.Time, snap Snapshot) {
	if n := len(l.polls); n > 0 && at.Equal(l.polls[n-1]) {
		return // an answer that was already added
	} else if n > 0 && at.Before(l.polls[n-1]) {
		l.restart(at)
	}
	l.polls = append(l.polls, at)
	l.shared = snap.Shared
	now := make(map[key]bool, len(snap.Holdings))
	for i := range snap.Holdings {
		h := snap.Holdings[i]
		k := keyOf(&h)
		now[k] = true
		if l.open[k] == nil {
			l.open[k] = &stay{key: k, holding: h, from: at}
		}
	}
	for k, s := range l.open {
		if !now[k] {
			s.to = at
			l.closed = append(l.closed, *s)
			delete(l.open, k)
		}
	}
	l.forget(at.Add(-keepPolls))
}

// restart removes everything after at, the new time after the wall clock stepped back.
func (l *timeline) restart(at time.Time) {
	l.polls, l.closed = nil, nil
	for _, s := range l.open {
		s.from = at
	}
}

// forget removes what ended before an instant; the last poll before it is kept, because it is valid for the time
// after it.
func (l *timeline) forget(before time.Time) {
	l.closed = slices.DeleteFunc(l.closed, func(s stay) bool { return !s.to.After(before) })
	i, _ := slices.BinarySearchFunc(l.polls, before, time.Time.Compare)
	l.polls = slices.Delete(l.polls, 0, max(0, i-1))
}

// known returns whether every moment of [from, to) is at most stale after a successful poll; if not, since is the
// last successful poll before the unknown moment.
func (l *timeline) known(from, to time.Time, stale time.Duration) (since time.Time, ok bool) {
	for _, p := range append(slices.Clip(l.polls), to) {
		if p.After(from) { // [from, p) depends on the poll before
			if since.IsZero() || min(p.Sub(since), to.Sub(since)) > stale {
				return since, false
			}
			from = p
		}
		if !from.Before(to) {
			return since, true
		}
		since = p
	}
	return since, true
}

// within returns the stays that overlap [from, to), in a fixed order.
func (l *timeline) within(from, to time.Time) []stay {
	var out []stay
	for _, s := range l.closed {
		if s.from.Before(to) && s.to.After(from) {
			out = append(out, s)
		}
	}
	for _, s := range l.open {
		if s.from.Before(to) {
			out = append(out, *s)
		}
	}
	slices.SortFunc(out, func(a, b stay) int {
		return cmp.Or(a.key.compare(b.key), a.from.Compare(b.from))
	})
	return out
}

// key identifies a holding. Keys order holdings.
type key struct {
	device string
	holder string // replica and owner; containers of one pod are one owner
}

func keyOf(h *Holding) key {
	o := h.Owner
	return key{h.Device.key(), strings.Join([]string{
		h.Replica, o.Tenant, o.Project, o.Namespace, o.Pod, o.Uid, o.Job, o.User, o.Account,
	}, "\x00")}
}

func (k key) compare(o key) int {
	return cmp.Or(strings.Compare(k.device, o.device), strings.Compare(k.holder, o.holder))
}

// key is equal for devices with equal names; numbers sort numerically, after missing ones.
func (d Device) key() string {
	number := func(n *uint32) int64 {
		if n == nil {
			return 0
		}
		return int64(*n) + 1
	}
	return fmt.Sprintf("%s\x00%010d %010d %010d %010d %t",
		d.UUID, number(d.Index), number(d.Minor), number(d.GI), number(d.CI), d.Whole)
}

// String is the device's name for display.
func (d Device) String() string {
	var parts []string
	if d.UUID != "" {
		parts = append(parts, d.UUID)
	}
	for _, f := range []struct {
		name string
		v    *uint32
	}{{"index", d.Index}, {"minor", d.Minor}, {"gi", d.GI}, {"ci", d.CI}} {
		if f.v != nil {
			parts = append(parts, fmt.Sprintf("%s %d", f.name, *f.v))
		}
	}
	return strings.Join(parts, ", ")
}
