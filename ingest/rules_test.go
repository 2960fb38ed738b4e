package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

var march = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// hourly is a batch of one node and hour: whole GPUs, each held by one tenant
// (empty: nobody) all the time.
func hourly(t *testing.T, node string, hour int, tenants map[string]string, change func(*wire.Batch)) []byte {
	t.Helper()
	b := &wire.Batch{
		Cluster: "k", Node: node, SlotStartMs: march.Add(time.Duration(hour) * time.Hour).UnixMilli(), SlotMs: 3_600_000,
		Collector: "c-" + node, BootMs: 1000, Seq: uint64(hour), Origin: wire.Origin_ORIGIN_IMPORT, WindowToMs: 1 << 62,
	}
	for gpu, tenant := range tenants {
		g := &wire.Gpu{
			Uuid: gpu, Model: "NVIDIA H100 80GB HBM3", Slices: 7,
			Leaves: []*wire.Leaf{{Id: "gpu", Slices: 7, SmActive: proto.Float64(0.9)}},
		}
		if tenant != "" {
			g.Holds = []*wire.Hold{{Leaf: "gpu", Owner: &wire.Owner{Namespace: tenant, Pod: "p-" + gpu}}}
		}
		b.Gpus = append(b.Gpus, g)
	}
	if change != nil {
		change(b)
	}
	data, err := wire.Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// active lists "HH tenant slice_ms" of the tenants' active time.
func (p *pipeline) active(t *testing.T, gpu string) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	for l, v := range p.usage(t) {
		if l.GPU == gpu && v[0] > 0 {
			out[l.Hour[8:13]+" "+l.Tenant] = v[0]
		}
	}
	return out
}

// TestThousandsOfOwnersInOneChunk: names are asked for in pieces.
func TestThousandsOfOwnersInOneChunk(t *testing.T) {
	p := newPipeline(t)
	for node := range 20 {
		gpus := map[string]string{}
		for i := node * 250; i < (node+1)*250; i++ {
			gpus[fmt.Sprintf("GPU-%05d", i)] = fmt.Sprintf("tenant-%05d", i)
		}
		p.topic.append(hourly(t, fmt.Sprint("n", node), 0, gpus, nil))
	}
	p.drain(t)
	if got := len(p.usage(t)); got != 5000 {
		t.Errorf("%d lines of usage, want 5000", got)
	}
}

// TestDamagedHoursHoldUpNoOthers: a refusal is about its own hours (R3).
func TestDamagedHoursHoldUpNoOthers(t *testing.T) {
	p := newPipeline(t)
	for hour := range 4 {
		p.topic.append(hourly(t, "n", hour, map[string]string{"G": "a"}, nil))
	}
	p.drain(t)
	if err := p.db.Exec(t.Context(),
		`ALTER TABLE holds DELETE WHERE slot = toDateTime('2026-03-01 02:00:00', 'UTC') SETTINGS mutations_sync = 2`); err != nil {
		t.Fatal(err)
	}
	for hour := 4; hour < 30; hour++ {
		p.topic.append(hourly(t, "n", hour, map[string]string{"G": "a"}, nil))
	}
	p.remap(t, "versions:\n- effective: 2026-01-01T00:00:00Z\n  rules:\n  - {match: {namespace: a}, tenant: b}\n")
	if err := p.ingest(t); err != nil {
		t.Fatal(err)
	}
	_, err := p.ledger.Pass(t.Context())
	var refused *ledger.Refused
	if !errors.As(err, &refused) || !ledger.Damaged(err) {
		t.Fatalf("pass: %v, want the damaged hour refused", err)
	}
	got := p.active(t, "G")
	// The hours beside the damaged one look at its slot, too (R10).
	if len(got) != 30 || got["01T01 a"] == 0 || got["01T02 a"] == 0 || got["01T03 a"] == 0 ||
		got["01T00 b"] == 0 || got["01T04 b"] == 0 || got["02T05 b"] == 0 {
		t.Errorf("want hours 01 to 03 as they were and all others mapped anew, got %v", got)
	}
}

// TestCommandsKeepTheMapping: a command started without the mapping's file
// must not rename tenants (R15).
func TestCommandsKeepTheMapping(t *testing.T) {
	p := newPipeline(t)
	p.remap(t, "versions:\n- effective: 2026-01-01T00:00:00Z\n  rules:\n  - {match: {namespace: a}, tenant: physics}\n")
	p.topic.append(hourly(t, "n", 0, map[string]string{"G": "a"}, nil))
	p.drain(t)
	cfg := ledger.DefaultConfig()
	cfg.KeepMapping = true
	var err error
	p.ledger, err = ledger.New(cfg,
		ledger.Deps{Store: p.db, Clock: clock.Real(), Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	p.topic.append(hourly(t, "n", 1, map[string]string{"G": "a"}, nil))
	p.drain(t)
	if diff := cmp.Diff(map[string]int64{"01T00 physics": 25_200_000, "01T01 physics": 25_200_000},
		p.active(t, "G")); diff != "" {
		t.Errorf("tenants (-want +got):\n%s", diff)
	}
}

// TestCapacityOutlivesRecordsWithoutFigures: "else the last one before" has no
// end (R2).
func TestCapacityOutlivesRecordsWithoutFigures(t *testing.T) {
	p := newPipeline(t)
	odd := func(lost bool) func(*wire.Batch) {
		return func(b *wire.Batch) {
			b.Gpus[0].Model = "some accelerator"
			if lost {
				b.Gpus[0].Lost, b.Gpus[0].Slices, b.Gpus[0].Leaves, b.Gpus[0].Holds = true, 0, nil, nil
			}
		}
	}
	for hour := range 60 {
		p.topic.append(hourly(t, "n", hour, map[string]string{"G": ""}, odd(hour > 0)))
		if hour == 40 {
			p.drain(t)
		}
	}
	p.remap(t, "versions: []\n") // another process
	p.drain(t)
	for l, v := range p.usage(t) {
		if sum := v[3] + v[5]; sum != 25_200_000 {
			t.Errorf("%s: %d slice-ms, want seven slices", l.Hour, sum)
		}
	}
}

// TestLateDataChangeWhoHasAGPULongAfter: two nodes list a GPU; whose run began
// last is decided further back than a day (R14).
func TestLateDataChangeWhoHasAGPULongAfter(t *testing.T) {
	p := newPipeline(t)
	for hour := range 41 {
		if hour != 5 {
			p.topic.append(hourly(t, "n1", hour, map[string]string{"G": "t"}, nil))
		}
		if hour >= 4 {
			p.topic.append(hourly(t, "n2", hour, map[string]string{"G": "s"}, nil))
		}
	}
	p.drain(t)
	if got := p.active(t, "G"); got["02T16 t"] == 0 {
		t.Fatalf("before: hour 40 is %v, want t, whose run began in hour 6", got)
	}
	p.topic.append(hourly(t, "n1", 5, map[string]string{"G": "t"}, nil))
	p.drain(t)
	for key := range p.active(t, "G") {
		if key >= "01T04" && strings.HasSuffix(key, " t") {
			t.Errorf("%s: want s from hour 4 on, whose run began last", key)
		}
	}
}

// TestAnOwnerOfWhomMoreBecomesKnownIsOne: an owner is a pod's UID (C5).
func TestAnOwnerOfWhomMoreBecomesKnownIsOne(t *testing.T) {
	p := newPipeline(t)
	half := func(seq uint64, user string) []byte {
		return hourly(t, "n", 0, map[string]string{"G": "a"}, func(b *wire.Batch) {
			b.SlotMs, b.Seq = 1_800_000, seq
			b.SlotStartMs += int64(seq) * 1_800_000
			b.Gpus[0].Holds[0].Owner.Uid, b.Gpus[0].Holds[0].Owner.User = "uid-1", user
		})
	}
	p.topic.append(half(0, ""), half(1, "ann"))
	p.drain(t)
	var rows []struct {
		Owners uint64 `ch:"owners"`
	}
	if err := p.db.Select(t.Context(), &rows, `SELECT length(owner) AS owners FROM usage_hourly FINAL`); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || rows[0].Owners != 1 {
		t.Errorf("rows %v, want one row with one owner", rows)
	}
}

func (p *pipeline) sequence(t *testing.T) check.Result { return p.check(t, "C4") }

// check runs one of ingest's checks.
func (p *pipeline) check(t *testing.T, name string) check.Result {
	t.Helper()
	offsets := func(context.Context) ([]broker.PartitionOffsets, error) {
		return []broker.PartitionOffsets{{Last: int64(len(p.topic.msgs)), Committed: p.topic.committed}}, nil
	}
	for _, c := range ingest.Checks(ingest.CheckDeps{Store: p.db, Offsets: offsets}) {
		if c.Name() == name {
			res, err := c.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
	}
	t.Fatalf("there is no %s", name)
	return check.Result{}
}

// TestAnnouncedGapsMayBeRepeated: copies and repeated announcements break no
// check; a hole that nobody announced does (C4).
func TestAnnouncedGapsMayBeRepeated(t *testing.T) {
	p := newPipeline(t)
	seq := func(hour int, seq uint64, gaps ...*wire.SeqGap) []byte {
		return hourly(t, "n", hour, map[string]string{"G": "a"}, func(b *wire.Batch) {
			b.Seq, b.Gaps = seq, gaps
			b.Counters = &wire.Counters{Sampled: seq + 1, Spooled: seq + 1}
		})
	}
	gap := &wire.SeqGap{FromSeq: 1, ToSeq: 2, Reason: "full"}
	announcing := seq(1, 3, gap)
	p.topic.append(seq(0, 0), announcing, announcing, seq(2, 4, gap))
	p.drain(t)
	if res := p.sequence(t); !res.OK {
		t.Errorf("C4 fails on repeated announcements: %v", res.Findings)
	}
	p.topic.append(seq(3, 7))
	p.drain(t)
	if res := p.sequence(t); res.OK || !strings.Contains(res.Findings[0], "5 to 6") {
		t.Errorf("C4 does not name the hole: %+v", res)
	} else if want := "2 missing and announced; 2 missing and not announced"; !strings.HasSuffix(res.Figures, want) {
		t.Errorf("C4 has the figures %q, want %q at their end", res.Figures, want)
	}
}

// TestC3CountsIdsNotCopies: rows that ClickHouse has not merged yet don't change the number of owners and leaves.
func TestC3CountsIdsNotCopies(t *testing.T) {
	p := newPipeline(t)
	p.topic.append(hourly(t, "n", 0, map[string]string{"G": "a"}, func(*wire.Batch) {}))
	p.drain(t)
	before := p.check(t, "C3").Figures
	for _, table := range []string{"owners", "leaves"} {
		for _, sql := range []string{"SYSTEM STOP MERGES " + table, "INSERT INTO " + table + " SELECT * FROM " + table} {
			if err := p.db.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	if after := p.check(t, "C3").Figures; after != before || !strings.Contains(after, "the ids of 1 owners") {
		t.Errorf("C3 with copies of owners and leaves: %q, without: %q; want the same", after, before)
	}
}

// TestANewMappingStartsWhereItDiffers: hours before that are left alone.
func TestANewMappingStartsWhereItDiffers(t *testing.T) {
	p := newPipeline(t)
	for hour := range 10 {
		p.topic.append(hourly(t, "n", hour, map[string]string{"G": "a"}, nil))
	}
	p.drain(t)
	const first = "versions:\n- effective: 2026-03-01T02:00:00Z\n  rules:\n  - {match: {namespace: a}, tenant: b}\n"
	for _, c := range []struct {
		yaml string
		want int
	}{
		{first, 8},
		{first + "# a remark\n", 0},
		{first + "- effective: 2026-03-01T07:00:00Z\n  rules:\n  - {match: {namespace: a}, tenant: c}\n", 3},
	} {
		p.remap(t, c.yaml)
		if n, err := p.ledger.Pass(t.Context()); err != nil || n != c.want {
			t.Errorf("%d hours republished, %v; want %d", n, err, c.want)
		}
	}
}
