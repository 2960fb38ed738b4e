-- What each tenant's months were invoiced for last.
SELECT number, tenant, period, revision, hour, project, model, profile, profile_slices, slices, bucket, slice_ms, energy_mj
FROM invoice_usage FINAL
WHERE (period, tenant, revision) GLOBAL IN (SELECT period, tenant, max(revision) FROM invoices GROUP BY period, tenant)
