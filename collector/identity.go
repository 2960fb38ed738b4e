package collector

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/gputally/gputally/internal/wire"
)

// Reasons for dropping a batch instead of spooling it (C1).
const (
	droppedSpool   = "spool"   // appending failed until the next slot was due
	droppedInvalid = "invalid" // the batch contradicts itself
	droppedStopped = "stopped" // the collector stopped before the batch was on disk
	droppedMissed  = "missed"  // delayed for more than a slot: not read
)

// identity sets the collector's fields of batches: sender, sequence number and counters. It is used by one goroutine,
// except for announce.
type identity struct {
	cluster, collector string
	bootMS             int64
	nextSeq            uint64
	predecessor        *wire.Predecessor

	// sampled is counted when slots end, independently of the other counters: a batch lost in between without a
	// reason is noticed by C1.
	sampled, spooled uint64
	dropped          map[string]uint64
}

func newIdentity(cfg Config, bootMS int64, predecessor *wire.Predecessor) *identity {
	return &identity{
		cluster: cfg.Cluster, collector: cfg.Collector,
		bootMS: bootMS, predecessor: predecessor, dropped: map[string]uint64{},
	}
}

// stamped is a batch ready for the spool.
type stamped struct {
	node        string
	slotStartMS int64
	data        []byte
}

// check returns the batches without those that contradict themselves or belong elsewhere; the error lists these.
func (id *identity) check(batches []*wire.Batch, slot time.Duration) (good []*wire.Batch, err error) {
	var errs []error
	good = make([]*wire.Batch, 0, len(batches))
	for _, b := range batches {
		b.Collector, b.BootMs = id.collector, id.bootMS
		if err := id.checkOne(b, slot); err != nil {
			errs = append(errs, fmt.Errorf("batch of node %q, slot %d: %w", b.Node, b.SlotStartMs, err))
			continue
		}
		good = append(good, b)
	}
	return good, errors.Join(errs...)
}

func (id *identity) checkOne(b *wire.Batch, slot time.Duration) error {
	switch {
	case b.Cluster != id.cluster:
		return fmt.Errorf("cluster %q: this collector's cluster is %q", b.Cluster, id.cluster)
	case b.SlotMs != slot.Milliseconds():
		return fmt.Errorf("slot_ms %d: this collector's slot is %s", b.SlotMs, slot)
	}
	return wire.Validate(b)
}

// stamp encodes batches as the next ones of this boot; the first of them announces losses. Numbers are used up only
// by commit, so batches whose append failed are stamped again.
func (id *identity) stamp(batches []*wire.Batch, tell announcement) ([]stamped, error) {
	out := make([]stamped, 0, len(batches))
	for i, b := range batches {
		b.Seq, b.Predecessor, b.Gaps = id.nextSeq+uint64(i), nil, nil
		if b.Seq == 0 {
			b.Predecessor = id.predecessor
		}
		if i == 0 {
			b.Gaps = tell.gaps
		}
		// As if the batches were sampled and spooled one by one: a crash may leave only the first ones of a group.
		after := uint64(len(batches) - 1 - i)
		b.Counters = &wire.Counters{
			Sampled: id.sampled - after, Spooled: id.spooled + uint64(i+1),
			Dropped: maps.Clone(id.dropped), SpoolDropped: tell.spoolDropped,
		}
		data, err := wire.Encode(b)
		if err != nil {
			return nil, err
		}
		out = append(out, stamped{node: b.Node, slotStartMS: b.SlotStartMs, data: data})
	}
	return out, nil
}

// commit records that n stamped batches are in the spool.
func (id *identity) commit(n int) {
	id.nextSeq += uint64(n)
	id.spooled += uint64(n)
}

// cut counts n more batches.
func (id *identity) cut(n int) { id.sampled += uint64(n) }

// drop counts n batches that will never be spooled.
func (id *identity) drop(n int, reason string) {
	id.dropped[reason] += uint64(n)
}
