package source

import (
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
