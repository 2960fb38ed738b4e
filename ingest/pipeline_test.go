package ingest_test

import (
	"bufio"
	"context"
	"encoding/csv"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions/decisionstest"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/wire"
)

// topic is a partition in memory: what was fetched comes again until committed.
type topic struct {
	msgs      []broker.Message
	committed int64
	dead      []broker.Message
}

func (p *topic) append(values ...[]byte) {
	for _, v := range values {
		p.msgs = append(p.msgs,
			broker.Message{Topic: broker.TopicSamples, Value: v, Offset: int64(len(p.msgs)), Time: time.Unix(1_800_000_000, 0)})
	}
}

func (p *topic) Fetch(ctx context.Context, limit int, _ time.Duration) ([]broker.Message, error) {
	next := p.msgs[p.committed:]
	if len(next) == 0 {
		return nil, context.Canceled
	}
	return next[:min(limit, len(next))], nil
}

func (p *topic) Commit(_ context.Context, msgs []broker.Message) error {
	p.committed = msgs[len(msgs)-1].Offset + 1
	return nil
}

func (p *topic) Produce(_ context.Context, msgs []broker.Message) error {
	p.dead = append(p.dead, msgs...)
	return nil
}

// pipeline is ingest and ledger on a real engine.
type pipeline struct {
	topic  *topic
	db     *store.DB
	ledger *ledger.Ledger
	reg    *prometheus.Registry
	// origins are what operators declared: whatever is sent, as a rule.
	origins ingest.Origins
}

func newPipeline(t *testing.T) *pipeline {
	t.Helper()
	p := &pipeline{topic: &topic{}, db: storetest.Open(t), reg: prometheus.NewRegistry(), origins: &decisionstest.Open{}}
	var err error
	p.ledger, err = ledger.New(ledger.DefaultConfig(), ledger.Deps{
		Store: p.db, Clock: clock.Real(), Log: slog.New(slog.DiscardHandler), Registry: p.reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// drain ingests all that the topic holds, then brings the ledger up to date.
func (p *pipeline) drain(t *testing.T) {
	t.Helper()
	if err := p.ingest(t); err != nil {
		t.Fatal(err)
	}
	if _, err := p.ledger.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// ingest takes all that the topic holds.
func (p *pipeline) ingest(t *testing.T) error {
	t.Helper()
	in, err := ingest.New(ingest.DefaultConfig(), ingest.Deps{
		Consumer: p.topic, Origins: p.origins, DeadLetters: p.topic, Store: p.db, Clock: clock.Real(),
		Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		return err
	}
	if err := in.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "canceled") {
		return fmt.Errorf("ingest ended with %w, want the end of the topic", err)
	}
	return nil
}

func importFile(t *testing.T, path string) [][]byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out [][]byte
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		b, err := wire.ParseJSONLine(lines.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		b.WindowFromMs, b.WindowToMs = 0, 1<<62
		data, err := wire.Encode(b)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, data)
	}
	return out
}

const selectUsage = `
SELECT formatDateTime(hour, '%Y-%m-%dT%H:%i:%SZ') AS hour, gpu, tenant,
       sum(active_slice_ms), sum(idle_slice_ms), sum(unproven_slice_ms), sum(free_slice_ms),
       sum(stranded_slice_ms), sum(unhealthy_slice_ms), sum(unobserved_slice_ms), sum(energy_mj)
FROM usage GROUP BY hour, gpu, tenant`

type line struct{ Hour, GPU, Tenant string }

func (p *pipeline) usage(t *testing.T) map[line][8]int64 {
	t.Helper()
	rows, err := p.db.Query(t.Context(), selectUsage)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	out := map[line][8]int64{}
	for rows.Next() {
		var l line
		var b [7]uint64
		var energy int64
		if err := rows.Scan(&l.Hour, &l.GPU, &l.Tenant, &b[0], &b[1], &b[2], &b[3], &b[4], &b[5], &b[6],
			&energy); err != nil {
			t.Fatal(err)
		}
		v := [8]int64{7: energy}
		for i := range b {
			v[i] = int64(b[i])
		}
		if v != ([8]int64{}) {
			out[l] = v
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func wantUsage(t *testing.T, path string) map[line][8]int64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	out := map[line][8]int64{}
	for _, r := range rows[1:] {
		var v [8]int64
		for i := range v {
			if v[i], err = strconv.ParseInt(r[3+i], 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		out[line{r[0], r[1], r[2]}] = v
	}
	return out
}

// TestWorkedCases takes the contract's cases through ingest, the engine and
// the ledger.
func TestWorkedCases(t *testing.T) {
	files, err := filepath.Glob("../testdata/contract/cases/*.jsonl")
	if err != nil || len(files) < 13 {
		t.Fatalf("worked cases: %d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			p := newPipeline(t)
			p.topic.append(importFile(t, file)...)
			p.drain(t)
			if diff := cmp.Diff(wantUsage(t, strings.TrimSuffix(file, ".jsonl")+".csv"), p.usage(t)); diff != "" {
				t.Errorf("usage differs (-want +got):\n%s", diff)
			}
			if n, err := p.ledger.Pass(t.Context()); err != nil || n != 0 {
				t.Errorf("second pass: %d dirty hours, %v; want none", n, err)
			}
		})
	}
}
