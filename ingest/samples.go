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
	rev                        proto.ColUInt64
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

func (c *samplesColumns) add(b *wire.Batch, rev uint64) {
	if b.Fill { // records measure nothing
		return
	}
	for _, g := range b.Gpus {
		c.row = [19]metric{}
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
		c.emit(b, rev, g.Uuid, "")
		if !g.Mig {
			continue
		}
		for _, l := range g.Leaves {
			c.row = [19]metric{}
			c.leaf(l)
			c.emit(b, rev, g.Uuid, l.Id)
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

func (c *samplesColumns) emit(b *wire.Batch, rev uint64, gpu, device string) {
	c.cluster.Append(b.Cluster)
	c.node.Append(b.Node)
	c.gpu.Append(gpu)
	c.device.Append(device)
	c.slot.Append(slotTime(b.SlotStartMs))
	c.rev.Append(rev)
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
