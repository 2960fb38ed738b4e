package ingest_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/store"
)

// onceConsumer gives its messages, all of them at once, until the last is committed.
type onceConsumer struct {
	msgs      []broker.Message
	committed int64
}

func (c *onceConsumer) Fetch(context.Context, int, time.Duration) ([]broker.Message, error) {
	if c.committed > 0 {
		return nil, context.Canceled
	}
	return c.msgs, nil
}

func (c *onceConsumer) Commit(_ context.Context, msgs []broker.Message) error {
	c.committed = msgs[len(msgs)-1].Next()
	return nil
}

// checkC3 says what C3 finds where the group has committed to an offset.
func checkC3(t *testing.T, p *pipeline, committed int64) (figures string, failures []string) {
	t.Helper()
	results, err := check.Run(t.Context(),
		ingest.Checks(ingest.CheckDeps{Store: p.db, Offsets: func(context.Context) ([]broker.PartitionOffsets, error) {
			return []broker.PartitionOffsets{{Last: committed, Committed: committed}}, nil
		}})[2:3])
	if err != nil || results[0].Name != "C3" {
		t.Fatal(results, err)
	}
	return results[0].Figures, results[0].Findings
}

// TestH3H4UnreadableBatchesAreDeadByOffset: each of their offsets is dead in the
// journal, a few rows stand for 2^31 of them, and what is honest around them counts.
func TestH3H4UnreadableBatchesAreDeadByOffset(t *testing.T) {
	p := newPipeline(t)
	at := time.Unix(1_800_000_000, 0)
	sound := func(offset int64, i int) broker.Message {
		return broker.Message{Topic: broker.TopicSamples, Value: encoded(t, fleetBatch(i, 0)), Offset: offset, Time: at}
	}
	bad := func(from, to int64, reason string) broker.Message {
		return broker.Message{
			Topic: broker.TopicSamples, Key: []byte("n1"), Value: []byte("raw bytes"), Offset: from, Time: at,
			Bad: &broker.Unreadable{Reason: reason, Err: errors.New("says why"), To: to},
		}
	}
	const far = 1 << 31
	hole := sound(far+80_000, 4)
	hole.Hole = &broker.Hole{From: far + 30_000, To: far + 80_000}
	msgs := []broker.Message{
		sound(0, 0), bad(1, 2, broker.ReasonRecord), sound(2, 1), bad(3, 13, broker.ReasonRecord), sound(13, 2),
		bad(14, far, broker.ReasonTooLarge), sound(far, 3), bad(far+1, far+30_000, broker.ReasonTooLarge), hole,
	}
	large := sound(far+80_001, 5)
	large.Bad = &broker.Unreadable{Reason: broker.ReasonTooLarge, Err: errors.New("says why")}
	msgs = append(msgs, large)
	const end = far + 80_002
	for _, round := range []string{"once", "again"} { // as after a crash before the commit
		consumer := &onceConsumer{msgs: msgs}
		in, err := ingest.New(ingest.DefaultConfig(), ingest.Deps{
			Consumer: consumer, Origins: p.origins, DeadLetters: p.topic, Store: p.db, Clock: clock.Real(),
			Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		})
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := in.Run(t.Context()); !errors.Is(err, context.Canceled) || consumer.committed != end {
			t.Fatalf("%s: ingest ended with %v at %d", round, err, consumer.committed)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 200<<20 {
			t.Errorf("%s: %d bytes were allocated", round, n)
		}
		if n := p.count(t, "batches"); n > 10_000 {
			t.Errorf("%s: the journal has %d rows", round, n)
		}
		figures, failures := checkC3(t, p, end)
		want := "2147563650 offsets: 5 stored, 2147513645 dead, 50000 holes"
		if !strings.HasPrefix(figures, want) || len(failures) > 0 {
			t.Errorf("%s: C3 says %q, %q, want %q", round, figures, failures, want)
		}
	}
	var got []string
	for _, m := range p.topic.dead[:len(p.topic.dead)/2] {
		l, err := ingest.ParseDeadLetter(m)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, l.Reason+" "+string(l.Key)+": "+strings.Split(l.Error, "\n")[0]+", "+errText(l.Replayable()))
	}
	want := []string{
		"record n1: says why, unreadable record batch (offsets 1 to 1): it holds no message to send again",
		"record n1: says why, unreadable record batch (offsets 3 to 12): it holds no message to send again",
		"too_large n1: says why, unreadable record batch (offsets 14 to 2147483647): it holds no message to send again",
		"too_large n1: says why, unreadable record batch (offsets 2147483649 to 2147513647): it holds no message to send " +
			"again",
		"too_large : says why, sound",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dead letters (-want +got):\n%s", diff)
	}
	// A row that stands for many can be lost like any other.
	if err := p.db.Alter(t.Context(), "batches", "DELETE WHERE offset = {offset:UInt64} SETTINGS mutations_sync = 2",
		store.Named("offset", uint64(15))); err != nil {
		t.Fatal(err)
	}
	if _, failures := checkC3(t, p, end); len(failures) == 0 {
		t.Error("C3 finds nothing where a span of 2^31 offsets is gone")
	}
}

func errText(err error) string {
	if err == nil {
		return "sound"
	}
	return err.Error()
}
