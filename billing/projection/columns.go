package projection

import (
	"context"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/store"
)

const (
	tableDecisions = "decisions"
	tableInvoices  = "invoices"
	tableUsage     = "invoice_usage"
)

// Bounds of what waits in memory for an insert.
const (
	batchRows  = 5000
	batchBytes = 16 << 20
	usageRows  = 100_000
)

// batch is messages, and the invoices among them, on their way.
type batch struct {
	bytes int

	offset, size                                             proto.ColUInt64
	kind, id, key, request, who, reason, number, chain, body proto.ColStr
	at, appended                                             *proto.ColDateTime64
	accepted                                                 proto.ColUInt8
	repeats                                                  proto.ColInt64

	invoices invoiceColumns
}

type invoiceColumns struct {
	number, kind, tenant, period, currency, total, hours, zone, book, content, usage proto.ColStr
	corrects, billedIn, reason, approval, who, document                              proto.ColStr
	revision, epoch                                                                  proto.ColUInt32
	inputs, offset                                                                   proto.ColUInt64
	from, to                                                                         proto.ColDateTime
	at                                                                               *proto.ColDateTime64
}

func millis() *proto.ColDateTime64 {
	return new(proto.ColDateTime64).WithPrecision(proto.PrecisionMilli)
}

func newBatch() *batch {
	return &batch{at: millis(), appended: millis(), invoices: invoiceColumns{at: millis()}}
}

func (b *batch) rows() int { return b.offset.Rows() }

func (b *batch) full() bool { return b.rows() >= batchRows || b.bytes >= batchBytes }

func (b *batch) decision(e *decisions.Entry) {
	at := e.Record.At
	if at.IsZero() {
		at = time.Unix(0, 0)
	}
	b.bytes += len(e.Record.Body)
	b.offset.Append(uint64(e.Offset))
	b.kind.Append(string(e.Kind))
	b.id.Append(e.Record.ID)
	b.key.Append(e.Record.Key)
	b.request.Append(e.Record.Request)
	b.who.Append(e.Record.Who)
	b.at.Append(at)
	b.appended.Append(e.Appended)
	b.accepted.Append(flag(e.Accepted))
	b.repeats.Append(e.Repeats)
	b.reason.Append(e.Reason)
	b.number.Append(e.Number)
	b.chain.Append(e.Chain)
	b.size.Append(uint64(e.Bytes))
	b.body.Append(string(e.Record.Body))
}

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func (b *batch) invoice(e *decisions.Entry, i *decisions.Invoice, document []byte) {
	c := &b.invoices
	b.bytes += len(document)
	c.number.Append(i.Number)
	c.kind.Append(i.Kind)
	c.tenant.Append(i.Tenant)
	c.period.Append(i.Period)
	c.revision.Append(uint32(i.Revision))
	c.currency.Append(i.Currency)
	c.total.Append(i.Total)
	c.hours.Append(i.GPUHours)
	c.from.Append(i.From)
	c.to.Append(i.To)
	c.zone.Append(i.TimeZone)
	c.book.Append(i.PriceBook)
	c.content.Append(i.Content.SHA256)
	c.usage.Append(i.Usage.SHA256)
	c.corrects.Append(i.Corrects)
	c.billedIn.Append(i.BilledIn)
	c.reason.Append(i.Reason)
	c.approval.Append(i.Approval)
	c.epoch.Append(i.Epoch)
	c.inputs.Append(i.Inputs)
	c.offset.Append(uint64(e.Offset))
	c.who.Append(e.Record.Who)
	c.at.Append(e.Record.At)
	c.document.AppendBytes(document)
}

// input sends decimals as text, which ClickHouse reads exactly.
func (c *invoiceColumns) input() proto.Input {
	return proto.Input{
		{Name: "number", Data: &c.number},
		{Name: "kind", Data: &c.kind},
		{Name: "tenant", Data: &c.tenant},
		{Name: "period", Data: &c.period},
		{Name: "revision", Data: &c.revision},
		{Name: "currency", Data: &c.currency},
		{Name: "total", Data: &c.total},
		{Name: "gpu_hours", Data: &c.hours},
		{Name: "from_hour", Data: &c.from},
		{Name: "to_hour", Data: &c.to},
		{Name: "time_zone", Data: &c.zone},
		{Name: "price_book", Data: &c.book},
		{Name: "content_sha256", Data: &c.content},
		{Name: "usage_sha256", Data: &c.usage},
		{Name: "corrects", Data: &c.corrects},
		{Name: "billed_in", Data: &c.billedIn},
		{Name: "reason", Data: &c.reason},
		{Name: "approval", Data: &c.approval},
		{Name: "epoch", Data: &c.epoch},
		{Name: "inputs", Data: &c.inputs},
		{Name: "offset", Data: &c.offset},
		{Name: "who", Data: &c.who},
		{Name: "at", Data: c.at},
		{Name: "document", Data: &c.document},
	}
}

// insert writes the invoices before the messages that they came in, and
// empties the batch.
func (b *batch) insert(ctx context.Context, db *store.DB) error {
	if err := db.Insert(ctx, tableInvoices, b.invoices.input()); err != nil {
		return err
	}
	err := db.Insert(ctx, tableDecisions, proto.Input{
		{Name: "offset", Data: &b.offset},
		{Name: "kind", Data: &b.kind},
		{Name: "id", Data: &b.id},
		{Name: "key", Data: &b.key},
		{Name: "request", Data: &b.request},
		{Name: "who", Data: &b.who},
		{Name: "at", Data: b.at},
		{Name: "appended_at", Data: b.appended},
		{Name: "accepted", Data: &b.accepted},
		{Name: "repeats", Data: &b.repeats},
		{Name: "reason", Data: &b.reason},
		{Name: "number", Data: &b.number},
		{Name: "chain", Data: &b.chain},
		{Name: "bytes", Data: &b.size},
		{Name: "body", Data: &b.body},
	})
	if err != nil {
		return err
	}
	*b = *newBatch()
	return nil
}

// usage is rows of a copy on their way.
type usage struct {
	number, tenant, period, project, model, profile, bucket proto.ColStr
	revision, profileSlices, slices                         proto.ColUInt32
	hour                                                    proto.ColDateTime
	sliceMS, energyMJ                                       proto.ColInt64
}

func newUsage() *usage { return new(usage) }

func (u *usage) rows() int { return u.hour.Rows() }

func (u *usage) add(i *decisions.Invoice, row *rating.Row) {
	u.number.Append(i.Number)
	u.tenant.Append(i.Tenant)
	u.period.Append(i.Period)
	u.revision.Append(uint32(i.Revision))
	u.hour.Append(row.Hour)
	u.project.Append(row.Project)
	u.model.Append(row.Model)
	u.profile.Append(row.Profile)
	u.profileSlices.Append(uint32(row.ProfileSlices))
	u.slices.Append(uint32(row.Slices))
	u.bucket.Append(row.Bucket)
	u.sliceMS.Append(row.SliceMS)
	u.energyMJ.Append(row.EnergyMJ)
}

// insert writes the rows and empties u.
func (u *usage) insert(ctx context.Context, db *store.DB) error {
	err := db.Insert(ctx, tableUsage, proto.Input{
		{Name: "number", Data: &u.number},
		{Name: "tenant", Data: &u.tenant},
		{Name: "period", Data: &u.period},
		{Name: "revision", Data: &u.revision},
		{Name: "hour", Data: &u.hour},
		{Name: "project", Data: &u.project},
		{Name: "model", Data: &u.model},
		{Name: "profile", Data: &u.profile},
		{Name: "profile_slices", Data: &u.profileSlices},
		{Name: "slices", Data: &u.slices},
		{Name: "bucket", Data: &u.bucket},
		{Name: "slice_ms", Data: &u.sliceMS},
		{Name: "energy_mj", Data: &u.energyMJ},
	})
	*u = usage{}
	return err
}
