package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/prometheus"
	"github.com/gputally/gputally/ingest/imports"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/plural"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/wire"
)

// historyCollector is the prefix of the collector's name in batches made of a Prometheus' history.
const historyCollector = "prometheus/"

// selectFirstOther reads what other collectors have sent of a cluster, from its first slot on.
const selectFirstOther = `
SELECT collector, count() AS batches, min(slot) AS first FROM batches FINAL
WHERE cluster = {cluster:String} AND status IN ('stored', 'late') AND collector != {collector:String}
GROUP BY collector ORDER BY first, collector LIMIT 1`

const selectHistoryBoot = `
SELECT max(boot_ms) AS boot_ms FROM batches WHERE cluster = {cluster:String} AND collector = {collector:String}`

// selectImported reads the last import of each node and slot.
const selectImported = `
SELECT node, toUnixTimestamp(slot) AS at, argMax(boot_ms, (rev, boot_ms, seq)) AS boot,
       argMax(seq, (rev, boot_ms, seq)) AS number, argMax(hash, (rev, boot_ms, seq)) AS sha
FROM batches FINAL
WHERE cluster = {cluster:String} AND status IN ('stored', 'late') AND collector = {collector:String}
  AND slot >= {from:DateTime('UTC')} AND slot < {to:DateTime('UTC')}
GROUP BY node, slot`

// importedChunk is the time whose batches are looked up at once.
const importedChunk = time.Hour

// historyRun imports a Prometheus' history into the ledger.
type historyRun struct {
	carrier
	cluster  string
	source   *prometheus.Source
	from, to time.Time
	slot     time.Duration

	bootMS   int64
	imported map[nodeSlot]importedBatch // of the chunk
	chunkEnd time.Time

	runs        []string // under which it sends; nil: nothing was sent yet
	spooled     spoolWriter
	sent        uint64
	unchanged   int
	nodes       map[string]bool
	slots, seen int
	left        map[string]*leftOut // by what was left out, and why
}

// leftOut counts the slots in which something was left out.
type leftOut struct {
	slots       int
	first, last time.Time
}

type nodeSlot struct {
	node string
	at   int64 // Unix s
}

// importedBatch is a batch of an earlier run.
type importedBatch struct {
	bootMS, seq uint64
	hash        [32]byte
}

func (r *historyRun) collector() string { return historyCollector + r.cluster }

func (r *historyRun) carryOut(ctx context.Context) error {
	if err := r.refuse(ctx); err != nil {
		return err
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	r.nodes, r.left = map[string]bool{}, map[string]*leftOut{}
	if err := r.readAll(ctx); err != nil {
		return err
	}
	if r.sent > 0 {
		if err := r.arrive(ctx); err != nil {
			return err
		}
		if err := r.p.EndRuns(ctx, r.runs...); err != nil {
			return err
		}
	}
	return r.report()
}

// open opens the run before the first batch: until then the slot length, which
// the run declares of a new cluster, may turn out to be too short.
func (r *historyRun) open(ctx context.Context) (err error) {
	if r.runs == nil {
		r.runs, err = r.p.OpenRuns(ctx, decisions.Run{
			Cluster: r.cluster, Collector: r.collector(), Sends: wire.SendsImport, SlotMS: r.slot.Milliseconds(),
			From: r.from.UTC(), To: r.to.UTC(), Hours: app.ImportRunHours,
		})
	}
	return err
}

// refuse returns a usage error if another collector has sent batches of the cluster for
// the time before --to: a slot of a node must have one sender (R1, R18).
func (r *historyRun) refuse(ctx context.Context) error {
	var others []struct {
		Collector string    `ch:"collector"`
		Batches   uint64    `ch:"batches"`
		First     time.Time `ch:"first"`
	}
	if err := r.p.Access.DB.Select(ctx, &others, selectFirstOther, store.Named("cluster", r.cluster),
		store.Named("collector", r.collector())); err != nil {
		return fmt.Errorf("read collectors of %s: %w", r.cluster, err)
	}
	for _, o := range others {
		if o.First.Before(r.to) {
			return cli.UsageError(&imports.RefusedError{Cluster: r.cluster, Why: fmt.Sprintf(
				"collector %q has sent %d batches of it, the first of %s: history must end there (--to), or have a cluster name "+
					"of its own",
				o.Collector, o.Batches, o.First.UTC().Format(time.RFC3339))})
		}
	}
	return nil
}

// begin sets the run's boot time later than that of every earlier run, so that its batches
// replace theirs (R1).
func (r *historyRun) begin(ctx context.Context) error {
	var boots []struct {
		BootMS uint64 `ch:"boot_ms"`
	}
	if err := r.p.Access.DB.Select(ctx, &boots, selectHistoryBoot, store.Named("cluster", r.cluster),
		store.Named("collector", r.collector())); err != nil {
		return fmt.Errorf("read the last run of %s: %w", r.collector(), err)
	}
	r.bootMS = r.p.Session.Clock.Now().UnixMilli()
	for _, b := range boots {
		r.bootMS = max(r.bootMS, int64(b.BootMS)+1)
	}
	return nil
}

// readAll reads slot by slot, and spools what is new.
func (r *historyRun) readAll(ctx context.Context) error {
	r.spooled = spoolWriter{sp: r.sp}
	bar := cli.NewProgress(r.p.Session.Stderr, r.p.Session.Clock, "import")
	defer bar.Clear()
	total := int64(r.to.Sub(r.from) / r.slot)
	for slot := source.At(r.from, r.slot); slot.Start.Before(r.to); slot = slot.Next() {
		batches, err := r.source.Read(ctx, slot)
		if err := r.tolerate(ctx, slot, err); err != nil {
			return err
		}
		if err := r.lookUp(ctx, slot.Start); err != nil {
			return err
		}
		if err := r.take(ctx, slot, batches); err != nil {
			return err
		}
		r.slots++
		bar.Set(int64(r.slots), total)
	}
	return r.spooled.flush(ctx)
}

// tolerate records what was left out of a slot; other errors end the run.
func (r *historyRun) tolerate(ctx context.Context, slot source.Slot, err error) error {
	var query *prometheus.QueryError
	var interval *prometheus.IntervalError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil, errors.As(err, &query), errors.As(err, &interval):
		return fmt.Errorf("import history: %w", err)
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		r.omit(line, slot)
	}
	return nil
}

const (
	// maxLeft is how many things left out are told apart, since they have names that may differ in each slot.
	maxLeft    = 1000
	leftOthers = "others"
)

// omit records what was left out of a slot.
func (r *historyRun) omit(what string, slot source.Slot) {
	if r.left[what] == nil && len(r.left) >= maxLeft {
		what = leftOthers
	}
	l := r.left[what]
	if l == nil {
		l = &leftOut{first: slot.Start}
		r.left[what] = l
	}
	if !l.last.Equal(slot.End()) {
		l.slots++
	}
	l.last = slot.End()
}

// lookUp reads what earlier runs have imported around a slot.
func (r *historyRun) lookUp(ctx context.Context, at time.Time) error {
	if at.Before(r.chunkEnd) {
		return nil
	}
	r.chunkEnd = at.Truncate(importedChunk).Add(importedChunk)
	var rows []struct {
		Node   string `ch:"node"`
		At     uint32 `ch:"at"`
		Boot   uint64 `ch:"boot"`
		Number uint64 `ch:"number"`
		Hash   string `ch:"sha"`
	}
	if err := r.p.Access.DB.Select(ctx, &rows, selectImported, store.Named("cluster", r.cluster),
		store.Named("collector", r.collector()),
		store.Named("from", at.UTC()), store.Named("to", r.chunkEnd.UTC())); err != nil {
		return fmt.Errorf("read what was imported of %s: %w", r.cluster, err)
	}
	r.imported = make(map[nodeSlot]importedBatch, len(rows))
	for _, row := range rows {
		b := importedBatch{bootMS: row.Boot, seq: row.Number}
		copy(b.hash[:], row.Hash)
		r.imported[nodeSlot{row.Node, int64(row.At)}] = b
	}
	return nil
}

// take spools the batches whose content differs from what was imported before.
func (r *historyRun) take(ctx context.Context, slot source.Slot, batches []*wire.Batch) error {
	if len(batches) > 0 {
		r.seen++
	}
	for _, b := range batches {
		r.nodes[b.Node] = true
		b.Collector = r.collector()
		known, err := r.known(b)
		if err != nil {
			return err
		}
		if known {
			r.unchanged++
			continue
		}
		b.BootMs, b.Seq = r.bootMS, r.sent
		if err := wire.Validate(b); err != nil {
			r.omit(fmt.Sprintf("node %.80q left out: %v", b.Node, err), slot)
			continue
		}
		data, err := wire.Encode(b)
		if err != nil {
			return err
		}
		if err := r.open(ctx); err != nil {
			return err
		}
		r.sent++
		if err := r.spooled.add(ctx, data); err != nil {
			return err
		}
	}
	return nil
}

// known reports whether an earlier run sent the same content. The hash covers boot and
// sequence number, so the batch gets those of the earlier run first.
func (r *historyRun) known(b *wire.Batch) (bool, error) {
	before, ok := r.imported[nodeSlot{b.Node, b.SlotStartMs / 1000}]
	if !ok {
		return false, nil
	}
	b.BootMs, b.Seq = int64(before.bootMS), before.seq
	data, err := wire.Encode(b)
	if err != nil {
		return false, err
	}
	return wire.Hash(b, data) == before.hash, nil
}

// shownLeft is how many things left out are printed.
const shownLeft = 20

func (r *historyRun) report() error {
	lines := slices.Sorted(maps.Keys(r.left))
	for i, line := range lines {
		if i == shownLeft {
			r.p.Session.Sayf("… and %d more\n", len(lines)-i)
			break
		}
		l := r.left[line]
		r.p.Session.Sayf("%s: %d slots, %s to %s\n", line, l.slots, l.first.Format(time.RFC3339), l.last.Format(time.RFC3339))
	}
	if r.seen == 0 {
		return fmt.Errorf(
			"import history: no samples of DCGM fields with a GPU between %s and %s; --match and the names of the metrics "+
				"decide which series count",
			r.from.Format(time.RFC3339), r.to.Format(time.RFC3339))
	}
	if err := r.p.Session.Writef("%s imported, %d unchanged, of %s; %d of %d slots have no sample of any node\n",
		plural.Of(r.sent, "batch"), r.unchanged, plural.Of(len(r.nodes), "node"), r.slots-r.seen, r.slots); err != nil {
		return err
	}
	if len(lines) > 0 {
		return cli.Quiet("something was left out")
	}
	return nil
}
