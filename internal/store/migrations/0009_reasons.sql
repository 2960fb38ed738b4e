-- Why energy was split as it was, and what idle power decided; which batch a sample
-- is of: of two batches with equal rev the table keeps one's samples.

ALTER TABLE holds ADD COLUMN IF NOT EXISTS energy_why UInt8 COMMENT 'meter.EnergyWhy of the GPU in this slot' CODEC(ZSTD(1)) AFTER unattributed_mj;

ALTER TABLE holds MODIFY COLUMN why UInt8 COMMENT 'meter.Why, the reason of the bucket' CODEC(ZSTD(1));

ALTER TABLE samples ADD COLUMN IF NOT EXISTS batch UInt64 COMMENT 'the batch that says so' CODEC(ZSTD(1)) AFTER rev;

ALTER TABLE samples ADD COLUMN IF NOT EXISTS idle_dw UInt16 COMMENT '0.1 W, the model''s idle power as the collector knew it; 0: unknown' CODEC(ZSTD(1)) AFTER power_dw;

ALTER TABLE samples ADD COLUMN IF NOT EXISTS gpu_index UInt16 COMMENT 'DCGM''s index on the node' CODEC(ZSTD(1)) AFTER device;
