package local

import (
	"slices"
	"time"
)

// whole is the key of a GPU without MIG.
var whole = Key{CI: -2}

// layout is the history of a GPU's leaves, as far as future slots need it.
type layout struct {
	spans  []span
	looked time.Time // time of the last look; zero: none
}

// span is the time in which a leaf exists; a zero time is unbounded.
type span struct {
	key      Key
	from, to time.Time
}

// look sets the GPU's keys at an instant: new keys begin, missing ones end. If the clock stepped back, at is taken as
// the time of the previous call, so that spans never overlap or become negative.
func (l *layout) look(at time.Time, keys []Key) {
	if at = at.Round(0); at.Before(l.looked) { // by the wall clock, like slots
		at = l.looked
	}
	for i := range l.spans {
		if s := &l.spans[i]; s.to.IsZero() && !slices.Contains(keys, s.key) {
			s.to = at
		}
	}
	for _, k := range keys {
		if l.open(k) {
			continue
		}
		s := span{key: k}
		if !l.looked.IsZero() {
			s.from = at
		}
		l.spans = append(l.spans, s)
	}
	l.looked = at
}

func (l *layout) open(k Key) bool {
	return slices.ContainsFunc(l.spans, func(s span) bool { return s.to.IsZero() && s.key == k })
}

// forget removes what ended before an instant.
func (l *layout) forget(before time.Time) {
	l.spans = slices.DeleteFunc(l.spans, func(s span) bool { return !s.to.IsZero() && !s.to.After(before) })
}

// within clips a span to a slot, in ms of the slot; nil is the slot's own bound. ok is false for a span outside.
func (s span) within(start, end time.Time) (fromMS, toMS *int64, ok bool) {
	if (!s.from.IsZero() && !s.from.Before(end)) || (!s.to.IsZero() && !s.to.After(start)) {
		return nil, nil, false
	}
	if s.from.After(start) {
		ms := s.from.Sub(start).Milliseconds()
		fromMS = &ms
	}
	if !s.to.IsZero() && s.to.Before(end) {
		ms := s.to.Sub(start).Milliseconds()
		toMS = &ms
	}
	return fromMS, toMS, true
}

// keys returns the keys of a GPU: its instances, or the whole GPU.
func (b *GPU) keys(buf []Key) []Key {
	if !b.MIG {
		return append(buf, whole)
	}
	for i := range b.Instances {
		buf = append(buf, b.Instances[i].Key)
	}
	return buf
}
