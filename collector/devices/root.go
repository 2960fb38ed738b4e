package devices

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/tenants"
	"github.com/gputally/gputally/internal/wire"
)

// Deps are Devices' dependencies.
type Deps struct {
	Tenants *tenants.Mapping
	Info    func() source.Info // about the node; nil: unknown
	// FieldName returns DCGM's name of a field that a source reads by configuration; empty or nil: such fields are
	// exposed by their ids.
	FieldName func(id uint32) string
	Clock     clock.Clock
	Log       *slog.Logger
	Registry  prometheus.Registerer
}

// Devices is a prometheus.Collector of the last slot of each node. It is safe for concurrent use.
type Devices struct {
	cfg     Config
	deps    Deps
	skipped prometheus.Counter

	mu    sync.Mutex
	nodes map[string]*view
	seen  memory
	descs descs
}

// view is a node's last slot, rendered.
type view struct {
	startMS, slotMS int64
	metrics         []prometheus.Metric
}

// New registers the metrics; they are empty before the first Observe.
func New(cfg Config, deps Deps) (*Devices, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure device metrics: %w", err)
	}
	d := &Devices{
		cfg: cfg, deps: deps, nodes: map[string]*view{}, seen: memory{}, descs: descs{},
		skipped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gputally_device_rows_skipped_total", Help: "Devices and fields not shown because another one has the same " +
				"name and labels.",
		}),
	}
	for _, c := range []prometheus.Collector{d.skipped, d} {
		if err := deps.Registry.Register(c); err != nil {
			return nil, fmt.Errorf("register device metrics: %w", err)
		}
	}
	return d, nil
}

// Observe takes the valid batches of a slot, one per node, after attribution, and keeps none of them. A node without
// a batch keeps exposing its last slot until it is too old; a slot before the last one is ignored, and a repeated
// last one replaces it.
func (d *Devices) Observe(batches []*wire.Batch) {
	var info source.Info
	if d.deps.Info != nil {
		info = d.deps.Info()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range batches {
		if last := d.nodes[b.Node]; last != nil && b.SlotStartMs < last.startMS {
			continue
		}
		d.seen.take(b)
		v := &view{startMS: b.SlotStartMs, slotMS: b.SlotMs}
		if d.fresh(v) { // a backfill is not exposed
			v.metrics = d.render(b, info)
		}
		d.nodes[b.Node] = v
	}
}

// fresh returns whether a slot is recent. One that ends in the future was read before the wall clock stepped back.
func (d *Devices) fresh(v *view) bool {
	slot := time.Duration(v.slotMS) * time.Millisecond
	age := d.deps.Clock.Now().Sub(time.UnixMilli(v.startMS + v.slotMS))
	return age >= -slot && age <= time.Duration(d.cfg.MaxAgeSlots)*slot
}

// Describe sends nothing: the fields depend on the devices.
func (d *Devices) Describe(chan<- *prometheus.Desc) {}

// Collect sends the last slot of each node.
func (d *Devices) Collect(out chan<- prometheus.Metric) {
	for _, m := range d.shown() {
		out <- m
	}
}

func (d *Devices) shown() []prometheus.Metric {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.writer("")
	for node, v := range d.nodes {
		w.add(lastSlot, labels{}.with("Hostname", node), float64(v.startMS)/1000)
		if d.fresh(v) {
			w.out = append(w.out, v.metrics...)
		}
	}
	return w.out
}
