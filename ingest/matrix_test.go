package ingest_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions/decisionstest"
	"github.com/gputally/gputally/internal/store"
)

// chunk is the offsets [from, to) that one ingester is given, and the step
// before which it is killed; empty: it isn't.
type chunk struct {
	from, to int
	killed   string
}

// member is an ingester that is given one chunk.
type member struct {
	p     *pipeline
	chunk chunk
	given bool
	kill  context.CancelFunc
}

func (m *member) Fetch(context.Context, int, time.Duration) ([]broker.Message, error) {
	if m.given {
		return nil, context.Canceled
	}
	m.given = true
	return m.p.topic.msgs[m.chunk.from:m.chunk.to], nil
}

func (m *member) Commit(ctx context.Context, _ []broker.Message) error {
	if m.chunk.killed == "commit" {
		m.kill()
		return context.Canceled
	}
	m.p.topic.committed = int64(m.chunk.to)
	return ctx.Err()
}

type memberStore struct {
	*store.DB
	m *member
}

func (s memberStore) Insert(ctx context.Context, table string, in proto.Input) error {
	if s.m.chunk.killed == table {
		s.m.kill()
		return context.Canceled
	}
	return s.DB.Insert(ctx, table, in)
}

// take gives a chunk to a new ingester, which remembers nothing of the last one.
func (p *pipeline) take(t *testing.T, c chunk) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := &member{p: p, chunk: c, kill: cancel}
	in, err := ingest.New(ingest.DefaultConfig(), ingest.Deps{
		Consumer: m, Origins: &decisionstest.Open{}, DeadLetters: p.topic, Store: memberStore{p.db, m}, Clock: clock.Real(),
		Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Run(ctx); (err == nil) != (c.killed != "") {
		t.Fatalf("chunk %+v: ingest ended with %v", c, err)
	}
}

// TestEveryStateThatAChunkCanMeet: same, overlapping, contained, containing, new
// and older offsets, against a journal that is whole, that lacks what raw has
// already, or whose commit was lost. However a chunk is cut, each offset has one
// journal row, and each batch its rows once.
func TestEveryStateThatAChunkCanMeet(t *testing.T) {
	const end = 21
	msgs := slices.Insert(fleet(t, 2, end/2), 9, []byte("garbage"))
	clean := newPipeline(t)
	clean.topic.append(msgs...)
	clean.drain(t)
	want, journal := clean.usage(t), clean.journal(t)
	for _, c := range []struct {
		name   string
		chunks []chunk
		rest   int // what is still unread from here on
	}{
		{"nothing there: new", []chunk{{0, end, ""}}, end},
		{"whole: same", []chunk{{0, 10, ""}, {0, 10, ""}}, 10},
		{"whole: new", []chunk{{0, 10, ""}, {10, end, ""}}, end},
		{"whole: overlapping the end", []chunk{{0, 10, ""}, {5, 15, ""}}, 15},
		{"whole: contained", []chunk{{0, 10, ""}, {3, 7, ""}}, 10},
		{"whole: containing", []chunk{{0, 10, ""}, {0, end, ""}}, end},
		{"whole: older", []chunk{{10, end, ""}, {0, 10, ""}}, end},
		{"whole: overlapping the start", []chunk{{10, end, ""}, {5, 15, ""}, {0, 6, ""}}, end},
		{"raw without journal: same", []chunk{{0, 10, "batches"}, {0, 10, ""}}, 10},
		{"raw without journal: cut otherwise", []chunk{{0, 10, "batches"}, {0, 5, ""}, {5, 15, ""}}, 15},
		{"raw without journal: containing", []chunk{{0, 10, "batches"}, {0, end, ""}}, end},
		{"part of raw: newer first", []chunk{{0, 10, "holds"}, {10, end, ""}, {0, 10, ""}}, end},
		{"commit lost: same", []chunk{{0, 10, "commit"}, {0, 10, ""}}, 10},
		{"commit lost: cut otherwise", []chunk{{0, 10, "commit"}, {0, 3, ""}, {3, end, ""}}, end},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPipeline(t)
			p.topic.append(msgs...)
			for _, chunk := range c.chunks {
				p.take(t, chunk)
			}
			if c.rest < end {
				p.take(t, chunk{c.rest, end, ""})
			}
			p.topic.committed = end
			if _, err := p.ledger.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(journal, p.journal(t)); diff != "" {
				t.Errorf("journal (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, p.usage(t)); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
			if n := p.count(t, "holds"); n != end-1 {
				t.Errorf("%d rows of raw, want %d", n, end-1)
			}
			p.mustPassChecks(t)
		})
	}
}

// A topic that was made anew has other messages at the same offsets. The broker's
// client stops where it sees that; where nobody did, C3 does.
func TestATopicMadeAnewIsNamed(t *testing.T) {
	p := newPipeline(t)
	p.topic.append(fleet(t, 1, 10)...)
	p.drain(t)
	p.topic.msgs, p.topic.committed = nil, 0
	p.topic.append(fleet(t, 2, 5)...)
	p.drain(t)
	if found := p.checks(t)["C3"]; !strings.Contains(found, "for 10 offsets") {
		t.Errorf("C3 says %q, want that there are more rows than offsets", found)
	}
}
