-- The ledger. One row is one GPU in one UTC hour, replaced whole (R5).

CREATE TABLE IF NOT EXISTS epochs
(
    epoch UInt32 COMMENT 'rules and mapping, counted up',
    rules UInt16,
    mapping String COMMENT 'SHA-256 of the tenant mapping, hex',
    tenants String COMMENT 'the mapping itself, YAML',
    effective DateTime('UTC') COMMENT 'hours from here on are republished',
    created_at DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(created_at)
ORDER BY epoch;

-- Where and when a GPU was listed: what the inventory is derived from (R2, R14).
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
    slices_first UInt16,
    slices_last UInt16,
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
    slices UInt16 COMMENT 'capacity of the hour',
    present_ms UInt32 COMMENT 'the part of the hour inside the inventory and before the watermark',
    until_ms UInt32 COMMENT 'the part of the hour before the watermark',
    epoch UInt32,
    inputs UInt64 COMMENT 'journal rows the hour depends on',
    version UInt64,
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
    inferred Array(UInt64) COMMENT 'of unproven: inferred over a gap (R10)',
    work Array(UInt64),
    energy_mj Array(Int64),
    CONSTRAINT c6 CHECK toUInt64(slices) * present_ms = free + stranded + unhealthy + unobserved + arraySum(active) + arraySum(idle) + arraySum(unproven)
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(hour)
ORDER BY (cluster, hour, gpu);

-- A row per GPU, hour, leaf and owner; the platform's row has an empty tenant
-- and no leaf; energy that belongs to no slot is a row of tenant "(unattributed)".
CREATE VIEW IF NOT EXISTS usage AS
SELECT
    cluster, hour, node, gpu, model, slices,
    row.1 AS leaf, row.2 AS profile, row.3 AS profile_slices,
    row.4 AS tenant, row.5 AS project, row.6 AS user, row.7 AS workload,
    row.8 AS active_slice_ms, row.9 AS idle_slice_ms, row.10 AS unproven_slice_ms,
    row.11 AS free_slice_ms, row.12 AS stranded_slice_ms, row.13 AS unhealthy_slice_ms, row.14 AS unobserved_slice_ms,
    row.15 AS energy_mj, row.16 AS work, row.17 AS inferred_slice_ms, row.18 AS kind
FROM
(
    SELECT
        cluster, hour, node, gpu, model, slices,
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
