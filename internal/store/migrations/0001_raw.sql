-- Raw facts, settled per slot. Statements end with a semicolon at a line's end.

CREATE TABLE IF NOT EXISTS clusters
(
    cluster LowCardinality(String),
    slot_ms UInt32 COMMENT 'the one slot length of the cluster',
    since DateTime('UTC') COMMENT 'start of the slot that declared it',
    simulated UInt8 DEFAULT 0
)
ENGINE = ReplacingMergeTree
ORDER BY (cluster, since, slot_ms);

CREATE TABLE IF NOT EXISTS batches
(
    topic LowCardinality(String),
    partition UInt32,
    offset UInt64,
    status Enum8('stored' = 1, 'dead' = 2, 'hole' = 3),
    reason String COMMENT 'why dead or hole',
    cluster LowCardinality(String),
    node LowCardinality(String),
    slot DateTime('UTC'),
    slot_ms UInt32,
    collector LowCardinality(String),
    boot_ms UInt64,
    seq UInt64,
    rev UInt64 COMMENT 'R1: the highest wins',
    batch UInt64 COMMENT 'first 8 bytes of hash; 0 when not stored',
    hash FixedString(32) COMMENT 'SHA-256 of the canonical batch',
    attribution_ok UInt8,
    enumeration_complete UInt8,
    observed_ms UInt32,
    observed Array(UInt32) COMMENT 'from, to, from, to, … in ms of the slot; empty when all of it was seen',
    gpus Array(LowCardinality(String)) COMMENT 'the GPUs listed, lost ones too',
    hold_rows UInt32 COMMENT 'rows promised in holds (C3)',
    energy_mj Int64 COMMENT 'movement of the energy counters of its GPUs (C9)',
    origin Enum8('live' = 1, 'simulated' = 2, 'replay' = 3, 'import' = 4),
    counted UInt8 COMMENT '1 when the batch carries running counters',
    sampled UInt64,
    spooled UInt64,
    dropped UInt64,
    spool_dropped UInt64,
    prev_boot_ms UInt64,
    prev_seq UInt64,
    gap_boot Array(UInt64) COMMENT 'announced gaps: the boot, and the sequence numbers from, to',
    gap_from Array(UInt64),
    gap_to Array(UInt64),
    unknown_fields UInt32,
    appended_at DateTime64(3, 'UTC') COMMENT 'the broker''s append time',
    ingested_at DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(ingested_at)
PARTITION BY toMonday(slot)
ORDER BY (cluster, toStartOfHour(slot), node, slot, topic, partition, offset);

CREATE TABLE IF NOT EXISTS holds
(
    cluster LowCardinality(String),
    node LowCardinality(String),
    gpu LowCardinality(String),
    slot DateTime('UTC') CODEC(Delta, ZSTD(1)),
    slot_ms UInt32 CODEC(ZSTD(1)),
    batch UInt64 COMMENT 'the batch that says so' CODEC(ZSTD(1)),
    model LowCardinality(String),
    slices UInt16 COMMENT 'of the GPU in this slot' CODEC(ZSTD(1)),
    leaf UInt64 COMMENT 'leaves.id; 0: the GPU itself' CODEC(ZSTD(1)),
    owner UInt64 COMMENT 'owners.id; 0: the platform' CODEC(ZSTD(1)),
    bucket Enum8('active' = 1, 'idle' = 2, 'unproven' = 3, 'free' = 4, 'stranded' = 5, 'unhealthy' = 6, 'unobserved' = 7, 'pending' = 8),
    why UInt8 COMMENT 'meter.Why: lost, flagged, attribution, excess, inferred' CODEC(ZSTD(1)),
    slice_ms UInt64 CODEC(Delta, T64('bit'), ZSTD(1)),
    work UInt64 COMMENT 'activity times slice_ms, in 1e-4 slice-ms' CODEC(Delta, T64('bit'), ZSTD(1)),
    energy_mj Int64 CODEC(Delta, T64('bit'), ZSTD(1)),
    unattributed_mj Int64 COMMENT 'energy of no slot (R16), on one row of the GPU' CODEC(ZSTD(1)),
    head UInt32 COMMENT 'share at the slot''s first seen instant, numerator << 16 | denominator; 0: none' CODEC(ZSTD(1)),
    tail UInt32 COMMENT 'share at its last seen instant' CODEC(ZSTD(1)),
    rules UInt16 COMMENT 'version of the settlement rules' CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toMonday(slot)
ORDER BY (cluster, toStartOfHour(slot), node, gpu, slot, leaf, owner, bucket, why, head, batch);

CREATE TABLE IF NOT EXISTS samples
(
    cluster LowCardinality(String),
    node LowCardinality(String),
    gpu LowCardinality(String),
    device LowCardinality(String) COMMENT 'leaf id; empty: the board',
    slot DateTime('UTC') CODEC(Delta, ZSTD(1)),
    rev UInt64 CODEC(ZSTD(1)),
    present UInt32 COMMENT 'bit n: the n-th metric column below was read' CODEC(ZSTD(1)),
    sm_active UInt16 COMMENT '1e-4' CODEC(Delta, T64('bit'), ZSTD(1)),
    gr_engine_active UInt16 COMMENT '1e-4' CODEC(Delta, T64('bit'), ZSTD(1)),
    tensor_active UInt16 COMMENT '1e-4' CODEC(Delta, T64('bit'), ZSTD(1)),
    dram_active UInt16 COMMENT '1e-4' CODEC(Delta, T64('bit'), ZSTD(1)),
    gpu_util UInt8 COMMENT 'percent' CODEC(Delta, ZSTD(1)),
    power_dw UInt16 COMMENT '0.1 W' CODEC(Delta, T64('bit'), ZSTD(1)),
    energy_j UInt32 COMMENT 'movement in the slot' CODEC(Delta, T64('bit'), ZSTD(1)),
    fb_used_mib UInt32 CODEC(ZSTD(1)),
    fb_free_mib UInt32 CODEC(ZSTD(1)),
    gpu_temp_c UInt8 CODEC(Delta, ZSTD(1)),
    memory_temp_c UInt8 CODEC(Delta, ZSTD(1)),
    sm_clock_mhz UInt16 CODEC(ZSTD(1)),
    mem_clock_mhz UInt16 CODEC(ZSTD(1)),
    pcie_tx_kib UInt32 COMMENT 'KiB/s' CODEC(Delta, T64('bit'), ZSTD(1)),
    pcie_rx_kib UInt32 COMMENT 'KiB/s' CODEC(Delta, T64('bit'), ZSTD(1)),
    nvlink_kib UInt32 COMMENT 'KiB/s' CODEC(Delta, T64('bit'), ZSTD(1)),
    ecc_sbe UInt32 CODEC(ZSTD(1)),
    ecc_dbe UInt32 CODEC(ZSTD(1)),
    xid UInt32 CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree(rev)
PARTITION BY toMonday(slot)
ORDER BY (cluster, toStartOfHour(slot), node, gpu, device, slot);

CREATE TABLE IF NOT EXISTS leaves
(
    id UInt64 COMMENT 'hash of the identity (R10)',
    leaf String,
    slices UInt16,
    profile LowCardinality(String),
    gi Int32 COMMENT '-1: none',
    ci Int32 COMMENT '-1: none',
    mig_uuid String
)
ENGINE = ReplacingMergeTree
ORDER BY id;

CREATE TABLE IF NOT EXISTS owners
(
    id UInt64 COMMENT 'hash of the facts',
    owner String COMMENT 'the pod''s UID, the job, or the facts as key-sorted JSON',
    tenant String,
    project String,
    namespace String,
    pod String,
    uid String,
    job String,
    user String,
    account String
)
ENGINE = ReplacingMergeTree
ORDER BY id;

CREATE TABLE IF NOT EXISTS events
(
    cluster LowCardinality(String),
    node LowCardinality(String),
    gpu LowCardinality(String),
    leaf LowCardinality(String),
    at DateTime64(3, 'UTC'),
    kind LowCardinality(String),
    code Int64,
    detail String,
    batch UInt64
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(at)
ORDER BY (cluster, at, node, gpu, leaf, kind, code, batch);
