-- Two services may start the same epoch at once. Both of their rows stay, so
-- that every reader sees that it was contested, and takes the same one.
ALTER TABLE epochs ADD COLUMN IF NOT EXISTS claim String COMMENT 'rules and mapping, as one text; empty: from before there was this column', MODIFY ORDER BY (epoch, claim);
