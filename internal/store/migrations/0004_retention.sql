-- Raw that is dropped once all that rests on it is closed (R3).

ALTER TABLE batches MODIFY COLUMN status Enum8('stored' = 1, 'dead' = 2, 'hole' = 3, 'late' = 4);

-- A week of raw on its way out. Written before each step, so that a crash in
-- between is finished later; a week without a row has its raw.
CREATE TABLE IF NOT EXISTS raw_weeks
(
    week Date COMMENT 'its Monday: the partition of holds and samples',
    state UInt8 COMMENT '1 sealed: batches for it are late; 2 being dropped: its hours are never recomputed; 3 dropped',
    sealed_at DateTime64(3, 'UTC'),
    dropped_at DateTime64(3, 'UTC') COMMENT 'of state 3',
    gpu_hours UInt64 COMMENT 'rows of usage_hourly in the week',
    hold_rows UInt64,
    sample_rows UInt64,
    usage_sha256 String COMMENT 'of those rows of usage_hourly, hex: they stand for the raw from here on'
)
ENGINE = ReplacingMergeTree(state)
ORDER BY week;

-- Batches that came for hours whose raw is gone or about to go: whole, for a
-- manual adjustment.
CREATE TABLE IF NOT EXISTS late_unprocessed
(
    topic LowCardinality(String),
    partition UInt32,
    offset UInt64,
    reason LowCardinality(String),
    cluster LowCardinality(String),
    node LowCardinality(String),
    slot DateTime('UTC'),
    hash FixedString(32) COMMENT 'SHA-256 of the canonical batch, as in batches',
    body String COMMENT 'the message as it came, protobuf' CODEC(ZSTD(3)),
    ingested_at DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(ingested_at)
ORDER BY (topic, partition, offset);
