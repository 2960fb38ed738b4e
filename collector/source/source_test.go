package source

import (
	"slices"
	"testing"
	"time"
)

func TestAt(t *testing.T) {
	for _, c := range []struct{ at, start string }{
		{"2026-03-04T10:00:00Z", "2026-03-04T10:00:00Z"},
		{"2026-03-04T10:00:09.999999999Z", "2026-03-04T10:00:00Z"},
		{"2026-03-04T10:00:10Z", "2026-03-04T10:00:10Z"},
		{"2026-03-04T15:44:59+05:45", "2026-03-04T09:59:50Z"}, // aligned to UTC, whatever the zone
		{"1969-12-31T23:59:59Z", "1969-12-31T23:59:50Z"},
	} {
		at, err := time.Parse(time.RFC3339Nano, c.at)
		if err != nil {
			t.Fatal(err)
		}
		s := At(at, 10*time.Second)
		if got := s.Start.Format(time.RFC3339Nano); got != c.start {
			t.Errorf("At(%s) starts at %s, want %s", c.at, got, c.start)
		}
		if s.End() != s.Next().Start || s.Next().Length != s.Length {
			t.Errorf("the slot after %v is %v", s, s.Next())
		}
	}
}

func TestSpansOfASlot(t *testing.T) {
	s := Slot{Start: time.UnixMilli(20_000), Length: 10 * time.Second}
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	for want, got := range map[Span]Span{
		{0, 10_000}:      s.Span(at(1), at(90_000)),
		{2_000, 10_000}:  s.Span(at(22_000), time.Time{}), // it has no end
		{0, 3_000}:       s.Span(time.Time{}, at(23_000)),
		{10_000, 10_000}: s.Span(at(40_000), at(50_000)),
		{0, 0}:           s.Span(at(5_000), at(6_000)),
	} {
		if got != want {
			t.Errorf("the span is %v, want %v", got, want)
		}
	}
	for _, c := range []struct {
		others, want []Span
	}{
		{nil, []Span{{10, 50}}},
		{[]Span{{0, 10}, {50, 60}}, []Span{{10, 50}}},
		{[]Span{{40, 60}, {0, 20}}, []Span{{20, 40}}},
		{[]Span{{20, 30}, {25, 26}, {30, 31}}, []Span{{10, 20}, {31, 50}}},
		{[]Span{{60, 70}}, []Span{{10, 50}}},
		{[]Span{{0, 30}, {30, 90}}, nil},
	} {
		if got := (Span{10, 50}).Without(c.others); !slices.Equal(got, c.want) {
			t.Errorf("without %v there is %v, want %v", c.others, got, c.want)
		}
	}
}
