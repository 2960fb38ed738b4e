package ingest

import (
	"context"
	_ "embed"
	"fmt"
	"slices"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/plural"
	"github.com/gputally/gputally/internal/store"
)

// CheckDeps are the inputs of the checks of the journal.
type CheckDeps struct {
	Store interface {
		Store
		Stream(ctx context.Context, columns proto.Results, onBlock func(rows int) error, sql string, args ...any) error
	}
	// Message reads one message of the samples topic again; nil: the topic can't be
	// read.
	Message func(ctx context.Context, partition int, offset int64) (broker.Message, error)
	// Ingester validates dead messages again, without writing; nil: they are not
	// validated.
	Ingester *Ingester
	// Sample is the greatest number of messages that are read again.
	Sample int
	// Offsets are the partitions of the samples topic, with the offsets that the group
	// has committed.
	Offsets func(ctx context.Context) ([]broker.PartitionOffsets, error)
	// Spools are the spools that this process can read, by collector.
	Spools func(ctx context.Context) ([]SpoolState, error)
}

// SpoolState holds a spool's own counters, summed over all boots.
type SpoolState struct {
	Collector string
	Appended  uint64 // records ever appended
	Cursor    uint64 // records ever acknowledged by the broker
	Remaining uint64 // records still in the spool
	Dropped   uint64 // records dropped from the spool before they were sent
}

// Checks are the invariants of the journal: C1 to C4.
func Checks(d CheckDeps) []check.Check {
	return []check.Check{
		check.Func("C1", "sampled = spooled + dropped, per boot", d.checkSampled),
		check.Func("C2", "spooled = sent + still in the spool + dropped from it", d.checkSpooled),
		check.Func("C3", "one journal row per offset, and its rows are there", d.checkOffsets),
		check.Func("C4", "no hole in a boot's sequence but announced gaps", d.checkSequence),
	}
}

const selectBoots = `
SELECT collector, boot_ms, uniqExact(seq) AS seqs, min(seq) AS first_seq, max(seq) AS last_seq,
       max(b.counted) AS counts, countIf(b.counted = 1 AND b.sampled != b.spooled + b.dropped) AS wrong,
       maxIf(b.sampled, b.counted = 1) AS all_sampled, maxIf(b.spooled, b.counted = 1) AS all_spooled,
       maxIf(b.dropped, b.counted = 1) AS all_dropped,
       maxIf(b.prev_boot_ms, seq = 0) AS before_boot_ms, maxIf(b.prev_seq, seq = 0) AS before_seq
FROM batches AS b FINAL WHERE status IN ('stored', 'late')
GROUP BY collector, boot_ms ORDER BY collector, boot_ms`

type boot struct {
	Collector  string `ch:"collector"`
	BootMS     uint64 `ch:"boot_ms"`
	Seqs       uint64 `ch:"seqs"`
	First      uint64 `ch:"first_seq"`
	Last       uint64 `ch:"last_seq"`
	Counted    uint8  `ch:"counts"`
	Wrong      uint64 `ch:"wrong"`
	Sampled    uint64 `ch:"all_sampled"`
	Spooled    uint64 `ch:"all_spooled"`
	Dropped    uint64 `ch:"all_dropped"`
	PrevBootMS uint64 `ch:"before_boot_ms"`
	PrevSeq    uint64 `ch:"before_seq"`
}

func (d CheckDeps) boots(ctx context.Context) ([]boot, error) {
	var rows []boot
	if err := d.Store.Select(ctx, &rows, selectBoots); err != nil {
		return nil, fmt.Errorf("read boots: %w", err)
	}
	return rows, nil
}

func (d CheckDeps) checkSampled(ctx context.Context, res *check.Result) error {
	boots, err := d.boots(ctx)
	if err != nil {
		return err
	}
	var sampled, spooled, dropped uint64
	for _, b := range boots {
		if b.Counted == 0 {
			continue
		}
		res.Checked++
		sampled, spooled, dropped = sampled+b.Sampled, spooled+b.Spooled, dropped+b.Dropped
		if b.Wrong > 0 {
			res.Fail("collector %s, boot %d: %s with counters that don't add up (sampled = spooled + dropped)", b.Collector,
				b.BootMS, plural.Of(b.Wrong, "batch"))
		}
	}
	res.Figures = fmt.Sprintf("%d sampled = %d spooled + %d dropped, in %s with counters", sampled, spooled, dropped,
		plural.Of(res.Checked, "boot"))
	return nil
}

func (d CheckDeps) checkSpooled(ctx context.Context, res *check.Result) error {
	spools, err := d.Spools(ctx)
	if err != nil {
		return err
	}
	boots, err := d.boots(ctx)
	if err != nil {
		return err
	}
	var taken, sent, remaining, dropped uint64
	for _, s := range spools {
		res.Checked++
		taken, sent, remaining, dropped = taken+s.Appended, sent+s.Cursor, remaining+s.Remaining, dropped+s.Dropped
		if s.Appended != s.Cursor+s.Remaining+s.Dropped {
			res.Fail("spool of %s: %d records appended, but %d sent + %d still in the spool + %d dropped", s.Collector,
				s.Appended, s.Cursor, s.Remaining, s.Dropped)
		}
		if reported := spooledBy(boots, s.Collector); reported > s.Appended {
			res.Fail("spool of %s: its batches report %d spooled records, but only %d were appended", s.Collector, reported,
				s.Appended)
		}
	}
	res.Figures = fmt.Sprintf("%d spooled = %d sent + %d in the spool + %d dropped, in %s", taken, sent, remaining,
		dropped, plural.Of(res.Checked, "spool"))
	return nil
}

func spooledBy(boots []boot, collector string) (n uint64) {
	for _, b := range boots {
		if b.Collector == collector && b.Counted == 1 {
			n += b.Spooled
		}
	}
	return n
}

const selectPartitions = `
SELECT partition, min(offset) AS first, max(offset) AS last, uniqExact(offset) AS offsets, count() AS rows,
       countIf(status = 'stored') AS stored, countIf(status = 'dead') AS dead, countIf(status = 'hole') AS holes,
         countIf(status = 'late') AS late
FROM batches FINAL WHERE topic = {topic:String}
  AND NOT arrayExists((p, f, l) -> partition = p AND offset >= f AND offset <= l, {partitions:Array(UInt64)}, {firsts:Array(UInt64)}, {lasts:Array(UInt64)})
GROUP BY partition ORDER BY partition`

// Rows that each stand for several offsets, see addSpan. Two of them may overlap.
const selectSpans = `
SELECT partition, offset AS first_offset, ` + lastOffset + ` AS last_offset, status = 'dead' AS is_dead
FROM batches FINAL WHERE topic = {topic:String} AND last_offset > offset ORDER BY partition, offset`

//go:embed promises.sql
var selectPromises string

type journalPartition struct {
	Partition uint32 `ch:"partition"`
	First     uint64 `ch:"first"`
	Last      uint64 `ch:"last"`
	Offsets   uint64 `ch:"offsets"`
	Rows      uint64 `ch:"rows"`
	Stored    uint64 `ch:"stored"`
	Dead      uint64 `ch:"dead"`
	Holes     uint64 `ch:"holes"`
	Late      uint64 `ch:"late"`
}

// journalPartitions counts each offset once. Offsets of a span are counted with the
// span; rows inside a span, which a replay may leave, are not counted again.
func (d CheckDeps) journalPartitions(ctx context.Context) ([]journalPartition, error) {
	var spans []struct {
		Partition uint32 `ch:"partition"`
		First     uint64 `ch:"first_offset"`
		Last      uint64 `ch:"last_offset"`
		Dead      uint8  `ch:"is_dead"`
	}
	if err := d.Store.Select(ctx, &spans, selectSpans, store.Named("topic", broker.TopicSamples)); err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	partitions, firsts, lasts := make([]uint64, len(spans)), make([]uint64, len(spans)), make([]uint64, len(spans))
	for i, s := range spans {
		partitions[i], firsts[i], lasts[i] = uint64(s.Partition), s.First, s.Last
	}
	var rows []journalPartition
	if err := d.Store.Select(ctx, &rows, selectPartitions, store.Named("topic", broker.TopicSamples),
		store.Named("partitions", partitions), store.Named("firsts", firsts), store.Named("lasts", lasts)); err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	covered := map[uint32]uint64{} // greatest offset counted so far, by partition
	for _, s := range spans {
		i := slices.IndexFunc(rows, func(r journalPartition) bool { return r.Partition == s.Partition })
		if i < 0 {
			i, rows = len(rows), append(rows, journalPartition{Partition: s.Partition, First: s.First, Last: s.Last})
		}
		r, from := &rows[i], max(s.First, covered[s.Partition])
		r.First, r.Last = min(r.First, s.First), max(r.Last, s.Last)
		if from > s.Last {
			continue
		}
		n := s.Last - from + 1
		covered[s.Partition] = s.Last + 1
		r.Offsets, r.Rows = r.Offsets+n, r.Rows+n
		if s.Dead == 1 {
			r.Dead += n
		} else {
			r.Holes += n
		}
	}
	return rows, nil
}

// checkOffsets proves that the journal has no gap after its first offset, that it
// holds exactly the committed offsets, and that the rows which it records exist.
func (d CheckDeps) checkOffsets(ctx context.Context, res *check.Result) error {
	offsets, err := d.Offsets(ctx)
	if err != nil {
		return err
	}
	rows, err := d.journalPartitions(ctx)
	if err != nil {
		return err
	}
	var stored, dead, holes, late uint64
	for _, r := range rows {
		stored, dead, holes, late = stored+r.Stored, dead+r.Dead, holes+r.Holes, late+r.Late
		res.Checked += int64(r.Rows)
		if r.Offsets != r.Rows {
			res.Fail("partition %d: there must be one journal row per offset, but there are %d for %d offsets", r.Partition,
				r.Rows, r.Offsets)
		}
		if r.Last-r.First+1 != r.Offsets {
			res.Fail("partition %d: the journal goes from offset %d to %d, but has rows for only %d offsets", r.Partition,
				r.First, r.Last, r.Offsets)
		}
	}
	for _, o := range offsets {
		checkPartition(res, o, rows)
	}
	res.Figures = fmt.Sprintf("%d offsets: %d stored, %d dead, %d holes", res.Checked, stored, dead, holes)
	if late > 0 {
		res.Figures += fmt.Sprintf(", %d late: they are kept in late_unprocessed and not counted", late)
	}
	if err := d.checkPromises(ctx, res); err != nil {
		return err
	}
	if err := d.checkFacts(ctx, res); err != nil {
		return err
	}
	return d.checkSample(ctx, res, offsets)
}

// checkPartition compares the offsets that the group has committed, and that the topic
// still has, with the first and last offset of the journal.
func checkPartition(res *check.Result, o broker.PartitionOffsets, rows []journalPartition) {
	i := slices.IndexFunc(rows, func(r journalPartition) bool { return int(r.Partition) == o.Partition })
	switch {
	case i < 0 && o.Committed > o.First:
		res.Fail("partition %d: the group has committed offset %d, but the journal has no offset from %d on", o.Partition,
			o.Committed, o.First)
	case i < 0:
	case o.Committed > int64(rows[i].Last)+1:
		res.Fail("partition %d: the group has committed offset %d, but the journal ends with offset %d", o.Partition,
			o.Committed, rows[i].Last)
	case int64(rows[i].First) > o.First:
		res.Fail("partition %d: the topic still has messages from offset %d on, but the journal begins with offset %d",
			o.Partition, o.First, rows[i].First)
	}
}

// checkPromises compares the number and energy of each batch's raw rows with its
// journal row. Weeks whose raw was dropped by retention are left out.
func (d CheckDeps) checkPromises(ctx context.Context, res *check.Result) error {
	weeks, err := ledger.ReadRawWeeks(ctx, d.Store)
	if err != nil {
		return err
	}
	var rows []struct {
		Batches     uint64 `ch:"batches"`
		Promised    uint64 `ch:"all_promised"`
		Found       uint64 `ch:"all_found"`
		Wrong       uint64 `ch:"wrong"`
		Example     string `ch:"example"`
		EnergyWrong uint64 `ch:"energy_wrong"`
	}
	if err := d.Store.Select(ctx, &rows, selectPromises, store.Named("dropped", weeks.Dropped())); err != nil {
		return fmt.Errorf("count raw rows by batch: %w", err)
	}
	r := rows[0]
	res.Figures += fmt.Sprintf("; %d of %d raw rows found", r.Found, r.Promised)
	if n := len(weeks.Dropped()); n > 0 {
		res.Figures += fmt.Sprintf(", without %s whose raw was dropped", plural.Of(n, "week"))
	}
	if r.Wrong > 0 {
		res.Fail("%s with a wrong number of raw rows, such as %s", plural.Of(r.Wrong, "batch"), r.Example)
	}
	if r.EnergyWrong > 0 {
		res.Fail("%s whose raw rows sum to another energy than the batch reported", plural.Of(r.EnergyWrong, "batch"))
	}
	return d.checkSeals(ctx, res, weeks)
}
