-- Derived by the analyzer, replaced whole per run of it; version is the run.
CREATE TABLE IF NOT EXISTS anomalies
(
    id String COMMENT 'hash of kind, cluster, gpu, leaf, owner or tenant, start',
    kind LowCardinality(String) COMMENT 'idle_allocation, off_hours_spike',
    cluster LowCardinality(String),
    tenant LowCardinality(String),
    project LowCardinality(String),
    workload String,
    node LowCardinality(String),
    gpu LowCardinality(String),
    leaf LowCardinality(String),
    start DateTime('UTC'),
    end DateTime('UTC'),
    wasted_gpu_hours Decimal(38, 9),
    wasted_cost Decimal(38, 9),
    currency LowCardinality(String),
    evidence String COMMENT 'why it was flagged, in words with its figures',
    version UInt64,
    deleted UInt8 COMMENT '1: no longer found by this version'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(start)
ORDER BY (start, id);
