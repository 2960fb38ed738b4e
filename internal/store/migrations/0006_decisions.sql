-- What the topic gputally.decisions.v1 says, for people and dashboards: nothing
-- here is the truth, and all of it can be made anew from the topic (R6).

-- Every message of the topic, refused ones included. Written last of what
-- belongs to it, so that what is there is whole.
CREATE TABLE IF NOT EXISTS decisions
(
    offset UInt64,
    kind LowCardinality(String) COMMENT 'price_book, freeze, invoice, note, approval, mapping, mute, audit, part; empty: no record of ours',
    id String,
    key String COMMENT 'idempotency key',
    request String COMMENT 'SHA-256 of what was asked, hex',
    who String,
    at DateTime64(3, 'UTC') COMMENT 'on the clock of who wrote it; 1970 where there is no record',
    appended_at DateTime64(3, 'UTC') COMMENT 'on the clock of the broker',
    accepted UInt8,
    repeats Int64 COMMENT 'offset of the first with this key and request; -1: none',
    reason String COMMENT 'why it was not accepted',
    number String COMMENT 'of an invoice or note',
    chain String COMMENT 'audit hash chain after it, hex',
    bytes UInt64 COMMENT 'of the message value',
    body String COMMENT 'JSON; empty for a part' CODEC(ZSTD(3))
)
ENGINE = ReplacingMergeTree
ORDER BY offset;

-- Finalised invoices (revision 0) and the notes on them.
CREATE TABLE IF NOT EXISTS invoices
(
    number String,
    kind LowCardinality(String) COMMENT 'invoice, credit_note, debit_note',
    tenant String,
    period LowCardinality(String) COMMENT 'month, such as 2026-10',
    revision UInt32,
    currency LowCardinality(String),
    total Decimal(38, 9) COMMENT 'a note has the difference it makes',
    gpu_hours Decimal(38, 9),
    from_hour DateTime('UTC') COMMENT 'UTC hours from this one on',
    to_hour DateTime('UTC') COMMENT 'up to this one',
    time_zone LowCardinality(String),
    price_book String COMMENT 'SHA-256, hex',
    content_sha256 String COMMENT 'of the document, hex',
    usage_sha256 String COMMENT 'of the copy of usage, hex',
    corrects String COMMENT 'number of the revision before',
    billed_in LowCardinality(String) COMMENT 'month that a note is billed in',
    reason String,
    approval String COMMENT 'key of the approval',
    epoch UInt32,
    inputs UInt64,
    offset UInt64 COMMENT 'in decisions',
    who String,
    at DateTime64(3, 'UTC'),
    document String COMMENT 'canonical JSON' CODEC(ZSTD(3))
)
ENGINE = ReplacingMergeTree
ORDER BY (period, tenant, revision);

-- The copy of usage that each revision was rated from.
CREATE TABLE IF NOT EXISTS invoice_usage
(
    number String,
    tenant String,
    period LowCardinality(String),
    revision UInt32,
    hour DateTime('UTC') CODEC(Delta, ZSTD(1)),
    project String,
    model LowCardinality(String),
    profile LowCardinality(String),
    profile_slices UInt32,
    slices UInt32,
    bucket LowCardinality(String) COMMENT 'active, idle, unproven',
    slice_ms Int64 CODEC(T64, ZSTD(1)),
    energy_mj Int64 CODEC(T64, ZSTD(1))
)
ENGINE = ReplacingMergeTree
ORDER BY (period, tenant, revision, hour, project, model, profile, bucket);

-- What each tenant's months were invoiced for last.
CREATE OR REPLACE VIEW invoiced_usage AS
SELECT number, tenant, period, revision, hour, project, model, profile, profile_slices, slices, bucket, slice_ms, energy_mj
FROM invoice_usage FINAL
WHERE (period, tenant, revision) GLOBAL IN (SELECT period, tenant, max(revision) FROM invoices GROUP BY period, tenant);
