package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/tables"
	"github.com/gputally/gputally/internal/telemetry"
)

// Consumer is the part of a consumer group's member that ingest needs.
type Consumer interface {
	Fetch(ctx context.Context, limit int, wait time.Duration) ([]broker.Message, error)
	Commit(ctx context.Context, msgs []broker.Message) error
}

// Producer writes dead letters.
type Producer interface {
	Produce(ctx context.Context, msgs []broker.Message) error
}

// Store is the part of ClickHouse that ingest needs. When Insert returns nil, the rows
// are durable.
type Store interface {
	Insert(ctx context.Context, table string, in proto.Input) error
	Select(ctx context.Context, dest any, sql string, args ...any) error
}

// Deps are the dependencies of an Ingester.
type Deps struct {
	Consumer    Consumer
	DeadLetters Producer
	Store       Store
	Origins     Origins
	Clusters    map[string]int64 // slot lengths declared in the configuration, ms
	Clock       clock.Clock
	Log         *slog.Logger
	Registry    prometheus.Registerer
}

// Ingester writes the batches of the topic to ClickHouse.
type Ingester struct {
	cfg      Config
	deps     Deps
	m        *metrics
	decoder  *decoder
	clusters *clusters
	leaves   dictionary
	owners   dictionary
	logged   telemetry.Once[string]
	newest   newestSlots

	attemptLimit time.Duration
}

// New returns an Ingester; Run starts it.
func New(cfg Config, deps Deps) (*Ingester, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	in := &Ingester{
		cfg: cfg, deps: deps, m: newMetrics(deps.Registry),
		leaves: dictionary{known: map[uint64]bool{}}, owners: dictionary{known: map[uint64]bool{}},
		logged: telemetry.Once[string]{Most: identitiesKept}, newest: newestSlots{}, attemptLimit: attemptLimit,
	}
	in.clusters = newClusters(deps.Store, deps.Clusters)
	in.decoder = newDecoder(cfg)
	return in, nil
}

// Run ingests until ctx ends. Messages that were fetched but not committed are read
// again by the next run.
func (in *Ingester) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		msgs, err := in.deps.Consumer.Fetch(ctx, in.cfg.ChunkRecords, in.cfg.ChunkWait)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("fetch batches: %w", err)
		}
		if len(msgs) == 0 {
			continue
		}
		if err := in.takeAll(ctx, msgs); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// takeAll processes the messages of one fetch, chunk by chunk.
func (in *Ingester) takeAll(ctx context.Context, msgs []broker.Message) error {
	in.m.held.Set(float64(bytesOf(msgs)))
	defer in.m.held.Set(0)
	for chunk := range chunksOf(msgs, in.cfg.ChunkBytes) {
		if err := in.take(ctx, chunk); err != nil {
			return err
		}
	}
	return nil
}

// take processes one chunk: insert, journal, commit.
func (in *Ingester) take(ctx context.Context, msgs []broker.Message) error {
	began := in.deps.Clock.Now()
	items, err := in.classify(ctx, msgs)
	if err != nil {
		return err
	}
	for run := range byWeeks(items) {
		if err := in.insert(ctx, run); err != nil {
			return err
		}
		if err := in.journal(ctx, run); err != nil {
			return err
		}
	}
	if err := in.commit(ctx, msgs); err != nil {
		return err
	}
	in.m.chunk.Observe(in.deps.Clock.Since(began).Seconds())
	return nil
}

// classify decodes messages and classifies the valid batches.
func (in *Ingester) classify(ctx context.Context, msgs []broker.Message) ([]item, error) {
	items := in.decoder.parse(msgs)
	if err := in.declared(ctx, items); err != nil {
		return nil, err
	}
	var weeks ledger.RawWeeks
	if err := in.retry(ctx, "raw_weeks", func(ctx context.Context) (err error) {
		weeks, err = ledger.ReadRawWeeks(ctx, in.deps.Store)
		return err
	}); err != nil {
		return nil, err
	}
	in.decoder.classify(items, weeks)
	return items, in.retry(ctx, "clusters", func(ctx context.Context) error { return in.clusters.register(ctx, items) })
}

// insert writes the raw rows and the dead letters.
func (in *Ingester) insert(ctx context.Context, items []item) error {
	holds, samples := tables.NewBlock[tables.Hold](), newSamples()
	events, late := tables.NewBlock[tables.Event](), tables.NewBlock[tables.Late]()
	var dead []broker.Message
	for i := range items {
		it := &items[i]
		if it.reason != "" {
			if !it.lettered {
				dead = append(dead, deadLetter(it))
			}
			continue
		}
		if it.late {
			row := lateRow(it, in.deps.Clock.Now())
			late.Add(&row)
			continue
		}
		samples.add(it.batch, it.id)
		addEvents(events, it.batch, it.id)
		for g := range it.gpus {
			addHolds(holds, it.batch, it.id, &it.gpus[g])
			if f := it.gpus[g].Finding; f != "" {
				in.reportFinding(it, f)
			}
		}
	}
	leaves, newLeaves := in.leaves.newLeaves(in.decoder.workers)
	owners, newOwners := in.owners.newOwners(in.decoder.workers)
	for _, block := range []struct {
		table string
		input proto.Input
	}{
		{"leaves", leaves.Input()},
		{"owners", owners.Input()},
		{"samples", samples.Input()},
		{"events", events.Input()},
		{"holds", holds.Input()},
		{"late_unprocessed", late.Input()},
	} {
		if err := in.write(ctx, block.table, block.input); err != nil {
			return err
		}
	}
	in.leaves.wrote(newLeaves)
	in.owners.wrote(newOwners)
	in.forget()
	return in.sendDeadLetters(ctx, dead)
}

// sendDeadLetters writes dead letters. After an error only those without an
// acknowledgement are sent again.
func (in *Ingester) sendDeadLetters(ctx context.Context, dead []broker.Message) error {
	if len(dead) == 0 {
		return nil
	}
	return in.retry(ctx, "dead_letters", func(ctx context.Context) error {
		err := in.deps.DeadLetters.Produce(ctx, dead)
		var some *broker.ProduceError
		if errors.As(err, &some) && len(some.Errs) == len(dead) {
			var left []broker.Message
			for i, err := range some.Errs {
				if err != nil {
					left = append(left, dead[i])
				}
			}
			dead = left
		}
		return err
	})
}

// reportFinding counts every finding and logs each once an hour, because findings
// recur in every slot.
func (in *Ingester) reportFinding(it *item, finding string) {
	in.m.findings.Inc()
	key := strconv.FormatInt(it.batch.SlotStartMs/meter.HourMS, 10) + it.batch.Cluster + "/" + it.batch.Node + finding
	if !in.logged.First(key) {
		return
	}
	in.deps.Log.Warn("batch contradicts itself", "finding", finding, "cluster", it.batch.Cluster, "node", it.batch.Node,
		"slot",
		slotTime(it.batch.SlotStartMs))
}

// identitiesKept bounds the memory of leaves and owners, which come and go for years.
// A forgotten one is written again when it recurs.
const identitiesKept = 50_000

func (in *Ingester) forget() {
	if len(in.leaves.known)+len(in.owners.known) <= identitiesKept {
		return
	}
	clear(in.leaves.known)
	clear(in.owners.known)
	in.decoder.forget()
}

// journal writes the journal rows, one per offset.
func (in *Ingester) journal(ctx context.Context, items []item) error {
	rows, now := newJournalBlock(), in.deps.Clock.Now()
	for i := range items {
		it := &items[i]
		if it.msg.Hole != nil {
			if err := in.journalHole(ctx, rows, it.msg, now); err != nil {
				return err
			}
		}
		rows.add(it, now)
		rows.addSpan(it.msg, it.msg.Offset+1, it.msg.Next(), tables.StatusDead, it.reason, now)
	}
	if err := in.write(ctx, "batches", rows.Input()); err != nil {
		return err
	}
	for i := range items {
		in.count(&items[i])
	}
	return nil
}

// lastOffset is the last offset that a journal row stands for, see addSpan.
const lastOffset = "if(status IN ('dead', 'hole') AND notEmpty(gap_to), gap_to[1], offset)"

const selectJournalled = `
SELECT DISTINCT offset AS first_offset, ` + lastOffset + ` AS last_offset FROM batches FINAL
WHERE topic = {topic:String} AND partition = {partition:UInt32} AND ` + lastOffset + ` >= {from:UInt64}
  AND offset < {to:UInt64}
ORDER BY offset, last_offset`

// offsetSpan is [First, Last] of a partition's offsets.
type offsetSpan struct {
	First uint64 `ch:"first_offset"`
	Last  uint64 `ch:"last_offset"`
}

// readJournalled returns the journalled offsets of [from, to) of a partition,
// ascending.
func readJournalled(ctx context.Context, db Store, topic string, partition int, from,
	to int64,
) (have []offsetSpan, err error) {
	err = db.Select(ctx, &have, selectJournalled, store.Named("topic", topic),
		store.Named("partition", uint32(partition)), store.Named("from", uint64(from)), store.Named("to", uint64(to)))
	return have, err
}

// journalHole adds journal rows for the offsets that retention deleted. The hole
// begins at the last committed offset; offsets after it that are in the journal
// already were not lost.
func (in *Ingester) journalHole(ctx context.Context, rows journalBlock, msg broker.Message, now time.Time) error {
	hole := msg.Hole
	var have []offsetSpan
	if err := in.retry(ctx, "hole", func(ctx context.Context) (err error) {
		have, err = readJournalled(ctx, in.deps.Store, msg.Topic, hole.Partition, hole.From, hole.To)
		return err
	}); err != nil {
		return err
	}
	in.deps.Log.Error("retention deleted messages before they were read", "topic", msg.Topic, "hole", hole.String(),
		"journalled", len(have))
	msg.Time = time.Unix(0, 0)
	in.m.holes.Add(float64(rows.addMissing(msg, have, hole.From, hole.To, tables.StatusHole, "retention", now)))
	return nil
}

// addMissing adds journal rows for those of the offsets [from, to) that have none, and
// returns their number.
func (j journalBlock) addMissing(msg broker.Message, have []offsetSpan, from, to int64, status int8, reason string,
	now time.Time,
) (n int64) {
	for _, h := range append(have, offsetSpan{First: uint64(to), Last: uint64(to)}) {
		if first := int64(h.First); first > from {
			j.addSpan(msg, from, first, status, reason, now)
			n += first - from
		}
		from = max(from, int64(h.Last)+1)
	}
	return n
}

func (in *Ingester) count(it *item) {
	in.m.messages.Inc()
	in.m.unknown.Add(float64(it.unknown))
	if it.reason != "" {
		in.m.dead.WithLabelValues(it.reason).Inc()
		in.deps.Log.Warn("dead letter", "reason", it.reason, "error", it.err, "partition", it.msg.Partition, "offset",
			it.msg.Offset)
		return
	}
	if it.late {
		in.m.late.Inc()
		in.deps.Log.Warn("batch is late: the raw of its hour was dropped; it is kept in late_unprocessed", "cluster",
			it.batch.Cluster,
			"node", it.batch.Node, "slot", slotTime(it.batch.SlotStartMs), "offset", it.msg.Offset)
		return
	}
	in.newest.note(in.m.newestSlot, it.batch)
}

// write inserts a block, and retries until it is durable. An empty block is skipped.
func (in *Ingester) write(ctx context.Context, table string, block proto.Input) error {
	n := block[0].Data.Rows()
	if n == 0 {
		return nil
	}
	if err := in.retry(ctx,
		"insert_"+table, func(ctx context.Context) error { return in.deps.Store.Insert(ctx, table, block) }); err != nil {
		return err
	}
	in.m.rows.WithLabelValues(table).Add(float64(n))
	return nil
}

// commit commits the group's offsets. If a partition has moved to another member, that
// member reads the chunk again and writes the same rows.
func (in *Ingester) commit(ctx context.Context, msgs []broker.Message) error {
	return in.retry(ctx, "commit", func(ctx context.Context) error {
		err := in.deps.Consumer.Commit(ctx, msgs)
		if errors.Is(err, broker.ErrNotAssigned) {
			in.deps.Log.Info("partitions moved to another ingester before the commit; it processes the chunk again")
			return nil
		}
		return err
	})
}
