package ingest

import (
	"math"
	"reflect"

	"github.com/gputally/gputally/internal/tables"
	"github.com/gputally/gputally/internal/wire"
)

// DCGM fields that have a place of their own in a batch (dcgm_fields.h).
const (
	fieldPower  = 155
	fieldEnergy = 156
	fieldUtil   = 203
	fieldGR     = 1001
	fieldSM     = 1002
)

// sampleColumns are the metric columns of table samples in their order, which is that of
// the bits in column present: DCGM's field, and what turns its unit into the column's.
// Other fields are not stored.
var sampleColumns = [...]struct {
	field uint32
	scale float64
}{
	{fieldSM, 1e4},
	{fieldGR, 1e4},
	{1004, 1e4}, // tensor
	{1005, 1e4}, // DRAM
	{fieldUtil, 1},
	{fieldPower, 10},
	{fieldEnergy, 1},   // given in joules here
	{252, 1},           // frame buffer, used
	{251, 1},           // frame buffer, free
	{150, 1},           // temperature
	{140, 1},           // temperature of memory
	{100, 1},           // SM clock
	{101, 1},           // memory clock
	{1009, 1.0 / 1024}, // PCIe sent, bytes/s
	{1010, 1.0 / 1024}, // PCIe received, bytes/s
	{449, 1e6 / 1024},  // NVLink, MB/s
	{310, 1},           // single-bit ECC errors
	{311, 1},           // double-bit ECC errors
	{230, 1},           // XID
}

// columnOf finds a field's place in sampleColumns.
var columnOf = func() map[uint32]int {
	out := make(map[uint32]int, len(sampleColumns))
	for i, c := range sampleColumns {
		out[c.field] = i
	}
	return out
}()

// firstMetric is the index of the first metric column among the fields of a row.
var firstMetric = func() int {
	f, _ := reflect.TypeFor[tables.Sample]().FieldByName("SMActive")
	return f.Index[0]
}()

// samples builds a block of table samples: a row for the GPU and one for each leaf,
// with metrics as scaled integers.
type samples struct {
	*tables.Block[tables.Sample]
	row [len(sampleColumns)]float64 // in the columns' units; NaN: unknown
}

func newSamples() *samples { return &samples{Block: tables.NewBlock[tables.Sample]()} }

func (c *samples) add(b *wire.Batch, id uint64) {
	if b.Fill { // allocation records contain no measurements
		return
	}
	for _, g := range b.Gpus {
		c.begin()
		row := tables.Sample{
			Cluster: b.Cluster, Node: b.Node, GPU: g.Uuid, Index: uint16(min(g.Index, math.MaxUint16)),
			Slot: slotTime(b.SlotStartMs), Rev: wire.Rev(b), Batch: id, Idle: idleDeciwatts(g),
		}
		if g.GetPowerWatts() <= wire.MaxWatts {
			c.put(fieldPower, g.PowerWatts)
		}
		if mj, _, ok := wire.Energy(g, b.SlotMs); ok {
			joules := float64(mj) / 1000
			c.put(fieldEnergy, &joules)
		}
		c.fields(g.MetricFields, g.MetricValues)
		if !g.Mig && len(g.Leaves) == 1 { // a whole GPU is its only leaf
			c.leaf(g.Leaves[0])
		}
		c.emit(row)
		if !g.Mig {
			continue
		}
		for _, l := range g.Leaves {
			c.begin()
			c.leaf(l)
			row.Device = l.Id
			c.emit(row)
		}
	}
}

func (c *samples) begin() {
	for i := range c.row {
		c.row[i] = math.NaN()
	}
}

func (c *samples) leaf(l *wire.Leaf) {
	c.put(fieldSM, l.SmActive)
	c.put(fieldGR, l.GrEngineActive)
	c.put(fieldUtil, l.GpuUtil)
	c.fields(l.MetricFields, l.MetricValues)
}

func (c *samples) put(field uint32, v *float64) {
	if v != nil && !math.IsNaN(*v) && *v >= 0 {
		i := columnOf[field]
		c.row[i] = *v * sampleColumns[i].scale
	}
}

func (c *samples) fields(ids []uint32, values []float64) {
	for i, id := range ids {
		switch id {
		case fieldPower, fieldEnergy, fieldUtil, fieldGR, fieldSM:
			continue
		}
		if _, ok := columnOf[id]; ok {
			c.put(id, &values[i])
		}
	}
}

// emit adds the row, with metrics rounded and at most the column's greatest value.
func (c *samples) emit(row tables.Sample) {
	fields := reflect.ValueOf(&row).Elem()
	for i, v := range c.row {
		if math.IsNaN(v) {
			continue
		}
		row.Present |= 1 << i
		f := fields.Field(firstMetric + i)
		f.SetUint(uint64(math.Min(math.Round(v), float64(uint64(1)<<f.Type().Bits()-1))))
	}
	c.Add(&row)
}

// idleDeciwatts is the model's idle power in 0.1 W, 0 if unknown.
func idleDeciwatts(g *wire.Gpu) uint16 {
	if idle := g.GetIdleWatts(); idle > 0 && idle <= wire.MaxWatts {
		return uint16(math.Round(idle * 10))
	}
	return 0
}
