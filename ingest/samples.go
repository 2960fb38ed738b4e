package ingest

import (
	"math"

	"github.com/gputally/gputally/internal/tables"
	"github.com/gputally/gputally/internal/wire"
)

// DCGM field ids of the metrics that have a column in table samples (dcgm_fields.h).
// Other fields are not stored.
const (
	fieldSMClock    = 100
	fieldMemClock   = 101
	fieldMemoryTemp = 140
	fieldGPUTemp    = 150
	fieldXID        = 230
	fieldFBFree     = 251
	fieldFBUsed     = 252
	fieldECCSBE     = 310
	fieldECCDBE     = 311
	fieldNVLink     = 449 // MB/s
	fieldTensor     = 1004
	fieldDRAM       = 1005
	fieldPCIeTx     = 1009 // bytes/s
	fieldPCIeRx     = 1010
)

// samples builds a block of table samples: a row for the GPU and one for each leaf,
// with metrics as scaled integers.
type samples struct {
	*tables.Block[tables.Sample]
	row [19]metric
}

type metric struct {
	value float64
	ok    bool
}

// The order of the metric columns in the table, and of the bits in column present.
const (
	mSM = iota
	mGR
	mTensor
	mDRAM
	mUtil
	mPower
	mEnergy
	mFBUsed
	mFBFree
	mTemp
	mMemTemp
	mSMClock
	mMemClock
	mPCIeTx
	mPCIeRx
	mNVLink
	mSBE
	mDBE
	mXID
)

func newSamples() *samples { return &samples{Block: tables.NewBlock[tables.Sample]()} }

func (c *samples) add(b *wire.Batch, id uint64) {
	if b.Fill { // allocation records contain no measurements
		return
	}
	for _, g := range b.Gpus {
		c.row = [19]metric{}
		row := tables.Sample{
			Cluster: b.Cluster, Node: b.Node, GPU: g.Uuid, Index: uint16(min(g.Index, math.MaxUint16)),
			Slot: slotTime(b.SlotStartMs),
			Rev:  wire.Rev(b), Batch: id, Idle: idleDeciwatts(g),
		}
		if g.GetPowerWatts() <= wire.MaxWatts {
			c.put(mPower, g.PowerWatts, 10)
		}
		if mj, _, ok := wire.Energy(g, b.SlotMs); ok {
			c.row[mEnergy] = metric{float64(mj) / 1000, true}
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
			c.row = [19]metric{}
			c.leaf(l)
			row.Device = l.Id
			c.emit(row)
		}
	}
}

func (c *samples) leaf(l *wire.Leaf) {
	c.put(mSM, l.SmActive, 1e4)
	c.put(mGR, l.GrEngineActive, 1e4)
	c.put(mUtil, l.GpuUtil, 1)
	c.fields(l.MetricFields, l.MetricValues)
}

func (c *samples) put(m int, v *float64, scale float64) {
	if v != nil && !math.IsNaN(*v) && *v >= 0 {
		c.row[m] = metric{*v * scale, true}
	}
}

// Scales of the metrics by DCGM field id: the unit of the column.
var fieldColumns = map[uint32]struct {
	m     int
	scale float64
}{
	fieldSMClock: {mSMClock, 1}, fieldMemClock: {mMemClock, 1}, fieldMemoryTemp: {mMemTemp, 1}, fieldGPUTemp: {mTemp, 1},
	fieldXID: {mXID, 1}, fieldFBFree: {mFBFree, 1}, fieldFBUsed: {mFBUsed, 1}, fieldECCSBE: {mSBE, 1},
	fieldECCDBE: {mDBE, 1},
	fieldNVLink: {mNVLink, 1e6 / 1024}, fieldTensor: {mTensor, 1e4}, fieldDRAM: {mDRAM, 1e4},
	fieldPCIeTx: {mPCIeTx, 1.0 / 1024}, fieldPCIeRx: {mPCIeRx, 1.0 / 1024},
}

func (c *samples) fields(ids []uint32, values []float64) {
	for i, id := range ids {
		if f, ok := fieldColumns[id]; ok {
			c.put(f.m, &values[i], f.scale)
		}
	}
}

func (c *samples) emit(row tables.Sample) {
	for m := range c.row {
		if c.row[m].ok {
			row.Present |= 1 << m
		}
	}
	row.SMActive, row.GRActive, row.Tensor, row.DRAM = c.u16(mSM), c.u16(mGR), c.u16(mTensor), c.u16(mDRAM)
	row.Util, row.Power, row.Energy = c.u8(mUtil), c.u16(mPower), c.u32(mEnergy)
	row.FBUsed, row.FBFree, row.Temp, row.MemoryTemp = c.u32(mFBUsed), c.u32(mFBFree), c.u8(mTemp), c.u8(mMemTemp)
	row.SMClock, row.MemClock, row.PCIeTx, row.PCIeRx = c.u16(mSMClock), c.u16(mMemClock), c.u32(mPCIeTx), c.u32(mPCIeRx)
	row.NVLink, row.SBE, row.DBE, row.XID = c.u32(mNVLink), c.u32(mSBE), c.u32(mDBE), c.u32(mXID)
	c.Add(&row)
}

func (c *samples) u8(m int) uint8   { return uint8(c.scaled(m, math.MaxUint8)) }
func (c *samples) u16(m int) uint16 { return uint16(c.scaled(m, math.MaxUint16)) }
func (c *samples) u32(m int) uint32 { return uint32(c.scaled(m, math.MaxUint32)) }

// idleDeciwatts is the model's idle power in 0.1 W, 0 if unknown.
func idleDeciwatts(g *wire.Gpu) uint16 {
	if idle := g.GetIdleWatts(); idle > 0 && idle <= wire.MaxWatts {
		return uint16(math.Round(idle * 10))
	}
	return 0
}

// scaled rounds to the column's unit and clamps to its greatest value.
func (c *samples) scaled(m int, most float64) float64 {
	return math.Min(math.Round(c.row[m].value), most)
}
