package collector

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

// Producer writes messages and returns when each is acknowledged or not; its error may be a *broker.ProduceError that
// lists which.
type Producer interface {
	Produce(ctx context.Context, messages []broker.Message) error
}

// Attributor adds the holds to the batches of a slot (R4).
type Attributor interface {
	Attribute(slot source.Slot, batches []*wire.Batch)
}

// Observer receives the valid batches of each slot of Live, before they are spooled. It must not change them.
type Observer interface {
	Observe(batches []*wire.Batch)
}

// Deps are a collector's dependencies.
type Deps struct {
	Source source.Source
	// Attributor may be nil: then the source itself adds the holds.
	Attributor Attributor
	// Observer may be nil.
	Observer Observer
	Producer Producer
	Spool    Spool
	Clock    clock.Clock
	Log      *slog.Logger
	Registry prometheus.Registerer
}

// Collector is one boot of a collector.
type Collector struct {
	cfg      Config
	deps     Deps
	metrics  *metrics
	identity *identity
	losses   *losses

	slots   map[string]int64 // start of the last slot emitted, Unix ms, by node
	perSlot int              // batches of the last slot of Live
	lastMS  int64            // start of the last slot emitted, or read without a batch; 0: none
}

// New opens a boot: its boot_ms is greater than that of any earlier boot on this spool (R1). Nothing is read, written
// or sent before Live, Backfill or Publish.
func New(cfg Config, deps Deps) (*Collector, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure collector: %w", err)
	}
	meta := deps.Spool.Meta()
	var predecessor *wire.Predecessor
	boot := deps.Clock.Now().UnixMilli()
	if meta.BootMS > 0 {
		predecessor = &wire.Predecessor{BootMs: meta.BootMS, LastSeq: meta.LastSeq}
		boot = max(boot, meta.BootMS+1)
	}
	c := &Collector{
		cfg: cfg, deps: deps, metrics: newMetrics(deps.Registry),
		identity: newIdentity(cfg, boot, predecessor), losses: &losses{spool: deps.Spool, bootMS: boot},
		slots: maps.Clone(meta.LastSlotStartMS),
	}
	if c.slots == nil {
		c.slots = map[string]int64{}
	}
	registerSpool(deps.Registry, deps.Spool, cfg.SpoolMaxBytes)
	for _, ms := range c.slots {
		c.lastMS = max(c.lastMS, ms)
	}
	return c, nil
}

// Run publishes and reads live until ctx ends, or publishing fails permanently.
func (c *Collector) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	published := make(chan error, 1)
	go func() {
		defer cancel()
		published <- c.Publish(ctx)
	}()
	live := c.Live(ctx)
	if err := <-published; err != nil {
		return err
	}
	return live
}

// read reads a slot from the source. An error of the source concerns some nodes; the others' batches are used.
func (c *Collector) read(ctx context.Context, slot source.Slot) []*wire.Batch {
	start := c.deps.Clock.Now()
	ctx, cancel := context.WithTimeout(ctx, max(slot.Length, time.Minute))
	defer cancel()
	batches, err := c.deps.Source.Read(ctx, slot)
	c.metrics.readDuration.Observe(c.deps.Clock.Since(start).Seconds())
	if err != nil && ctx.Err() == nil {
		c.metrics.readErrors.Inc()
		c.deps.Log.Warn("source could not read all nodes", "slot", slot.Start, "batches", len(batches), "error", err)
	}
	return batches
}

// lastSlot is the start of the newest slot that was emitted, or read without a batch; zero: none yet.
func (c *Collector) lastSlot() time.Time {
	if c.lastMS == 0 {
		return time.Time{}
	}
	return time.UnixMilli(c.lastMS).UTC()
}

// note records that a slot was read.
func (c *Collector) note(slot time.Time) { c.lastMS = max(c.lastMS, slot.UnixMilli()) }

// unseen removes batches of slots that were already emitted for their node.
func (c *Collector) unseen(batches []*wire.Batch) []*wire.Batch {
	out := batches[:0]
	for _, b := range batches {
		if last, ok := c.slots[b.Node]; ok && b.SlotStartMs <= last {
			c.metrics.skipped.Inc()
			continue
		}
		out = append(out, b)
	}
	return out
}

// cut counts the n batches of a slot, whatever becomes of them (C1).
func (c *Collector) cut(n int) {
	c.identity.cut(n)
	c.metrics.sampled.Add(float64(n))
}

// valid removes batches that contradict themselves.
func (c *Collector) valid(batches []*wire.Batch) []*wire.Batch {
	good, err := c.identity.check(batches, c.cfg.Slot)
	if err != nil {
		c.drop(len(batches)-len(good), droppedInvalid, err)
	}
	return good
}

// drop counts batches that will never be spooled (C1).
func (c *Collector) drop(n int, reason string, err error) {
	if n == 0 {
		return
	}
	c.identity.drop(n, reason)
	c.metrics.dropped.WithLabelValues(reason).Add(float64(n))
	c.deps.Log.Error("batches dropped", "batches", n, "reason", reason, "error", err)
}
