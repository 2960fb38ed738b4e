package local

import (
	"slices"
	"time"
)

// whole is the key of a GPU without MIG.
var whole = Key{CI: -2}

// layout is the history of a GPU's leaves, as far as slots to come need it.
type layout struct {
	spans  []span
	looked time.Time // when it was looked at last; zero: never
}

// span is a leaf's life; a zero time is open to that side.
type span struct {
	key      Key
	from, to time.Time
}

// look takes up what the GPU has at an instant: keys that are new begin, those
// that are missing end. An instant before the last one, by a step of the clock,
// counts as that: lives never overlap and none ends before it begins.
func (l *layout) look(at time.Time, keys []Key) {
	if at = at.Round(0); at.Before(l.looked) { // by the wall clock, as slots are
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

// forget drops what ended before an instant.
func (l *layout) forget(before time.Time) {
	l.spans = slices.DeleteFunc(l.spans, func(s span) bool { return !s.to.IsZero() && !s.to.After(before) })
}

// within clips a span to a slot, in ms of the slot; nil is the slot's own bound.
// It answers false for a span outside.
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

// keys of a GPU: its instances, or the whole of it.
func (b *GPU) keys(buf []Key) []Key {
	if !b.MIG {
		return append(buf, whole)
	}
	for i := range b.Instances {
		buf = append(buf, b.Instances[i].Key)
	}
	return buf
}
