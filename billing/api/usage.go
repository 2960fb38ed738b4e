package api

import (
	"context"

	"github.com/gputally/gputally/internal/usage"
)

// RangeInput is a range of whole UTC hours.
type RangeInput struct {
	From string `query:"from" required:"true" pattern:"^(19[7-9][0-9]|20[0-9][0-9]|210[0-5])-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2}))?$" doc:"First hour: an RFC 3339 time at the start of a UTC hour, or a date" example:"2026-10-01"`
	To   string `query:"to" required:"true" pattern:"^(19[7-9][0-9]|20[0-9][0-9]|210[0-5])-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2}))?$" doc:"Hour or date after the last one; at most 400 days after from" example:"2026-11-01"`
}

type usageInput struct {
	Paged
	RangeInput
	By       []string `query:"by" default:"tenant" maxItems:"13" uniqueItems:"true" enum:"tenant,project,user,workload,node,gpu,leaf,model,profile,hour,day,month,kind" doc:"Columns to group by, separated by commas. kind is owner, platform or unattributed (energy of no slot)" example:"tenant,day"`
	Tenant   string   `query:"tenant" maxLength:"500" doc:"Only usage of this tenant" example:"ml-train"`
	Project  string   `query:"project" maxLength:"500" doc:"Only this project"`
	User     string   `query:"user" maxLength:"500" doc:"Only this user"`
	Workload string   `query:"workload" maxLength:"500" doc:"Only this workload"`
	Node     string   `query:"node" maxLength:"500" doc:"Only this node"`
	GPU      string   `query:"gpu" maxLength:"500" doc:"Only this GPU, by its id"`
	Model    string   `query:"model" maxLength:"500" doc:"Only GPUs of this model"`
	Profile  string   `query:"profile" maxLength:"500" doc:"Only instances of this MIG profile" example:"1g.10gb"`
	Kind     string   `query:"kind" enum:"owner,platform,unattributed" doc:"Only this kind"`
	Limit    int      `query:"limit" default:"1000" minimum:"1" maximum:"10000" doc:"Maximum number of rows on a page"`
}

func (in *usageInput) only() map[string]string {
	only := map[string]string{}
	for column, value := range map[string]string{
		"project": in.Project, "user": in.User, "workload": in.Workload, "node": in.Node, "gpu": in.GPU,
		"model": in.Model, "profile": in.Profile, "kind": in.Kind,
	} {
		if value != "" {
			only[column] = value
		}
	}
	return only
}

type usageBody struct {
	From string     `json:"from" format:"date-time"`
	To   string     `json:"to" format:"date-time"`
	By   []string   `json:"by" nullable:"false"`
	Rows []usageRow `json:"rows" nullable:"false"`
	Next string     `json:"next,omitempty" doc:"Cursor of the next page; absent on the last page"`
}

// usageRow has integers as strings: slice-milliseconds exceed the range of exact JavaScript numbers.
type usageRow struct {
	Group             map[string]string `json:"group" doc:"Value of each column in by; the platform's tenant is empty"`
	Kind              string            `json:"kind,omitempty" enum:"owner,platform,unattributed" doc:"If rows are grouped by tenant: whose usage it is, because a tenant may have any name"`
	ActiveSliceMS     string            `json:"active_slice_ms"`
	IdleSliceMS       string            `json:"idle_slice_ms"`
	UnprovenSliceMS   string            `json:"unproven_slice_ms"`
	FreeSliceMS       string            `json:"free_slice_ms"`
	StrandedSliceMS   string            `json:"stranded_slice_ms"`
	UnhealthySliceMS  string            `json:"unhealthy_slice_ms"`
	UnobservedSliceMS string            `json:"unobserved_slice_ms"`
	GPUHours          string            `json:"gpu_hours" doc:"Decimal with at most 9 places"`
	EnergyJoules      string            `json:"energy_joules" doc:"Decimal with 3 places"`
}

func (a *api) queryUsage(ctx context.Context, in *usageInput) (*list[usageBody], error) {
	from, to, err := span(in.From, in.To)
	if err != nil {
		return nil, err
	}
	q := usage.Query{By: in.By, From: from, To: to, Tenant: in.Tenant, Only: in.only(), Limit: in.Limit}
	var after *usage.Row
	if in.after != nil {
		if len(in.after) != len(in.By)+1 {
			return nil, in.foreign()
		}
		after = &usage.Row{By: in.after[1:], Kind: in.after[0]}
	}
	rows, more, err := usage.Page(ctx, a.deps.DB, q, after)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	body := usageBody{From: rfc3339(from), To: rfc3339(to), By: in.By, Rows: make([]usageRow, 0, len(rows))}
	for _, row := range rows {
		body.Rows = append(body.Rows, newUsageRow(in.By, row))
	}
	out := &list[usageBody]{Body: body}
	if last := len(rows) - 1; more && last >= 0 {
		out.Body.Next = in.cursor(append([]string{rows[last].Kind}, rows[last].By...))
		out.Link = in.link(out.Body.Next)
	}
	return out, nil
}

func newUsageRow(by []string, row usage.Row) usageRow {
	group := make(map[string]string, len(by))
	for i, name := range by {
		group[name] = row.By[i]
	}
	ms := row.Buckets
	return usageRow{
		Group: group, Kind: row.Kind, ActiveSliceMS: ms[0].String(), IdleSliceMS: ms[1].String(),
		UnprovenSliceMS: ms[2].String(),
		FreeSliceMS:     ms[3].String(), StrandedSliceMS: ms[4].String(), UnhealthySliceMS: ms[5].String(),
		UnobservedSliceMS: ms[6].String(), GPUHours: row.GPUHours, EnergyJoules: row.EnergyJoules(),
	}
}
