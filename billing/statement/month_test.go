package statement_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

const monthBook = `currency: USD
skus: {Small: {profile: 1g.10gb}, Large: {gpus: 1}}
versions:
- effective: 2026-01-01T00:00:00Z
  models:
    NVIDIA H100 80GB HBM3: {gpu_hour: "2.49", profiles: {1g.10gb: "0.40"}, tiers: [{above: "1000", gpu_hour: "2.20"}]}
    NVIDIA A100-SXM4-80GB: {gpu_hour: "1.49"}
    NVIDIA L4: {gpu_hour: "0.49"}
  kwh: "0.28"
  idle_surcharge: "0.10"
  distribution: proportional
  tenants:
    ml-train: {discount: "0.15", fixed_discount: "100.00", reserved: [{model: NVIDIA H100 80GB HBM3, gpus: "8", unused_gpu_hour: "1.80"}]}
    minimum-only: {minimum: "500.00"}
`

// month is a ledger of March on eighteen GPUs, and a little of the months before.
func month(t *testing.T) *store.DB {
	t.Helper()
	db := storetest.Open(t)
	var hours []usagetest.GPUHour
	for h := range 31 * 24 {
		at := march.Add(time.Duration(h) * time.Hour)
		for g := range 8 {
			hours = append(hours, trainHour(at, g))
		}
		for g := range 4 {
			hours = append(hours, inferenceHour(at, g))
		}
		for g := range 4 {
			hours = append(hours, sharedHour(at, g))
		}
		hours = append(hours, usagetest.GPUHour{Hour: at, GPU: "GPU-l4-0", Node: "n9", Model: "NVIDIA L4", Slices: 1})
	}
	for back := 1; back < 6; back++ {
		for h := range 200 - 30*back {
			hours = append(hours, trainHour(march.AddDate(0, -back, 0).Add(time.Duration(h)*time.Hour), 0))
		}
	}
	usagetest.Insert(t, db, hours...)
	for i := range 30 {
		insertEpisode(t, db, i)
	}
	return db
}

// trainHour works by day and idles by night, and more and more.
func trainHour(at time.Time, g int) usagetest.GPUHour {
	h := usagetest.GPUHour{Hour: at, GPU: fmt.Sprintf("GPU-4f1d2c3b-00%02d-4a5b-8c9d-0123456789ab", g), Node: "dgx-01", Model: "NVIDIA H100 80GB HBM3", Slices: 7}
	o := usagetest.Owner{Leaf: h.GPU, Tenant: "ml-train", Project: "llm", User: "ann", Workload: "pretrain-7b", EnergyMJ: 2_000_000_000}
	switch {
	case at.Weekday() == time.Sunday:
		return h
	case at.Hour() >= 7 && at.Hour() < 18:
		o.Active, o.Unproven = gpuMS-1_200_000, 1_200_000
	case g < 2+at.Day()/5:
		o.Idle, o.User, o.Workload = gpuMS, "bob", "notebook-with-a-rather-long-name-that-nobody-shut-down-after-work"
	default:
		return h
	}
	h.Owners = []usagetest.Owner{o}
	return h
}

func inferenceHour(at time.Time, g int) usagetest.GPUHour {
	h := usagetest.GPUHour{Hour: at, GPU: fmt.Sprintf("GPU-a100-%d", g), Node: "node-02", Model: "NVIDIA A100-SXM4-80GB", Slices: 7}
	if g == 3 && at.Day() > 12 && at.Day() < 20 {
		h.Unhealthy = gpuMS
		return h
	}
	h.Owners = []usagetest.Owner{{Leaf: h.GPU, Tenant: "inference", Project: "chat", Workload: "vllm", Active: gpuMS - 3_600_000, Idle: 3_600_000, EnergyMJ: 900_000_000}}
	return h
}

// sharedHour is cut in instances, of tenants of hostile names.
func sharedHour(at time.Time, g int) usagetest.GPUHour {
	h := usagetest.GPUHour{Hour: at, GPU: fmt.Sprintf("GPU-mig-%d", g), Node: "dgx-02", Model: "NVIDIA H100 80GB HBM3", Slices: 7, Stranded: 3_600_000}
	if at.Day() == 25 {
		h.Stranded, h.Unobserved = 0, gpuMS
		return h
	}
	for i, tenant := range []string{script, markup, turned, hebrew, "research", slash} {
		o := usagetest.Owner{Leaf: fmt.Sprintf("MIG-%d", i), Profile: "1g.10gb", ProfileSlices: 1, Tenant: tenant, Project: tenant, User: tenant, Workload: tenant}
		if (at.Hour()+i)%3 == 0 {
			o.Idle = 3_600_000
		} else {
			o.Active = 3_600_000
		}
		if i != at.Hour()%6 {
			h.Owners = append(h.Owners, o)
		}
	}
	return h
}

const insertEpisodeSQL = `INSERT INTO anomalies
(id, kind, cluster, tenant, project, workload, node, gpu, leaf, start, end, wasted_gpu_hours, wasted_cost, currency, evidence, version, deleted)
SELECT {id:String} AS id, 'idle_allocation' AS kind, 'c' AS cluster, {tenant:String} AS tenant, 'llm' AS project,
    'notebook-with-a-rather-long-name-that-nobody-shut-down-after-work' AS workload, 'dgx-01' AS node,
    'GPU-4f1d2c3b-0000-4a5b-8c9d-0123456789ab' AS gpu, 'GPU-4f1d2c3b-0000-4a5b-8c9d-0123456789ab' AS leaf,
    toDateTime({start:String}, 'UTC') AS start, toDateTime({end:String}, 'UTC') AS end, 13 AS wasted_gpu_hours, 32.37 AS wasted_cost,
    'USD' AS currency, 'idle for 13 h: GR_ENGINE_ACTIVE below 0.005 in all of 4,680 slots' AS evidence, 1 AS version, 0 AS deleted`

func insertEpisode(t *testing.T, db *store.DB, i int) {
	t.Helper()
	start := march.Add(time.Duration(24*i+18) * time.Hour)
	tenant := []string{"ml-train", "ml-train", script}[i%3]
	err := db.Exec(t.Context(), insertEpisodeSQL, store.Named("id", fmt.Sprint("e", i)), store.Named("tenant", tenant),
		store.Named("start", start.Format(time.DateTime)), store.Named("end", start.Add(13*time.Hour).Format(time.DateTime)))
	if err != nil {
		t.Fatal(err)
	}
}
