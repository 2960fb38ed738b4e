package api

import (
	"context"
	"strconv"

	"github.com/gpuledger/gpuledger/internal/usage"
)

type usageInput struct {
	From   string `query:"from" required:"true" doc:"First UTC hour, or day" example:"2026-10-01"`
	To     string `query:"to" required:"true" doc:"UTC hour or day after the last" example:"2026-11-01"`
	By     string `query:"by" default:"tenant" doc:"Columns to group by, with commas: tenant, project, user, workload, node, gpu, leaf, model, profile, hour, day, month, kind (owner, platform, unattributed)"`
	Tenant string `query:"tenant" doc:"Only this tenant's usage"`
	Limit  int    `query:"limit" default:"10000" minimum:"1" maximum:"100000" doc:"More rows than this are an error"`
}

type usageOutput struct{ Body usageBody }

type usageBody struct {
	From string     `json:"from"`
	To   string     `json:"to"`
	By   []string   `json:"by"`
	Rows []usageRow `json:"rows"`
}

// usageRow has integers as strings: slice-milliseconds go beyond what a
// JavaScript number holds.
type usageRow struct {
	Group             map[string]string `json:"group" doc:"Value of each column of by; the platform's tenant is empty"`
	ActiveSliceMS     string            `json:"active_slice_ms"`
	IdleSliceMS       string            `json:"idle_slice_ms"`
	UnprovenSliceMS   string            `json:"unproven_slice_ms"`
	FreeSliceMS       string            `json:"free_slice_ms"`
	StrandedSliceMS   string            `json:"stranded_slice_ms"`
	UnhealthySliceMS  string            `json:"unhealthy_slice_ms"`
	UnobservedSliceMS string            `json:"unobserved_slice_ms"`
	GPUHours          string            `json:"gpu_hours"`
	EnergyJoules      string            `json:"energy_joules"`
}

func (a *api) queryUsage(ctx context.Context, in *usageInput) (*usageOutput, error) {
	from, to, err := span(in.From, in.To)
	if err != nil {
		return nil, err
	}
	by, err := usage.ParseBy(in.By)
	if err != nil {
		return nil, invalid("query.by", in.By, err.Error())
	}
	rows, err := usage.Run(ctx, a.deps.DB, usage.Query{By: by, From: from, To: to, Tenant: in.Tenant, Limit: in.Limit})
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	body := usageBody{From: rfc3339(from), To: rfc3339(to), By: by, Rows: make([]usageRow, 0, len(rows))}
	for _, row := range rows {
		body.Rows = append(body.Rows, newUsageRow(by, row))
	}
	return &usageOutput{body}, nil
}

func newUsageRow(by []string, row usage.Row) usageRow {
	group := make(map[string]string, len(by))
	for i, name := range by {
		group[name] = row.By[i]
	}
	text := func(sliceMS uint64) string { return strconv.FormatUint(sliceMS, 10) }
	return usageRow{
		Group: group, ActiveSliceMS: text(row.ActiveSliceMS), IdleSliceMS: text(row.IdleSliceMS),
		UnprovenSliceMS: text(row.UnprovenSliceMS), FreeSliceMS: text(row.FreeSliceMS),
		StrandedSliceMS: text(row.StrandedSliceMS), UnhealthySliceMS: text(row.UnhealthySliceMS),
		UnobservedSliceMS: text(row.UnobservedSliceMS), GPUHours: row.GPUHours, EnergyJoules: row.EnergyJoules(),
	}
}
