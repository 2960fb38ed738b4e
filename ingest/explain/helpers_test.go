package explain_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/ingest/explain"
	"github.com/gputally/gputally/ingest/imports"
	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions/decisionstest"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
)

var update = flag.Bool("update", false, "write the goldens anew")

const casesDir = "../../testdata/contract/cases"

// topic is a partition in memory that is read once.
type topic struct {
	msgs []broker.Message
	next int
}

func (p *topic) Fetch(_ context.Context, limit int, _ time.Duration) ([]broker.Message, error) {
	if p.next == len(p.msgs) {
		return nil, context.Canceled
	}
	return p.msgs[p.next:min(p.next+limit, len(p.msgs))], nil
}

func (p *topic) Commit(_ context.Context, msgs []broker.Message) error {
	p.next += len(msgs)
	return nil
}

func (p *topic) Produce(_ context.Context, msgs []broker.Message) error {
	return fmt.Errorf("%d dead letters, want none", len(msgs))
}

// house is ingest and ledger on a real engine.
type house struct {
	db     *store.DB
	offset int64
	ledger *ledger.Ledger
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{db: storetest.Open(t)}
	var err error
	h.ledger, err = ledger.New(ledger.DefaultConfig(), ledger.Deps{
		Store: h.db, Clock: clock.Real(), Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// take ingests JSON lines, and publishes them where publish is set.
func (h *house) take(t *testing.T, lines string, publish bool) {
	t.Helper()
	got, err := imports.Read(strings.NewReader(lines), nil, imports.Horizon{})
	if err != nil || len(got.Bad) > 0 {
		t.Fatalf("read batches: %v, %+v", err, got)
	}
	p := &topic{}
	for _, value := range got.Encoded {
		p.msgs = append(p.msgs,
			broker.Message{Topic: broker.TopicSamples, Offset: h.offset, Value: value, Time: time.Unix(1_800_000_000, 0)})
		h.offset++
	}
	in, err := ingest.New(ingest.DefaultConfig(), ingest.Deps{
		Consumer: p, Origins: &decisionstest.Open{}, DeadLetters: p, Store: h.db, Clock: clock.Real(),
		Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Fatalf("ingest: got %v, want the end of the topic", err)
	}
	if !publish {
		return
	}
	if _, err := h.ledger.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (h *house) takeCase(t *testing.T, name string) {
	t.Helper()
	lines, err := os.ReadFile(filepath.Join(casesDir, name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	h.take(t, string(lines), true)
}

func (h *house) explain(t *testing.T, gpu, hour string) *explain.Explanation {
	t.Helper()
	e, err := explain.Explain(t.Context(), h.db, explain.Request{GPU: gpu, Hour: at(t, hour)})
	if err != nil {
		t.Fatalf("explain %s, %s: %v", gpu, hour, err)
	}
	return e
}

// explainAll is explain with the batches.
func (h *house) explainAll(t *testing.T, gpu, hour string) *explain.Explanation {
	t.Helper()
	e, err := explain.Explain(t.Context(), h.db, explain.Request{GPU: gpu, Hour: at(t, hour), All: true})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

func text(t *testing.T, e *explain.Explanation) string {
	t.Helper()
	var b strings.Builder
	if err := e.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}
