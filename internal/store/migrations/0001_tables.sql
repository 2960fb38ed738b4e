-- Every table and view, as package tables defines them.

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
    status Enum8('stored' = 1, 'dead' = 2, 'hole' = 3, 'late' = 4),
    reason String COMMENT 'why dead or hole',
    cluster LowCardinality(String),
    node LowCardinality(String),
    slot DateTime('UTC'),
    slot_ms UInt32,
    collector LowCardinality(String),
    boot_ms UInt64,
    seq UInt64,
    rev UInt64 COMMENT 'the highest of a node and slot counts',
    batch UInt64 COMMENT 'first 8 bytes of hash; 0 when not stored',
    hash FixedString(32) COMMENT 'SHA-256 of the canonical batch',
    seal FixedString(16) COMMENT 'first 16 bytes of the SHA-256 of the other columns and the batch''s rows in holds',
    attribution_ok UInt8,
    enumeration_complete UInt8,
    observed_ms UInt32,
    observed Array(UInt32) COMMENT 'from, to, from, to, … in ms of the slot; empty when all of it was seen',
    gpus Array(LowCardinality(String)) COMMENT 'the GPUs listed, lost ones too',
    hold_rows UInt32 COMMENT 'how many rows the batch has in holds',
    energy_mj Int64 COMMENT 'movement of the energy counters of its GPUs',
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
    slices UInt32 COMMENT 'of the GPU in this slot; of a pool milli-GPUs' CODEC(ZSTD(1)),
    kind UInt8 COMMENT 'meter.Kind: board, pool, pool of unknown capacity' CODEC(ZSTD(1)),
    leaf UInt64 COMMENT 'leaves.id; 0: the GPU itself' CODEC(ZSTD(1)),
    owner UInt64 COMMENT 'owners.id; 0: the platform' CODEC(ZSTD(1)),
    bucket Enum8('active' = 1, 'idle' = 2, 'unproven' = 3, 'free' = 4, 'stranded' = 5, 'unhealthy' = 6, 'unobserved' = 7, 'pending' = 8),
    why UInt8 COMMENT 'meter.Why, the reason of the bucket' CODEC(ZSTD(1)),
    slice_ms UInt64 CODEC(Delta, T64('bit'), ZSTD(1)),
    work UInt64 COMMENT 'activity times slice_ms, in 1e-4 slice-ms' CODEC(Delta, T64('bit'), ZSTD(1)),
    energy_mj Int64 CODEC(Delta, T64('bit'), ZSTD(1)),
    unattributed_mj Int64 COMMENT 'energy of no slot, on one row of the GPU' CODEC(ZSTD(1)),
    energy_why UInt8 COMMENT 'meter.EnergyWhy of the GPU in this slot' CODEC(ZSTD(1)),
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
    device LowCardinality(String) COMMENT 'leaf id; empty: the GPU',
    gpu_index UInt16 COMMENT 'DCGM''s index on the node' CODEC(ZSTD(1)),
    slot DateTime('UTC') CODEC(Delta, ZSTD(1)),
    rev UInt64 CODEC(ZSTD(1)),
    batch UInt64 COMMENT 'the batch that says so' CODEC(ZSTD(1)),
    idle_dw UInt16 COMMENT '0.1 W, the model''s idle power as the collector knew it; 0: unknown' CODEC(ZSTD(1)),
    present UInt32 COMMENT 'bit n: the n-th column below was read' CODEC(ZSTD(1)),
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
    id UInt64 COMMENT 'hash of the identity',
    leaf String,
    slices UInt32,
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

CREATE TABLE IF NOT EXISTS epochs
(
    epoch UInt32 COMMENT 'rules and mapping, counted up',
    rules UInt16,
    mapping String COMMENT 'SHA-256 of the tenant mapping, hex',
    tenants String COMMENT 'the mapping itself, YAML',
    effective DateTime('UTC') COMMENT 'hours from here on are republished',
    created_at DateTime64(3, 'UTC'),
    claim String COMMENT 'rules and mapping, as one text'
)
ENGINE = ReplacingMergeTree(created_at)
ORDER BY (epoch, claim);

CREATE TABLE IF NOT EXISTS sightings
(
    cluster LowCardinality(String),
    hour DateTime('UTC'),
    gpu LowCardinality(String),
    node LowCardinality(String),
    model LowCardinality(String),
    first_ms Int64 COMMENT 'Unix ms: start of the hour''s first slot that lists it',
    last_ms Int64 COMMENT 'Unix ms: end of the last one',
    run_from_ms Int64 COMMENT 'Unix ms: where the unbroken run that ends at last_ms began',
    slices_first UInt32,
    slices_last UInt32,
    kind_first UInt8 COMMENT 'meter.Kind, of slices_first',
    kind_last UInt8 COMMENT 'meter.Kind, of the last record',
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(hour)
ORDER BY (cluster, hour, gpu, node);

CREATE TABLE IF NOT EXISTS usage_hourly
(
    cluster LowCardinality(String),
    hour DateTime('UTC'),
    gpu LowCardinality(String),
    node LowCardinality(String) COMMENT 'the last one in the hour',
    model LowCardinality(String),
    slices UInt32 COMMENT 'capacity of the hour',
    gpu_slices UInt16 DEFAULT slices COMMENT 'slices of one GPU, what slice-ms are divided by: 1000 in a pool, else slices',
    unknown_capacity UInt8 COMMENT '1: a pool whose slices are only what was in use at most',
    present_ms UInt32 COMMENT 'the part of the hour inside the inventory and before the watermark',
    free UInt64 COMMENT 'slice-ms, like all buckets',
    stranded UInt64,
    unhealthy UInt64,
    unobserved UInt64,
    unobserved_attribution UInt64 COMMENT 'of unobserved: the owners could not be read',
    platform_energy_mj Int64,
    unattributed_mj Int64,
    leaf Array(LowCardinality(String)),
    profile Array(LowCardinality(String)),
    profile_slices Array(UInt16),
    owner Array(UInt64),
    tenant Array(LowCardinality(String)),
    project Array(LowCardinality(String)),
    user Array(LowCardinality(String)),
    workload Array(String),
    active Array(UInt64),
    idle Array(UInt64),
    unproven Array(UInt64),
    inferred Array(UInt64) COMMENT 'of unproven: inferred over a gap',
    work Array(UInt64),
    energy_mj Array(Int64),
    parked Array(UInt64) COMMENT 'of idle: with an open CUDA context',
    rest_owner Array(UInt16) COMMENT 'stretches without work: the position in owner, leaf, …',
    rest_from Array(UInt32) COMMENT 'ms of the hour',
    rest_ms Array(UInt32),
    rest_slice_ms Array(UInt64),
    rest_grade Array(UInt8) COMMENT 'meter.RestGrade: 1 unknown, 2 suspected, 3 proven',
    rest_released Array(UInt8) COMMENT '1: the next slot was observed, and the owner no longer held the leaf',
    until_ms UInt32 COMMENT 'the part of the hour before the watermark',
    hour_rows UInt32 COMMENT 'how many rows of its cluster and hour were published with it, itself included',
    epoch UInt32 COMMENT 'of rules and tenant mapping',
    inputs UInt64 COMMENT 'journal rows and retirements that the hour depends on',
    version UInt64,
    CONSTRAINT c6 CHECK toUInt64(slices) * present_ms = free + stranded + unhealthy + unobserved + arraySum(active) + arraySum(idle) + arraySum(unproven)
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(hour)
ORDER BY (cluster, hour, gpu);

CREATE TABLE IF NOT EXISTS retirements
(
    cluster LowCardinality(String),
    gpu String,
    at DateTime64(3, 'UTC') COMMENT 'the inventory closes at the start of the slot that this lies in',
    who String,
    reason String,
    recorded_at DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(recorded_at)
ORDER BY (cluster, gpu, at);

CREATE TABLE IF NOT EXISTS anomalies
(
    id String COMMENT 'hash of kind, grade, cluster, tenant, project, workload, user of a spike, place of grade none, start',
    kind LowCardinality(String) COMMENT 'idle_allocation, idle_pattern, off_hours_spike, unobserved, gpu_errors, work_without_owner, telemetry',
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
    user LowCardinality(String),
    cause LowCardinality(String) COMMENT 'of idle time: never_started, finished, parked, idle; of unobserved: silent, owners; of gpu_errors: fatal, device, application; of telemetry: contradictory, one_signal, missing',
    grade LowCardinality(String) COMMENT 'proven, suspected, none: of devices or telemetry, never a tenant''s',
    open UInt8 COMMENT '1: it goes on',
    severity LowCardinality(String) COMMENT 'info, low, medium, high, critical: by cost per day',
    alerted DateTime('UTC') COMMENT 'when the alert budget let it through; 1970-01-01: not',
    parent String COMMENT 'id of the pattern or outage that it belongs to',
    observed Float64 COMMENT 'GPU-hours: of a spike; of grade none, those that were lost',
    expected Float64 COMMENT 'of a spike: GPU-hours',
    score Float64 COMMENT 'of a spike: probability of so much or more in its rarest hour',
    gpus Array(String) COMMENT 'with leaves: the places it is about',
    leaves Array(String),
    facts String COMMENT 'JSON: rules, runs, hours, contributors, cost' CODEC(ZSTD(1)),
    version UInt64,
    deleted UInt8 COMMENT '1: no longer found by this version'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(start)
ORDER BY (start, id);

CREATE TABLE IF NOT EXISTS allocations
(
    cluster LowCardinality(String),
    source LowCardinality(String),
    start_ms Int64 COMMENT 'Unix ms',
    record String COMMENT 'what tells it from others of the same start: the job, else its facts',
    part UInt32 COMMENT 'its rows, such as one per node',
    end_ms Int64 COMMENT 'Unix ms',
    job String,
    tenant String,
    project String,
    user String,
    account String,
    node String,
    model LowCardinality(String),
    devices Array(String) COMMENT 'UUIDs, where the record names them',
    milli_gpus UInt32,
    sha256 FixedString(32) COMMENT 'of all of the above',
    revision UInt64 COMMENT 'boot_ms of the import run',
    deleted UInt8
)
ENGINE = ReplacingMergeTree(revision)
ORDER BY (cluster, source, start_ms, record, part);

CREATE TABLE IF NOT EXISTS allocation_hours
(
    cluster LowCardinality(String),
    source LowCardinality(String),
    node LowCardinality(String),
    hour DateTime('UTC'),
    sha256 FixedString(32) COMMENT 'of the batch, its boot and sequence left out',
    revision UInt64
)
ENGINE = ReplacingMergeTree(revision)
ORDER BY (cluster, source, node, hour);

CREATE TABLE IF NOT EXISTS decisions
(
    offset UInt64,
    kind LowCardinality(String) COMMENT 'such as price_book, invoice, note, approval; empty: not a record of this program',
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

CREATE VIEW IF NOT EXISTS slot_lengths AS
-- The one slot length of each cluster, ms: what was declared first counts.
SELECT cluster, argMin(c.slot_ms, (c.since, c.slot_ms)) AS slot_ms FROM clusters AS c GROUP BY cluster;

CREATE VIEW IF NOT EXISTS usage AS
-- A row per GPU, hour, leaf and owner; the platform's row has an empty tenant
-- and no leaf; energy that belongs to no slot is a row of tenant "(unattributed)".
SELECT
    cluster, hour, node, gpu, model, slices, gpu_slices, unknown_capacity,
    row.1 AS leaf, row.2 AS profile, row.3 AS profile_slices,
    row.4 AS tenant, row.5 AS project, row.6 AS user, row.7 AS workload,
    row.8 AS active_slice_ms, row.9 AS idle_slice_ms, row.10 AS unproven_slice_ms,
    row.11 AS free_slice_ms, row.12 AS stranded_slice_ms, row.13 AS unhealthy_slice_ms, row.14 AS unobserved_slice_ms,
    row.15 AS energy_mj, row.16 AS work, row.17 AS inferred_slice_ms, row.18 AS kind
FROM
(
    SELECT
        cluster, hour, node, gpu, model, slices, gpu_slices, unknown_capacity,
        arrayJoin(arrayConcat(
            arrayMap((l, p, ps, t, pr, u, w, a, i, n, e, wk, guess) ->
                (toString(l), toString(p), ps, toString(t), toString(pr), toString(u), w, a, i, n,
                 toUInt64(0), toUInt64(0), toUInt64(0), toUInt64(0), e, wk, guess, 'owner'),
                leaf, profile, profile_slices, tenant, project, user, workload, active, idle, unproven, energy_mj, work, inferred),
            [('', '', toUInt16(0), '', '', '', '', toUInt64(0), toUInt64(0), toUInt64(0),
              free, stranded, unhealthy, unobserved, platform_energy_mj, toUInt64(0), toUInt64(0), 'platform')],
            if(unattributed_mj = 0, [],
            [('', '', toUInt16(0), '(unattributed)', '', '', '', toUInt64(0), toUInt64(0), toUInt64(0),
              toUInt64(0), toUInt64(0), toUInt64(0), toUInt64(0), unattributed_mj, toUInt64(0), toUInt64(0), 'unattributed')])
        )) AS row
    FROM usage_hourly FINAL
);

CREATE VIEW IF NOT EXISTS usage_daily AS
-- The ledger by UTC day. gpu_slices is that of one GPU: GPU-hours are slice-ms by
-- gpu_slices × 3,600,000, to nine places, cut; a row of kind "platform" has no tenant, its time is free,
-- stranded, unhealthy or unobserved.
SELECT
    toDate(hour) AS day, cluster, model, slices, gpu_slices, profile, kind, tenant, project,
    sum(toUInt128(usage.active_slice_ms)) AS active_slice_ms, sum(toUInt128(usage.idle_slice_ms)) AS idle_slice_ms,
    sum(toUInt128(usage.unproven_slice_ms)) AS unproven_slice_ms, sum(toUInt128(usage.free_slice_ms)) AS free_slice_ms,
    sum(toUInt128(usage.stranded_slice_ms)) AS stranded_slice_ms, sum(toUInt128(usage.unhealthy_slice_ms)) AS unhealthy_slice_ms,
    sum(toUInt128(usage.unobserved_slice_ms)) AS unobserved_slice_ms,
    divideDecimal(toDecimal128(sum(toUInt128(usage.active_slice_ms) + usage.idle_slice_ms + usage.unproven_slice_ms + usage.free_slice_ms
                  + usage.stranded_slice_ms + usage.unhealthy_slice_ms + usage.unobserved_slice_ms), 0),
                  toDecimal128(toUInt64(gpu_slices) * 3600000, 0), 9) AS gpu_hours,
    divideDecimal(toDecimal128(sum(toInt128(usage.energy_mj)), 0), toDecimal128(1000, 0), 3) AS energy_joules
FROM usage
GROUP BY day, cluster, model, slices, gpu_slices, profile, kind, tenant, project;

CREATE VIEW IF NOT EXISTS samples_5m AS
-- Samples by five minutes, in base units: means, counts and XIDs as the largest
-- seen, energy as the sum; NULL where nothing was read. An empty device is the
-- board, which alone carries what is measured of the board.
SELECT
    cluster, node, gpu, device, toStartOfFiveMinutes(slot) AS at, count() AS slots,
    avgOrNullIf(sm_active / 10000, bitTest(present, 0)) AS sm_active_ratio,
    avgOrNullIf(gr_engine_active / 10000, bitTest(present, 1)) AS gr_engine_active_ratio,
    avgOrNullIf(tensor_active / 10000, bitTest(present, 2)) AS tensor_active_ratio,
    avgOrNullIf(dram_active / 10000, bitTest(present, 3)) AS dram_active_ratio,
    avgOrNullIf(gpu_util / 100, bitTest(present, 4)) AS gpu_util_ratio,
    avgOrNullIf(power_dw / 10, bitTest(present, 5)) AS power_watts,
    sumOrNullIf(energy_j, bitTest(present, 6)) AS energy_joules,
    avgOrNullIf(fb_used_mib * 1048576, bitTest(present, 7)) AS memory_used_bytes,
    avgOrNullIf(fb_free_mib * 1048576, bitTest(present, 8)) AS memory_free_bytes,
    avgOrNullIf(gpu_temp_c, bitTest(present, 9)) AS temperature_celsius,
    avgOrNullIf(memory_temp_c, bitTest(present, 10)) AS memory_temperature_celsius,
    avgOrNullIf(sm_clock_mhz * 1000000, bitTest(present, 11)) AS sm_clock_hertz,
    avgOrNullIf(mem_clock_mhz * 1000000, bitTest(present, 12)) AS memory_clock_hertz,
    avgOrNullIf(pcie_tx_kib * 1024, bitTest(present, 13)) AS pcie_transmit_bytes_per_second,
    avgOrNullIf(pcie_rx_kib * 1024, bitTest(present, 14)) AS pcie_receive_bytes_per_second,
    avgOrNullIf(nvlink_kib * 1024, bitTest(present, 15)) AS nvlink_bytes_per_second,
    maxOrNullIf(ecc_sbe, bitTest(present, 16)) AS ecc_single_bit_errors,
    maxOrNullIf(ecc_dbe, bitTest(present, 17)) AS ecc_double_bit_errors,
    maxOrNullIf(xid, bitTest(present, 18)) AS xid_code
FROM samples FINAL
GROUP BY cluster, node, gpu, device, at;

CREATE VIEW IF NOT EXISTS invoiced_usage AS
-- What each tenant's months were invoiced for last.
SELECT number, tenant, period, revision, hour, project, model, profile, profile_slices, slices, bucket, slice_ms, energy_mj
FROM invoice_usage FINAL
WHERE (period, tenant, revision) GLOBAL IN (SELECT period, tenant, max(revision) FROM invoices GROUP BY period, tenant);
