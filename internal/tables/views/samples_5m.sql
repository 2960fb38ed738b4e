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
GROUP BY cluster, node, gpu, device, at
