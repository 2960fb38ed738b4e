package ingest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/shell"
	"github.com/gputally/gputally/internal/tables"
	"github.com/gputally/gputally/internal/wire"
)

// item is one message being processed: decoded and classified, or dead with a reason.
type item struct {
	msg      broker.Message
	batch    *wire.Batch
	hash     [32]byte
	id       uint64
	unknown  int
	gpus     []meter.GPUSlot
	raw      seal   // half hash of the batch's raw rows; zero if none are stored
	reason   string // why the message is dead; empty: it isn't
	err      error
	slot     slotLength // of its cluster; zero: the cluster is not declared
	missing  string     // the run that an operator would have to open for it; empty: none
	late     bool       // the raw of its hour was dropped (R3)
	lettered bool       // the message is dead, and its dead letter exists already
	hole     bool       // the message was deleted before it could be read
	last     int64      // the last offset, if the journal row stands for several, see addSpan
}

// status is the message's status in the journal.
func (it *item) status() int8 {
	switch {
	case it.hole:
		return tables.StatusHole
	case it.reason != "":
		return tables.StatusDead
	case it.late:
		return tables.StatusLate
	}
	return tables.StatusStored
}

// rows is the number of the batch's raw rows.
func (it *item) rows() (n int) {
	for i := range it.gpus {
		n += len(it.gpus[i].Rows)
	}
	return n
}

// decoder decodes and classifies chunks on all cores. Each worker has its own cache of
// identities.
type decoder struct {
	cfg     Config
	workers []*meter.Identities
}

func newDecoder(cfg Config) *decoder {
	d := &decoder{cfg: cfg, workers: make([]*meter.Identities, runtime.GOMAXPROCS(0))}
	d.forget()
	return d
}

// forget empties the workers' caches.
func (d *decoder) forget() {
	for i := range d.workers {
		d.workers[i] = meter.NewIdentities()
	}
}

// parse decodes a chunk. Errors are stored in the items.
func (d *decoder) parse(msgs []broker.Message) []item {
	items := make([]item, len(msgs))
	d.parallel(len(items), func(_ *meter.Identities, i int) { items[i] = parse(msgs[i]) })
	return items
}

// classify validates the batches against declarations and the clock, and classifies
// those that are valid and not late.
func (d *decoder) classify(items []item, weeks ledger.RawWeeks) {
	d.parallel(len(items), func(ids *meter.Identities, i int) {
		it := &items[i]
		if it.reason == "" {
			d.admit(it)
		}
		it.late = it.reason == "" && weeks.Late(time.UnixMilli(it.batch.SlotStartMs))
		if it.reason == "" && !it.late {
			it.gpus = meter.Classify(it.batch, ids)
			it.raw = rawOf(it.gpus, meter.RulesVersion)
		}
	})
}

func (d *decoder) parallel(n int, do func(ids *meter.Identities, i int)) {
	var wg sync.WaitGroup
	for w, ids := range d.workers {
		wg.Go(func() {
			for i := w; i < n; i += len(d.workers) {
				do(ids, i)
			}
		})
	}
	wg.Wait()
}

func parse(msg broker.Message) item {
	if f := msg.FetchedAt; !f.IsZero() && f.Before(msg.Time) {
		msg.Time = f // a producer's clock may run ahead, but no message is fetched before it was appended
	}
	it := item{msg: msg}
	if msg.Bad != nil {
		it.reason, it.err = msg.Bad.Reason, msg.Bad.Err
		return it
	}
	b, unknown, err := wire.Decode(msg.Value)
	if err != nil {
		it.reason, it.err = "garbage", err
		var werr *wire.Error
		if errors.As(err, &werr) {
			it.reason, it.err = werr.Reason, werr.Err
		}
		return it
	}
	it.batch, it.unknown = b, unknown
	it.hash = wire.Hash(b, msg.Value)
	it.id = wire.ID(it.hash)
	return it
}

// maxNodes is the greatest number of nodes that one collector reports: it sends a
// batch for each node and slot, and each batch takes one number of its boot's
// sequence.
const maxNodes = 1 << 16

// refuses returns the reason why the message is a dead letter, or "".
func (in *Ingester) refuses(ctx context.Context, msg broker.Message) (reason string, err error) {
	items := []item{parse(msg)}
	if err := in.declared(ctx, items); err != nil {
		return "", err
	}
	if items[0].reason == "" {
		in.decoder.admit(&items[0])
	}
	return items[0].reason, nil
}

// reasonCluster is the reason of batches whose cluster was not declared.
const reasonCluster = "cluster"

// admit checks a batch against its cluster's slot length, the run that it needs unless
// it is live (R18), and the clock (R11). An import declares a window that may begin at
// any time in the past, but not in the future; only simulated and replayed batches may
// lie in the future, up to what they declare. A boot can't begin after its batch was
// appended, because a later boot outranks an earlier one (R1).
func (d *decoder) admit(it *item) {
	b := it.batch
	start := time.UnixMilli(b.SlotStartMs)
	end := start.Add(time.Duration(b.SlotMs) * time.Millisecond)
	live, boot := live(b), time.UnixMilli(b.BootMs)
	switch {
	case it.missing != "":
		it.dead("origin", "%s of collector %q for slot %s of cluster %q: %s; an operator opens one with: gputally import "+
			"runs open --cluster %s --sends %s --collector %s --slot %s --from %s --to %s --data DIR",
			wire.Sends(b), b.Collector, start.UTC().Format(time.RFC3339), b.Cluster, it.missing, shell.Quote(b.Cluster),
			wire.Sends(b), shell.Quote(b.Collector),
			time.Duration(b.SlotMs)*time.Millisecond, start.UTC().Format(time.RFC3339), end.UTC().Format(time.RFC3339))
	case it.slot.ms == 0 || it.msg.Time.Before(it.slot.since):
		it.dead(reasonCluster,
			"cluster %q was not declared when the batch was appended, at %s; an operator declares it with: gputally "+
				"inventory cluster --slot %s --data DIR -- %s",
			b.Cluster, it.msg.Time.UTC().Format(time.RFC3339), time.Duration(b.SlotMs)*time.Millisecond,
			shell.Quote(b.Cluster))
	case b.SlotMs != it.slot.ms:
		it.dead("slot_length", "slot_ms %d: cluster %q has slot_ms %d; set the collector's slot to it", b.SlotMs, b.Cluster,
			it.slot.ms)
	case boot.After(it.msg.Time.Add(d.cfg.MaxEarly)):
		it.dead("early", "boot_ms %d: %s the boot is after the append time %s plus %s", b.BootMs, boot.UTC(),
			it.msg.Time.UTC(),
			d.cfg.MaxEarly)
	case live && b.Seq/maxNodes > uint64(max(0, it.msg.Time.Sub(boot).Milliseconds())/b.SlotMs+2):
		it.dead("sequence", "seq %d: a boot that began at %s can't have sent that many batches by %s", b.Seq, boot.UTC(),
			it.msg.Time.UTC())
	case live && end.After(it.msg.Time.Add(d.cfg.MaxEarly)):
		it.dead("early", "slot %s ends after the append time %s plus %s", start.UTC(), it.msg.Time.UTC(), d.cfg.MaxEarly)
	case live && start.Before(it.msg.Time.Add(-d.cfg.MaxLate)):
		it.dead("late", "slot %s is older than %s at the append time %s", start.UTC(), d.cfg.MaxLate, it.msg.Time.UTC())
	case b.Origin == wire.Origin_ORIGIN_IMPORT && start.After(it.msg.Time.Add(d.cfg.MaxEarly)):
		it.dead("early", "slot %s of an import begins after the append time %s plus %s", start.UTC(), it.msg.Time.UTC(),
			d.cfg.MaxEarly)
	case !live && (b.SlotStartMs < b.WindowFromMs || b.SlotStartMs+b.SlotMs > b.WindowToMs):
		it.dead("window", "slot %s lies outside the declared window %d to %d", start.UTC(), b.WindowFromMs, b.WindowToMs)
	}
}

func live(b *wire.Batch) bool { return wire.Sends(b) == "" }

func (it *item) dead(reason, format string, args ...any) {
	it.reason, it.err = reason, fmt.Errorf(format, args...)
}
