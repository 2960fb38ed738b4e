SELECT count() AS batches, sum(promised) AS all_promised, sum(found) AS all_found, countIf(promised != found) AS wrong,
       anyIf(concat('batch ', leftPad(lower(hex(batch)), 16, '0'), ' of node ', node, ', slot ', toString(slot),
         ' has ', toString(found), ' of ', toString(promised), ' rows'), promised != found) AS example,
       countIf(energy != booked) AS energy_wrong
FROM
(
    SELECT batch, any(node) AS node, any(slot) AS slot, any(hold_rows) AS promised, any(energy_mj) AS energy
    FROM batches AS b FINAL WHERE status = 'stored'
      AND toString(toMonday(b.slot)) NOT IN {dropped:Array(String)} GROUP BY batch
) AS journal
LEFT JOIN
(
    SELECT batch, count() AS found, sum(toInt128(energy_mj) + unattributed_mj) AS booked
    FROM holds FINAL WHERE toString(toMonday(slot)) NOT IN {dropped:Array(String)} GROUP BY batch
) AS raw USING (batch)
