package devices

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

// writer creates metrics. It leaves out those that Prometheus would refuse together with all others.
type writer struct {
	devices *Devices
	node    string
	out     []prometheus.Metric
	seen    map[string]bool
	skipped int
	why     error // reason for the first of them
}

func (d *Devices) writer(node string) *writer {
	return &writer{devices: d, node: node, seen: map[string]bool{}}
}

func (w *writer) add(f family, l labels, v float64) {
	key := f.name + "\xff" + l.key()
	if w.seen[key] {
		w.skip(fmt.Errorf("%s of %q occurs twice", f.name, l.values))
		return
	}
	w.seen[key] = true
	m, err := prometheus.NewConstMetric(w.devices.descs.of(f, l.names), f.kind, v, l.values...)
	if err != nil {
		w.skip(fmt.Errorf("create %s of %q: %w", f.name, l.values, err))
		return
	}
	w.out = append(w.out, m)
}

func (w *writer) skip(err error) {
	w.skipped++
	if w.why == nil {
		w.why = err
	}
}

// metrics returns all created metrics, and logs once which were left out.
func (w *writer) metrics() []prometheus.Metric {
	if w.skipped > 0 {
		w.devices.skipped.Add(float64(w.skipped))
		w.devices.deps.Log.Warn("device metrics left out", "node", w.node, "metrics", w.skipped, "error", w.why)
	}
	return w.out
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// render creates the metrics of a node's slot; none if nothing was observed.
func (d *Devices) render(b *wire.Batch, info source.Info) []prometheus.Metric {
	if b.Unobserved {
		return nil
	}
	w := d.writer(b.Node)
	w.add(attributionOK, labels{}.with("Hostname", b.Node), flag(wire.AttributionOK(b)))
	settled := meter.Classify(b, meter.NewIdentities())
	for i, g := range b.Gpus {
		w.board(b, g, &settled[i], info)
	}
	for _, g := range d.seen.missing(b) {
		w.health(g, info)
	}
	return w.metrics()
}

// health adds the metrics of a GPU that exist whether it answers or not.
func (w *writer) health(g *wire.Gpu, info source.Info) labels {
	own := info.GPUs[g.Uuid]
	id := boardLabels(w.node, g, own)
	w.add(gpuInfo, id.
		with("driver", info.Driver).with("cuda", info.CUDA).with("dcgm", info.DCGM).with("nvml", info.NVML).
		with("vbios", own.VBIOS).with("serial", own.Serial), 1)
	w.add(gpuLost, id, flag(g.Lost))
	if g.Slices > 0 {
		w.add(gpuSlices, id, float64(g.Slices))
	}
	if brd := w.devices.seen[w.node][g.Uuid]; brd != nil && brd.energy {
		w.add(gpuEnergy, id, float64(brd.energyMJ)/1000)
	}
	return id
}

// board adds a GPU's metrics: its leaves at the slot's end, and their holders. Health flags come from the device and
// are valid even if owners are unknown.
func (w *writer) board(b *wire.Batch, g *wire.Gpu, settled *meter.GPUSlot, info source.Info) {
	id := w.health(g, info)
	w.buckets(id, b, settled)
	if g.Lost {
		return
	}
	w.add(gpuUnhealthy, id, flag(g.Unhealthy))
	brd := w.devices.seen[w.node][g.Uuid]
	var whole, parts fieldValues
	all := boardHolding{slices: settled.Slices}
	for _, l := range g.Leaves {
		if lo, hi := wire.Span(l.FromMs, l.ToMs, b.SlotMs); lo >= hi || hi < b.SlotMs {
			continue
		}
		row, held := leafLabels(id, l), holding{}
		if !isWhole(l) {
			w.add(leafUnhealthy, row, flag(l.Unhealthy))
		}
		if wire.AttributionOK(b) {
			held = holdingOf(g, l.Id, b.SlotMs)
			all.add(held, int(l.Slices))
		}
		owned := w.owned(row, held, b)
		w.add(leafSlices, owned, float64(l.Slices))
		if wire.AttributionOK(b) {
			w.held(owned, l, held, leafUse(l, settled))
		}
		if isWhole(l) {
			whole = leafValues(whole, l)
			continue
		}
		values := leafValues(nil, l)
		parts = append(parts, values...)
		w.fields(owned, append(values, lastXID(brd, l.Id)...))
	}
	values := boardValues(whole, g).without(parts)
	w.fields(w.owned(id, all.holding(), b), append(values, lastXID(brd, "", "gpu")...))
}

// owned adds the owner to a row.
func (w *writer) owned(row labels, h holding, b *wire.Batch) labels {
	if !w.devices.cfg.OwnerLabels {
		return row
	}
	hour := time.UnixMilli(b.SlotStartMs).UTC().Truncate(time.Hour)
	return row.and(h.labels(w.devices.deps.Tenants, hour))
}

// held adds how much of a leaf is held, and the shares of its use.
func (w *writer) held(row labels, l *wire.Leaf, h holding, u use) {
	w.add(leafHolders, row, float64(len(h.owners)))
	w.add(leafHeld, row, h.ratio(l))
	if u.capacity > 0 {
		w.add(leafActive, row, float64(u.active)/float64(u.capacity))
		w.add(leafIdle, row, float64(u.idle)/float64(u.capacity))
	}
}

// fields adds the values of a row, each once.
func (w *writer) fields(row labels, values fieldValues) {
	for i, v := range values {
		if math.IsNaN(v.value) || values[:i].has(v.id) {
			continue
		}
		f, named := w.devices.fieldFamily(v.id)
		if !named {
			w.add(f, row.with("field", strconv.FormatUint(uint64(v.id), 10)), v.value)
			continue
		}
		w.add(f, row, v.value)
	}
}

// buckets adds the GPU's buckets in the slot. Time that only the whole hour can decide counts as unobserved.
func (w *writer) buckets(id labels, b *wire.Batch, settled *meter.GPUSlot) {
	capacity := int64(settled.Slices) * b.SlotMs
	if capacity <= 0 {
		return
	}
	var sums [meter.Unobserved + 1]int64
	sums[meter.Unobserved] = capacity
	for _, r := range settled.Rows {
		if r.Bucket < meter.Unobserved {
			sums[r.Bucket] += r.SliceMS
			sums[meter.Unobserved] -= r.SliceMS
		}
	}
	for bucket := meter.Active; bucket <= meter.Unobserved; bucket++ {
		w.add(gpuBucket, id.with("bucket", bucket.String()), float64(sums[bucket])/float64(capacity))
	}
}

// lastXID is the last XID under any of the leaf's names.
func lastXID(b *board, leaves ...string) fieldValues {
	for _, leaf := range leaves {
		if code, ok := b.xids[leaf]; ok {
			return fieldValues{{field.XID, float64(code)}}
		}
	}
	return nil
}
