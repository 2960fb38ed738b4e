package collector

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/gputally/gputally/internal/wire"
)

// Reasons under which a batch is dropped instead of spooled (C1).
const (
	droppedSpool   = "spool"   // the disk took nothing until the next slot was due
	droppedInvalid = "invalid" // the source contradicted itself
	droppedStopped = "stopped" // the collector was stopped before the disk took it
	droppedMissed  = "missed"  // held up for more than a slot: never read
)

// identity gives batches what only the collector knows: who sent them, which
// number they have, and how many there were. It is used by one goroutine, but
// for announce.
type identity struct {
	cluster, collector string
	bootMS             int64
	nextSeq            uint64
	predecessor        *wire.Predecessor

	// sampled is counted where batches are cut, apart from what becomes of them:
	// a batch that is lost in between without a reason shows in C1.
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

// check leaves out the batches that contradict themselves or their place, and
// names them in the error.
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
		return fmt.Errorf("cluster %q: this collector is of %q", b.Cluster, id.cluster)
	case b.SlotMs != slot.Milliseconds():
		return fmt.Errorf("slot_ms %d: this collector's slot is %s", b.SlotMs, slot)
	}
	return wire.Validate(b)
}

// stamp encodes batches as the next ones of this boot; the first of them tells
// of losses. Nothing is used up until commit, so batches whose append failed are
// stamped again.
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
		// As if the batches were cut and spooled one by one: a crash may keep the
		// first ones of a group alone.
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

// commit says that the spool has taken n stamped batches.
func (id *identity) commit(n int) {
	id.nextSeq += uint64(n)
	id.spooled += uint64(n)
}

// cut says that there are n more batches.
func (id *identity) cut(n int) { id.sampled += uint64(n) }

// drop says that n batches will never be spooled.
func (id *identity) drop(n int, reason string) {
	id.dropped[reason] += uint64(n)
}
