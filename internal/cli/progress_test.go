package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/clock"
)

func TestProgressWithoutATerminalIsALinePerTenPercent(t *testing.T) {
	var b bytes.Buffer
	fake := clock.NewFake(time.Unix(0, 0))
	p := NewProgress(&b, fake, "ingest")
	p.Set(1, 0)
	p.Set(50, 100) // too soon to show anything
	fake.Advance(2 * time.Second)
	for i := range int64(1001) {
		if i%3 == 0 {
			p.Set(i*35/100, 1000)
		}
	}
	fake.Advance(10 * time.Second)
	p.Done("1,000 batches")
	want := "ingest: 10 %\ningest: 20 %\ningest: 30 %\ningest: 1,000 batches in 12s\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestProgressOnATerminalIsABar(t *testing.T) {
	var b bytes.Buffer
	fake := clock.NewFake(time.Unix(0, 0))
	p := NewProgress(&b, fake, "ingest")
	p.terminal = true
	fake.Advance(10 * time.Second)
	p.Set(50, 100)
	p.Set(51, 100) // too soon to draw again
	fake.Advance(time.Second)
	p.Set(200, 100)
	p.Done("done")
	want := "\ringest  " + strings.Repeat("█", 15) + strings.Repeat("░", 15) + "  50 %  10s left\x1b[K" +
		"\ringest  " + strings.Repeat("█", 30) + " 100 %\x1b[K" +
		"\r\x1b[Kingest: done in 11s\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("bar (-want +got):\n%s", diff)
	}
}

// TestProgressNeverGoesBack: an estimate may shrink while a stage runs ahead of
// the next; no step is shown twice.
func TestProgressNeverGoesBack(t *testing.T) {
	fake := clock.NewFake(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	var b strings.Builder
	p := NewProgress(&b, fake, "ingest")
	fake.Advance(time.Minute)
	for _, done := range []int64{21, 17, 22, 31} {
		p.Set(done, 100)
	}
	if diff := cmp.Diff("ingest: 20 %\ningest: 30 %\n", b.String()); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}
