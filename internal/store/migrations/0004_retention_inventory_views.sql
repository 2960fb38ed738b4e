-- Raw that is dropped once all that rests on it is closed (R3), GPUs that are
-- retired early (R2), and views for dashboards.

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

-- GPUs that people took out of the inventory before it would have closed by
-- itself (R2). Nothing is ever taken back: a GPU that is listed again opens again.
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

-- The ledger by UTC day. slices is that of the GPUs: GPU-hours are slice-ms by
-- slices × 3,600,000, to nine places, cut; a row of kind "platform" has no tenant, its time is free,
-- stranded, unhealthy or unobserved.
CREATE VIEW IF NOT EXISTS usage_daily AS
SELECT
    toDate(hour) AS day, cluster, model, slices, profile, kind, tenant, project,
    sum(active_slice_ms) AS active_slice_ms, sum(idle_slice_ms) AS idle_slice_ms, sum(unproven_slice_ms) AS unproven_slice_ms,
    sum(free_slice_ms) AS free_slice_ms, sum(stranded_slice_ms) AS stranded_slice_ms,
    sum(unhealthy_slice_ms) AS unhealthy_slice_ms, sum(unobserved_slice_ms) AS unobserved_slice_ms,
    divideDecimal(toDecimal128(sum(usage.active_slice_ms + usage.idle_slice_ms + usage.unproven_slice_ms + usage.free_slice_ms
                  + usage.stranded_slice_ms + usage.unhealthy_slice_ms + usage.unobserved_slice_ms), 0),
                  toDecimal128(toUInt64(slices) * 3600000, 0), 9) AS gpu_hours,
    divideDecimal(toDecimal128(sum(usage.energy_mj), 0), toDecimal128(1000, 0), 3) AS energy_joules
FROM usage
GROUP BY day, cluster, model, slices, profile, kind, tenant, project;

-- Samples by five minutes, in base units: means, counts and XIDs as the largest
-- seen, energy as the sum; NULL where nothing was read. An empty device is the
-- board, which alone carries what is measured of the board.
CREATE VIEW IF NOT EXISTS samples_5m AS
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
