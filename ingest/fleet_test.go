package ingest_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions/decisionstest"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/wire"
)

var fleetStart = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

const fleetSlot = 10 * time.Second

// fleetBatch is the batch of one of a fleet's nodes in a slot: a GPU with an
// owner who works in some slots and idles in others.
func fleetBatch(node, slot int) *wire.Batch {
	util, power := float64(slot%3*40), 90.0
	energy := int64(power * fleetSlot.Seconds() * 1000)
	return &wire.Batch{
		Format: wire.Format, Cluster: "fleet", Node: fmt.Sprintf("n%03d", node),
		SlotStartMs: fleetStart.Add(time.Duration(slot) * fleetSlot).UnixMilli(), SlotMs: fleetSlot.Milliseconds(),
		Collector: fmt.Sprintf("c%03d", node), BootMs: 1000, Seq: uint64(slot),
		Origin: wire.Origin_ORIGIN_SIMULATED, WindowFromMs: 0, WindowToMs: 1 << 50,
		Gpus: []*wire.Gpu{{
			Uuid: fmt.Sprintf("GPU-%03d", node), Model: "NVIDIA H100 80GB HBM3", Slices: 7, PowerWatts: &power,
			EnergyMj: &energy,
			Leaves:   []*wire.Leaf{{Id: "gpu", Slices: 7, GpuUtil: &util}},
			Holds:    []*wire.Hold{{Leaf: "gpu", Owner: &wire.Owner{Namespace: fmt.Sprintf("team%d", node%3), Pod: "p"}}},
		}},
	}
}

func encoded(t testing.TB, b *wire.Batch) []byte {
	t.Helper()
	data, err := wire.Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// fleet is nodes × slots batches, slot by slot.
func fleet(t testing.TB, nodes, slots int) (out [][]byte) {
	t.Helper()
	for slot := range slots {
		for node := range nodes {
			out = append(out, encoded(t, fleetBatch(node, slot)))
		}
	}
	return out
}

// Read makes a topic a source of a replay.
type rereader struct{ msgs []broker.Message }

func (r *rereader) Read(_ context.Context, limit int) ([]broker.Message, error) {
	if len(r.msgs) == 0 {
		return nil, io.EOF
	}
	n := min(limit, len(r.msgs))
	out := r.msgs[:n]
	r.msgs = r.msgs[n:]
	return out, nil
}

// replay replays the topic from an offset on.
func (p *pipeline) replay(t *testing.T, cfg ingest.Config, from int) ingest.Replayed {
	t.Helper()
	return p.replayLogged(t, cfg, from, slog.New(slog.DiscardHandler))
}

func (p *pipeline) replayLogged(t *testing.T, cfg ingest.Config, from int, log *slog.Logger) ingest.Replayed {
	t.Helper()
	in, err := ingest.New(cfg, ingest.Deps{
		Origins: &decisionstest.Open{}, DeadLetters: p.topic, Store: p.db, Clock: clock.Real(), Log: log,
		Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	sum, err := in.Replay(t.Context(), &rereader{p.topic.msgs[from:]}, p.db, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// checks carries out the checks of ingest and ledger, without the spools'. The
// result is what failed, by name.
func (p *pipeline) checks(t *testing.T) map[string]string {
	t.Helper()
	all := ingest.Checks(ingest.CheckDeps{
		Store: p.db,
		Offsets: func(context.Context) ([]broker.PartitionOffsets, error) {
			return []broker.PartitionOffsets{{Last: int64(len(p.topic.msgs)), Committed: p.topic.committed}}, nil
		},
		Spools: func(context.Context) ([]ingest.SpoolState, error) { return nil, nil },
	})
	return failedChecks(t, append(all, p.ledger.Checks()...))
}

func failedChecks(t *testing.T, checks []check.Check) map[string]string {
	t.Helper()
	results, err := check.Run(t.Context(), checks)
	if err != nil {
		t.Fatal(err)
	}
	failed := map[string]string{}
	for _, r := range results {
		if r.Failed() {
			failed[r.Name] = strings.Join(r.Findings, "; ")
		}
	}
	return failed
}

func (p *pipeline) mustPassChecks(t *testing.T) {
	t.Helper()
	if diff := cmp.Diff(map[string]string{}, p.checks(t)); diff != "" {
		t.Errorf("failed checks (-want +got):\n%s", diff)
	}
}

// names are the failed checks' names.
func names(failed map[string]string) string {
	var out []string
	for _, name := range []string{"C1", "C2", "C3", "C4", "C5", "C6", "C9"} {
		if _, ok := failed[name]; ok {
			out = append(out, name)
		}
	}
	return strings.Join(out, " ")
}

func (p *pipeline) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if err := p.db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// newLedger is a ledger with an empty memory, as after a restart.
func newLedger(t *testing.T, db *store.DB) *ledger.Ledger {
	t.Helper()
	l, err := ledger.New(ledger.DefaultConfig(), ledger.Deps{
		Store: db, Clock: clock.Real(), Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}
