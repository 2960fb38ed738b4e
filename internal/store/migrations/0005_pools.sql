-- Pools (R18): an inventory entry of many GPUs, in milli-GPUs, which outgrow 16
-- bits; and the allocation records that imports are made of.

ALTER TABLE holds MODIFY COLUMN slices UInt32 COMMENT 'of the GPU in this slot; of a pool milli-GPUs' CODEC(ZSTD(1));

ALTER TABLE holds ADD COLUMN IF NOT EXISTS kind UInt8 COMMENT 'meter.Kind: board, pool, pool of unknown capacity' CODEC(ZSTD(1)) AFTER slices;

ALTER TABLE leaves MODIFY COLUMN slices UInt32;

ALTER TABLE sightings MODIFY COLUMN slices_first UInt32;

ALTER TABLE sightings MODIFY COLUMN slices_last UInt32;

ALTER TABLE sightings ADD COLUMN IF NOT EXISTS kind_first UInt8 COMMENT 'meter.Kind, of slices_first' AFTER slices_last;

ALTER TABLE sightings ADD COLUMN IF NOT EXISTS kind_last UInt8 COMMENT 'meter.Kind, of the last record' AFTER kind_first;

ALTER TABLE usage_hourly MODIFY COLUMN slices UInt32 COMMENT 'capacity of the hour';

ALTER TABLE usage_hourly ADD COLUMN IF NOT EXISTS gpu_slices UInt16 DEFAULT slices COMMENT 'slices of one GPU, what slice-ms are divided by: 1000 in a pool, else slices' AFTER slices;

ALTER TABLE usage_hourly ADD COLUMN IF NOT EXISTS unknown_capacity UInt8 COMMENT '1: a pool whose slices are only what was in use at most' AFTER gpu_slices;

-- A row per GPU, hour, leaf and owner; the platform's row has an empty tenant
-- and no leaf; energy that belongs to no slot is a row of tenant "(unattributed)".
CREATE OR REPLACE VIEW usage AS
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

-- Every allocation record as it was imported last. A record is replaced and
-- deleted with all its parts.
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

-- What imports said last of each node and hour, so that what stays the same is
-- not sent again.
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

-- The ledger by UTC day. gpu_slices is that of one GPU: GPU-hours are slice-ms by
-- gpu_slices × 3,600,000, to nine places, cut; a row of kind "platform" has no tenant, its time is free,
-- stranded, unhealthy or unobserved.
CREATE OR REPLACE VIEW usage_daily AS
SELECT
    toDate(hour) AS day, cluster, model, slices, gpu_slices, profile, kind, tenant, project,
    sum(active_slice_ms) AS active_slice_ms, sum(idle_slice_ms) AS idle_slice_ms, sum(unproven_slice_ms) AS unproven_slice_ms,
    sum(free_slice_ms) AS free_slice_ms, sum(stranded_slice_ms) AS stranded_slice_ms,
    sum(unhealthy_slice_ms) AS unhealthy_slice_ms, sum(unobserved_slice_ms) AS unobserved_slice_ms,
    divideDecimal(toDecimal128(sum(usage.active_slice_ms + usage.idle_slice_ms + usage.unproven_slice_ms + usage.free_slice_ms
                  + usage.stranded_slice_ms + usage.unhealthy_slice_ms + usage.unobserved_slice_ms), 0),
                  toDecimal128(toUInt64(gpu_slices) * 3600000, 0), 9) AS gpu_hours,
    divideDecimal(toDecimal128(sum(usage.energy_mj), 0), toDecimal128(1000, 0), 3) AS energy_joules
FROM usage
GROUP BY day, cluster, model, slices, gpu_slices, profile, kind, tenant, project;
