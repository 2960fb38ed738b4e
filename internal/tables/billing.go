package tables

import "time"

// Decision is a message of the topic of decisions.
type Decision struct {
	Offset     uint64    `ch:"offset" sql:"UInt64"`
	Kind       string    `ch:"kind" sql:"LowCardinality(String) COMMENT 'such as price_book, invoice, note, approval; empty: not a record of this program'"`
	ID         string    `ch:"id" sql:"String"`
	Key        string    `ch:"key" sql:"String COMMENT 'idempotency key'"`
	Request    string    `ch:"request" sql:"String COMMENT 'SHA-256 of what was asked, hex'"`
	Who        string    `ch:"who" sql:"String"`
	At         time.Time `ch:"at" sql:"DateTime64(3, 'UTC') COMMENT 'on the clock of who wrote it; 1970 where there is no record'"`
	AppendedAt time.Time `ch:"appended_at" sql:"DateTime64(3, 'UTC') COMMENT 'on the clock of the broker'"`
	Accepted   uint8     `ch:"accepted" sql:"UInt8"`
	Repeats    int64     `ch:"repeats" sql:"Int64 COMMENT 'offset of the first with this key and request; -1: none'"`
	Reason     string    `ch:"reason" sql:"String COMMENT 'why it was not accepted'"`
	Number     string    `ch:"number" sql:"String COMMENT 'of an invoice or note'"`
	Chain      string    `ch:"chain" sql:"String COMMENT 'audit hash chain after it, hex'"`
	Bytes      uint64    `ch:"bytes" sql:"UInt64 COMMENT 'of the message value'"`
	Body       string    `ch:"body" sql:"String COMMENT 'JSON; empty for a part' CODEC(ZSTD(3))"`
}

// Invoice is a finalised invoice or note.
type Invoice struct {
	Number        string    `ch:"number" sql:"String"`
	Kind          string    `ch:"kind" sql:"LowCardinality(String) COMMENT 'invoice, credit_note, debit_note'"`
	Tenant        string    `ch:"tenant" sql:"String"`
	Period        string    `ch:"period" sql:"LowCardinality(String) COMMENT 'month, such as 2026-10'"`
	Revision      uint32    `ch:"revision" sql:"UInt32"`
	Currency      string    `ch:"currency" sql:"LowCardinality(String)"`
	Total         string    `ch:"total" sql:"Decimal(38, 9) COMMENT 'a note has the difference it makes'"`
	GPUHours      string    `ch:"gpu_hours" sql:"Decimal(38, 9)"`
	FromHour      time.Time `ch:"from_hour" sql:"DateTime('UTC') COMMENT 'UTC hours from this one on'"`
	ToHour        time.Time `ch:"to_hour" sql:"DateTime('UTC') COMMENT 'up to this one'"`
	TimeZone      string    `ch:"time_zone" sql:"LowCardinality(String)"`
	PriceBook     string    `ch:"price_book" sql:"String COMMENT 'SHA-256, hex'"`
	ContentSHA256 string    `ch:"content_sha256" sql:"String COMMENT 'of the document, hex'"`
	UsageSHA256   string    `ch:"usage_sha256" sql:"String COMMENT 'of the copy of usage, hex'"`
	Corrects      string    `ch:"corrects" sql:"String COMMENT 'number of the revision before'"`
	BilledIn      string    `ch:"billed_in" sql:"LowCardinality(String) COMMENT 'month that a note is billed in'"`
	Reason        string    `ch:"reason" sql:"String"`
	Approval      string    `ch:"approval" sql:"String COMMENT 'key of the approval'"`
	Epoch         uint32    `ch:"epoch" sql:"UInt32"`
	Inputs        uint64    `ch:"inputs" sql:"UInt64"`
	Offset        uint64    `ch:"offset" sql:"UInt64 COMMENT 'in decisions'"`
	Who           string    `ch:"who" sql:"String"`
	At            time.Time `ch:"at" sql:"DateTime64(3, 'UTC')"`
	Document      string    `ch:"document" sql:"String COMMENT 'canonical JSON' CODEC(ZSTD(3))"`
}

// InvoiceUsage is a row of the copy of the usage from which an invoice was made.
type InvoiceUsage struct {
	Number        string    `ch:"number" sql:"String"`
	Tenant        string    `ch:"tenant" sql:"String"`
	Period        string    `ch:"period" sql:"LowCardinality(String)"`
	Revision      uint32    `ch:"revision" sql:"UInt32"`
	Hour          time.Time `ch:"hour" sql:"DateTime('UTC') CODEC(Delta, ZSTD(1))"`
	Project       string    `ch:"project" sql:"String"`
	Model         string    `ch:"model" sql:"LowCardinality(String)"`
	Profile       string    `ch:"profile" sql:"LowCardinality(String)"`
	ProfileSlices uint32    `ch:"profile_slices" sql:"UInt32"`
	Slices        uint32    `ch:"slices" sql:"UInt32"`
	Bucket        string    `ch:"bucket" sql:"LowCardinality(String) COMMENT 'active, idle, unproven'"`
	SliceMS       int64     `ch:"slice_ms" sql:"Int64 CODEC(T64, ZSTD(1))"`
	EnergyMJ      int64     `ch:"energy_mj" sql:"Int64 CODEC(T64, ZSTD(1))"`
}
