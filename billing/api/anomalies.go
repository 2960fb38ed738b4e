package api

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuledger/gpuledger/internal/store"
)

// anomaliesSQL: episodes that overlap a range; decimals as text, so that
// nothing passes through a float. Parameters: from, to, kind and tenant (empty:
// any), rows.
const anomaliesSQL = `
SELECT id, toString(kind), toString(cluster), toString(tenant), toString(project), workload, toString(node), toString(gpu),
    toString(leaf), start, end, toString(wasted_gpu_hours), toString(wasted_cost), toString(currency), evidence
FROM anomalies FINAL
WHERE deleted = 0 AND start < {to:DateTime('UTC')} AND end > {from:DateTime('UTC')}
    AND ({kind:String} = '' OR kind = {kind:String}) AND ({tenant:String} = '' OR tenant = {tenant:String})
ORDER BY start, id
LIMIT {rows:UInt64}`

type anomaliesInput struct {
	From   string `query:"from" required:"true" doc:"First UTC hour, or day" example:"2026-10-01"`
	To     string `query:"to" required:"true" doc:"UTC hour or day after the last" example:"2026-11-01"`
	Kind   string `query:"kind" enum:"idle_allocation,off_hours_spike" doc:"Only this kind"`
	Tenant string `query:"tenant" doc:"Only this tenant's"`
	Limit  int    `query:"limit" default:"1000" minimum:"1" maximum:"10000" doc:"More episodes than this are an error"`
}

type anomaliesOutput struct{ Body anomaliesBody }

type anomaliesBody struct {
	From      string    `json:"from"`
	To        string    `json:"to"`
	Anomalies []anomaly `json:"anomalies"`
}

type anomaly struct {
	ID             string `json:"id"`
	Kind           string `json:"kind"`
	Cluster        string `json:"cluster"`
	Tenant         string `json:"tenant"`
	Project        string `json:"project"`
	Workload       string `json:"workload"`
	Node           string `json:"node"`
	GPU            string `json:"gpu"`
	Leaf           string `json:"leaf"`
	Start          string `json:"start"`
	End            string `json:"end"`
	WastedGPUHours string `json:"wasted_gpu_hours"`
	WastedCost     string `json:"wasted_cost" doc:"At list price; 0 where the currency is empty, for then no price is known"`
	Currency       string `json:"currency"`
	Evidence       string `json:"evidence"`
}

func (a *api) listAnomalies(ctx context.Context, in *anomaliesInput) (*anomaliesOutput, error) {
	from, to, err := span(in.From, in.To)
	if err != nil {
		return nil, err
	}
	found, err := a.readAnomalies(ctx, in, from, to)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	if len(found) > in.Limit {
		return nil, invalid("query.limit", in.Limit, fmt.Sprintf("more than %d episodes; ask for a shorter range or one tenant", in.Limit))
	}
	return &anomaliesOutput{anomaliesBody{From: rfc3339(from), To: rfc3339(to), Anomalies: found}}, nil
}

func (a *api) readAnomalies(ctx context.Context, in *anomaliesInput, from, to time.Time) ([]anomaly, error) {
	rows, err := a.deps.DB.Query(ctx, anomaliesSQL, store.Named("from", from.Format(time.DateTime)), store.Named("to", to.Format(time.DateTime)),
		store.Named("kind", in.Kind), store.Named("tenant", in.Tenant), store.Named("rows", in.Limit+1))
	if err != nil {
		return nil, fmt.Errorf("query anomalies: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err has told what matters
	found := []anomaly{}
	for rows.Next() {
		var n anomaly
		var start, end time.Time
		if err := rows.Scan(&n.ID, &n.Kind, &n.Cluster, &n.Tenant, &n.Project, &n.Workload, &n.Node, &n.GPU, &n.Leaf,
			&start, &end, &n.WastedGPUHours, &n.WastedCost, &n.Currency, &n.Evidence); err != nil {
			return nil, fmt.Errorf("read anomalies: %w", err)
		}
		n.Start, n.End = rfc3339(start), rfc3339(end)
		found = append(found, n)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read anomalies: %w", err)
	}
	return found, nil
}

func rfc3339(at time.Time) string { return at.UTC().Format(time.RFC3339) }
