package analyzer

import (
	"math/big"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/analyzer/episode"
)

// columns is a block of the table anomalies.
type columns struct {
	id, workload, evidence                                    proto.ColStr
	kind, cluster, tenant, project, node, gpu, leaf, currency *proto.ColLowCardinality[string]
	start, end                                                proto.ColDateTime
	hours, cost                                               proto.ColDecimal128
	version                                                   proto.ColUInt64
	deleted                                                   proto.ColUInt8
}

func newColumns() *columns {
	c := &columns{}
	for _, col := range []**proto.ColLowCardinality[string]{
		&c.kind, &c.cluster, &c.tenant, &c.project, &c.node, &c.gpu, &c.leaf, &c.currency,
	} {
		*col = new(proto.ColStr).LowCardinality()
	}
	return c
}

func (c *columns) add(id string, e episode.Episode, version uint64, deleted bool) {
	c.id.Append(id)
	c.kind.Append(string(e.Kind))
	c.cluster.Append(e.Cluster)
	c.tenant.Append(e.Tenant)
	c.project.Append(e.Project)
	c.workload.Append(e.Workload)
	c.node.Append(e.Node)
	c.gpu.Append(e.GPU)
	c.leaf.Append(e.Leaf)
	c.start.Append(e.Start)
	c.end.Append(e.End)
	c.hours.Append(decimal128(e.WastedGPUHours))
	c.cost.Append(decimal128(e.WastedCost))
	c.currency.Append(e.Currency)
	c.evidence.Append(e.Evidence)
	c.version.Append(version)
	if deleted {
		c.deleted.Append(1)
	} else {
		c.deleted.Append(0)
	}
}

// decimalType is the table's type of GPU-hours and cost.
const decimalType = proto.ColumnType("Decimal(38, 9)")

func (c *columns) input() proto.Input {
	utc := proto.ColumnType("DateTime('UTC')")
	return proto.Input{
		{Name: "id", Data: &c.id},
		{Name: "kind", Data: c.kind},
		{Name: "cluster", Data: c.cluster},
		{Name: "tenant", Data: c.tenant},
		{Name: "project", Data: c.project},
		{Name: "workload", Data: &c.workload},
		{Name: "node", Data: c.node},
		{Name: "gpu", Data: c.gpu},
		{Name: "leaf", Data: c.leaf},
		{Name: "start", Data: proto.Alias(&c.start, utc)},
		{Name: "end", Data: proto.Alias(&c.end, utc)},
		{Name: "wasted_gpu_hours", Data: proto.Alias(&c.hours, decimalType)},
		{Name: "wasted_cost", Data: proto.Alias(&c.cost, decimalType)},
		{Name: "currency", Data: c.currency},
		{Name: "evidence", Data: &c.evidence},
		{Name: "version", Data: &c.version},
		{Name: "deleted", Data: &c.deleted},
	}
}

// decimal128 is a non-negative value in units of 1e-9, as Decimal(38, 9) keeps
// it.
func decimal128(d decimal.Decimal) proto.Decimal128 {
	units := d.Shift(9).BigInt()
	low := new(big.Int).And(units, new(big.Int).SetUint64(1<<64-1))
	return proto.Decimal128{Low: low.Uint64(), High: new(big.Int).Rsh(units, 64).Uint64()}
}
