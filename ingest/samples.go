package ingest

import (
	"math"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/gputally/gputally/internal/wire"
)

// DCGM field ids of the metrics that table samples has columns for
// (dcgm_fields.h). All others a collector sends are not kept.
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

// samplesColumns builds a block of table samples: the board and each leaf of
// it, as scaled integers. Bit n of present says that the n-th metric was read.
type samplesColumns struct {
	cluster, node, gpu, device *proto.ColLowCardinality[string]
	slot                       proto.ColDateTime
	rev, batch                 proto.ColUInt64
	idle, index                proto.ColUInt16 // 0.1 W; DCGM's
	present                    proto.ColUInt32
	u8                         [3]proto.ColUInt8
	u16                        [7]proto.ColUInt16
	u32                        [9]proto.ColUInt32
	row                        [19]metric
}

type metric struct {
	value float64
	ok    bool
}

// The order of the metric columns in the table, and so of the bits.
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

func newSamplesColumns() *samplesColumns {
	return &samplesColumns{cluster: lowCardinality(), node: lowCardinality(), gpu: lowCardinality(), device: lowCardinality()}
}

func (c *samplesColumns) add(b *wire.Batch, id uint64) {
	if b.Fill { // records measure nothing
		return
	}
	for _, g := range b.Gpus {
		c.row = [19]metric{}
		source := sampled{b, g, id, wire.Rev(b)}
		if g.GetPowerWatts() <= wire.MaxWatts {
			c.put(mPower, g.PowerWatts, 10)
		}
		if mj, _, ok := wire.Energy(g, b.SlotMs); ok {
			c.row[mEnergy] = metric{float64(mj) / 1000, true}
		}
		c.fields(g.MetricFields, g.MetricValues)
		if !g.Mig && len(g.Leaves) == 1 { // a whole board is its only leaf
			c.leaf(g.Leaves[0])
		}
		c.emit(source, "")
		if !g.Mig {
			continue
		}
		for _, l := range g.Leaves {
			c.row = [19]metric{}
			c.leaf(l)
			c.emit(source, l.Id)
		}
	}
}

func (c *samplesColumns) leaf(l *wire.Leaf) {
	c.put(mSM, l.SmActive, 1e4)
	c.put(mGR, l.GrEngineActive, 1e4)
	c.put(mUtil, l.GpuUtil, 1)
	c.fields(l.MetricFields, l.MetricValues)
}

func (c *samplesColumns) put(m int, v *float64, scale float64) {
	if v != nil && !math.IsNaN(*v) && *v >= 0 {
		c.row[m] = metric{*v * scale, true}
	}
}

// scales of the metrics by DCGM field id: what one unit of the column is.
var fieldColumns = map[uint32]struct {
	m     int
	scale float64
}{
	fieldSMClock: {mSMClock, 1}, fieldMemClock: {mMemClock, 1}, fieldMemoryTemp: {mMemTemp, 1}, fieldGPUTemp: {mTemp, 1},
	fieldXID: {mXID, 1}, fieldFBFree: {mFBFree, 1}, fieldFBUsed: {mFBUsed, 1}, fieldECCSBE: {mSBE, 1}, fieldECCDBE: {mDBE, 1},
	fieldNVLink: {mNVLink, 1e6 / 1024}, fieldTensor: {mTensor, 1e4}, fieldDRAM: {mDRAM, 1e4},
	fieldPCIeTx: {mPCIeTx, 1.0 / 1024}, fieldPCIeRx: {mPCIeRx, 1.0 / 1024},
}

func (c *samplesColumns) fields(ids []uint32, values []float64) {
	for i, id := range ids {
		if f, ok := fieldColumns[id]; ok {
			c.put(f.m, &values[i], f.scale)
		}
	}
}

// sampled is a GPU as one batch tells of it.
type sampled struct {
	batch *wire.Batch
	gpu   *wire.Gpu
	id    uint64
	rev   uint64
}

func (c *samplesColumns) emit(of sampled, device string) {
	c.cluster.Append(of.batch.Cluster)
	c.node.Append(of.batch.Node)
	c.gpu.Append(of.gpu.Uuid)
	c.device.Append(device)
	c.slot.Append(slotTime(of.batch.SlotStartMs))
	c.rev.Append(of.rev)
	c.batch.Append(of.id)
	c.idle.Append(idleDeciwatts(of.gpu))
	c.index.Append(uint16(min(of.gpu.Index, math.MaxUint16)))
	var present uint32
	for m := range c.row {
		if c.row[m].ok {
			present |= 1 << m
		}
	}
	c.present.Append(present)
	for i, m := range [...]int{mUtil, mTemp, mMemTemp} {
		c.u8[i].Append(uint8(c.scaled(m, math.MaxUint8)))
	}
	for i, m := range [...]int{mSM, mGR, mTensor, mDRAM, mPower, mSMClock, mMemClock} {
		c.u16[i].Append(uint16(c.scaled(m, math.MaxUint16)))
	}
	for i, m := range [...]int{mEnergy, mFBUsed, mFBFree, mPCIeTx, mPCIeRx, mNVLink, mSBE, mDBE, mXID} {
		c.u32[i].Append(uint32(c.scaled(m, math.MaxUint32)))
	}
}

// idleDeciwatts is the model's idle power, 0 where it is not known.
func idleDeciwatts(g *wire.Gpu) uint16 {
	if idle := g.GetIdleWatts(); idle > 0 && idle <= wire.MaxWatts {
		return uint16(math.Round(idle * 10))
	}
	return 0
}

// scaled rounds to the column's unit and stops at its greatest value.
func (c *samplesColumns) scaled(m int, most float64) float64 {
	return math.Min(math.Round(c.row[m].value), most)
}

func (c *samplesColumns) input() proto.Input {
	in := proto.Input{
		{Name: "cluster", Data: c.cluster},
		{Name: "node", Data: c.node},
		{Name: "gpu", Data: c.gpu},
		{Name: "device", Data: c.device},
		{Name: "slot", Data: &c.slot},
		{Name: "rev", Data: &c.rev},
		{Name: "batch", Data: &c.batch},
		{Name: "idle_dw", Data: &c.idle},
		{Name: "gpu_index", Data: &c.index},
		{Name: "present", Data: &c.present},
	}
	for i, name := range [...]string{"gpu_util", "gpu_temp_c", "memory_temp_c"} {
		in = append(in, proto.InputColumn{Name: name, Data: &c.u8[i]})
	}
	for i, name := range [...]string{"sm_active", "gr_engine_active", "tensor_active", "dram_active", "power_dw", "sm_clock_mhz", "mem_clock_mhz"} {
		in = append(in, proto.InputColumn{Name: name, Data: &c.u16[i]})
	}
	for i, name := range [...]string{"energy_j", "fb_used_mib", "fb_free_mib", "pcie_tx_kib", "pcie_rx_kib", "nvlink_kib", "ecc_sbe", "ecc_dbe", "xid"} {
		in = append(in, proto.InputColumn{Name: name, Data: &c.u32[i]})
	}
	return in
}
