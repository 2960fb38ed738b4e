package api

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/store"
)

// anomaliesSQL reads the episodes that overlap a range, after one of an earlier page; decimals as text, so that no
// floats are involved. Parameters: from, to, kind, tenant and state (empty: any), paged (0 or 1), after_start, after_id,
// rows.
//
//go:embed anomalies.sql
var anomaliesSQL string

type anomaliesInput struct {
	Paged
	RangeInput
	Kind   string `query:"kind" enum:"idle_allocation,idle_pattern,off_hours_spike,unobserved,gpu_errors,work_without_owner,telemetry" doc:"Only this kind"`
	Tenant string `query:"tenant" maxLength:"500" doc:"Only of this tenant" example:"ml-train"`
	State  string `query:"state" enum:"open,closed" doc:"Only those that go on, or that are over"`
	Muted  string `query:"muted" enum:"true,false" doc:"true: only muted ones; false: only others. A page may then have fewer than limit and not be the last"`
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Maximum number of episodes on a page"`
}

type anomaliesBody struct {
	From      string    `json:"from" format:"date-time"`
	To        string    `json:"to" format:"date-time"`
	Anomalies []anomaly `json:"anomalies" nullable:"false"`
	Next      string    `json:"next,omitempty" doc:"Cursor of the next page; absent on the last page"`
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
	Start          string `json:"start" format:"date-time"`
	End            string `json:"end" format:"date-time"`
	WastedGPUHours string `json:"wasted_gpu_hours"`
	WastedCost     string `json:"wasted_cost" doc:"Cost at the price book's prices before the terms of a month; 0 if currency is empty, because no price is known"`
	Currency       string `json:"currency"`
	Evidence       string `json:"evidence"`
	User           string `json:"user"`
	Cause          string `json:"cause" doc:"Of idle time: never_started, finished, parked or idle; of unobserved: silent or owners; of gpu_errors: fatal, device or application; of telemetry: contradictory, one_signal or missing"`
	Grade          string `json:"grade" doc:"proven; suspected: then it has no cost; none: of devices or telemetry, then it has no tenant, wasted time or cost either"`
	Open           bool   `json:"open" doc:"It goes on"`
	Leaves         uint64 `json:"leaves" doc:"Number of leaves; gpu and leaf are empty unless it is one"`

	Severity string  `json:"severity" doc:"By cost per day: info, low, medium, high or critical"`
	Alerted  string  `json:"alerted,omitempty" format:"date-time" doc:"When the alert budget let it through; absent: it waits in the table"`
	Parent   string  `json:"parent,omitempty" doc:"ID of the pattern or outage that this finding belongs to"`
	Observed float64 `json:"observed" doc:"GPU-hours: of a spike; of grade none, those that were lost"`
	Expected float64 `json:"expected" doc:"Of a spike: GPU-hours"`
	Score    float64 `json:"score" doc:"Of a spike: probability of so much or more in its rarest hour"`

	AcknowledgedBy string `json:"acknowledged_by,omitempty" doc:"Who looks after it"`
	MutedUntil     string `json:"muted_until,omitempty" format:"date-time" doc:"Until when it raises no alert"`
	MuteOwner      string `json:"mute_owner,omitempty" doc:"Who answers for the mute"`
	MuteReason     string `json:"mute_reason,omitempty"`
	Judged         string `json:"judged,omitempty" doc:"The verdict on it: useful, false or planned"`

	start, end, alerted time.Time
}

func (n *anomaly) fields() []any {
	return []any{
		&n.ID, &n.Kind, &n.Cluster, &n.Tenant, &n.Project, &n.Workload, &n.Node, &n.GPU, &n.Leaf,
		&n.start, &n.end, &n.WastedGPUHours, &n.WastedCost, &n.Currency, &n.Evidence,
		&n.User, &n.Cause, &n.Grade, &n.Open, &n.Leaves,
		&n.Severity, &n.alerted, &n.Parent, &n.Observed, &n.Expected, &n.Score,
	}
}

func (n *anomaly) key() []string { return []string{n.Start, n.ID} }

func (a *api) listAnomalies(ctx context.Context, in *anomaliesInput) (*list[anomaliesBody], error) {
	from, to, err := span(in.From, in.To)
	if err != nil {
		return nil, err
	}
	isPaged, afterStart, afterID := 0, from, ""
	if in.after != nil {
		if len(in.after) != 2 {
			return nil, in.foreign()
		}
		if afterStart, err = instantOf(in.after[0]); err != nil {
			return nil, in.foreign()
		}
		isPaged, afterID = 1, in.after[1]
	}
	found, err := store.Select(ctx, a.deps.DB, "anomalies", anomaliesSQL, []any{
		store.Named("from", from.Format(time.DateTime)), store.Named("to", to.Format(time.DateTime)),
		store.Named("kind", in.Kind), store.Named("tenant", in.Tenant), store.Named("state", in.State),
		store.Named("paged", isPaged),
		store.Named("after_start", afterStart.Format(time.DateTime)), store.Named("after_id", afterID),
		store.Named("rows", in.Limit+1),
	}, (*anomaly).fields)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	if err := a.marked(ctx, found); err != nil {
		return nil, a.problem(ctx, err)
	}
	page := cut(&in.Paged, in.Limit, found, (*anomaly).key)
	page.items = slices.DeleteFunc(page.items, func(n anomaly) bool {
		return in.Muted != "" && in.Muted != strconv.FormatBool(n.MutedUntil != "")
	})
	body := anomaliesBody{From: rfc3339(from), To: rfc3339(to), Anomalies: page.items, Next: page.next}
	return &list[anomaliesBody]{Link: page.link, Body: body}, nil
}

// marked fills in the times and the marks of findings.
func (a *api) marked(ctx context.Context, found []anomaly) error {
	if err := a.deps.Decisions.Refresh(ctx); err != nil {
		return err
	}
	for i := range found {
		n := &found[i]
		if n.Start, n.End = rfc3339(n.start), rfc3339(n.end); n.alerted.Unix() > 0 {
			n.Alerted = rfc3339(n.alerted)
		}
		m := a.deps.Register.Marks(decisions.Target{
			ID: n.ID, Kind: n.Kind, Tenant: n.Tenant, Project: n.Project, Workload: n.Workload,
		})
		n.AcknowledgedBy, n.MuteOwner, n.MuteReason, n.Judged = m.AcknowledgedBy, m.MuteOwner, m.MuteReason, m.Judged
		if m.Muted() {
			n.MutedUntil = rfc3339(m.MutedUntil)
		}
	}
	return nil
}

type markInput struct {
	Idempotent
	Body struct {
		Action   string    `json:"action" enum:"ack,mute,judge,clear" doc:"ack: somebody looks after it; mute: it raises no alert until an end; judge: whether it was worth finding; clear: end all of these" example:"mute"`
		ID       string    `json:"id,omitempty" pattern:"^[0-9a-f]{32}$" doc:"Of the finding. Without it, a mute, or its clear, is for all findings that have the given kind, tenant, project and workload"`
		Kind     string    `json:"kind,omitempty" enum:"idle_allocation,idle_pattern,off_hours_spike,unobserved,gpu_errors,work_without_owner,telemetry" example:"idle_allocation"`
		Tenant   string    `json:"tenant,omitempty" maxLength:"400" example:"ml-train"`
		Project  string    `json:"project,omitempty" maxLength:"400"`
		Workload string    `json:"workload,omitempty" maxLength:"400"`
		Owner    string    `json:"owner,omitempty" maxLength:"200" doc:"Of a mute: who answers for it; who, if left out"`
		Reason   string    `json:"reason,omitempty" maxLength:"200" doc:"Required for a mute" example:"driver rollout"`
		Until    time.Time `json:"until,omitempty" doc:"End of a mute, at most 366 days ahead" example:"2027-01-31T00:00:00Z"`
		Verdict  string    `json:"verdict,omitempty" enum:"useful,false,planned" doc:"Of judge"`
		Who      string    `json:"who" minLength:"1" maxLength:"200" doc:"Name of the person who decides; stored with the decision" example:"ops@example.com"`
	}
}

type markOutput struct {
	Status   int
	Replayed string `header:"Idempotency-Replayed" enum:"true" doc:"true: an earlier request with this Idempotency-Key made the decision"`
	Body     decisions.Finding
}

func (a *api) mark(ctx context.Context, in *markInput) (*markOutput, error) {
	b := &in.Body
	if err := person(b.Who); err != nil {
		return nil, err
	}
	if err := errors.Join(printable("body.owner", b.Owner), printable("body.reason", b.Reason)); err != nil {
		return nil, err
	}
	target := decisions.Target{ID: b.ID, Kind: b.Kind, Tenant: b.Tenant, Project: b.Project, Workload: b.Workload}
	if b.ID != "" && target != (decisions.Target{ID: b.ID}) {
		return nil, invalid("body.id", b.ID, "is given with a kind, tenant, project or workload: want one or the other")
	}
	if b.Action == decisions.FindingMute {
		b.Owner = cmp.Or(b.Owner, b.Who)
	}
	done, already, err := a.deps.Register.Mark(ctx, decisions.Finding{
		Action: b.Action, Target: target, Owner: b.Owner, Reason: b.Reason, Until: b.Until.UTC(), Verdict: b.Verdict,
	}, b.Who, in.of(b.Who))
	if err != nil {
		return nil, a.refused(ctx, decisions.KindFinding, b.Who, target.String(), err)
	}
	out, outcome := &markOutput{Status: http.StatusCreated, Body: done}, outcomeDecided
	if already {
		out.Status, out.Replayed, outcome = http.StatusOK, "true", outcomeReplayed
	}
	a.note(ctx, decisions.KindFinding, b.Who, target.String(), outcome, "")
	return out, nil
}

// instantOf parses a time of a cursor.
func instantOf(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, err
	}
	_, err = instant("query.cursor", at.Truncate(time.Hour).Format(time.RFC3339))
	return at.UTC(), err
}

// tenantsSQL reads the first and the last hour of each tenant in each month by UTC.
// Parameters: tenant (empty: all), paged (0 or 1), after.
//
//go:embed tenants.sql
var tenantsSQL string

type tenantsInput struct {
	Paged
	Tenant string `query:"tenant" maxLength:"500" doc:"Only this tenant" example:"ml-train"`
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Maximum number of tenants on a page"`
}

type tenantsBody struct {
	Tenants []tenant `json:"tenants" nullable:"false"`
	Next    string   `json:"next,omitempty" doc:"Cursor of the next page; absent on the last page"`
}

type tenant struct {
	Tenant    string   `json:"tenant"`
	TimeZone  string   `json:"time_zone" doc:"Time zone of the tenant's months, from the price book in force; an IANA name"`
	FirstHour string   `json:"first_hour" format:"date-time" doc:"First UTC hour with usage"`
	LastHour  string   `json:"last_hour" format:"date-time" doc:"Last UTC hour with usage"`
	Months    []string `json:"months" nullable:"false" doc:"Months with usage, in the tenant's time zone"`
}

func (t *tenant) key() []string { return []string{t.Tenant} }

func (a *api) listTenants(ctx context.Context, in *tenantsInput) (*list[tenantsBody], error) {
	isPaged, after := 0, ""
	if in.after != nil {
		if len(in.after) != 1 {
			return nil, in.foreign()
		}
		isPaged, after = 1, in.after[0]
	}
	location, err := a.locations(ctx)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	found, err := a.readTenants(ctx, in.Limit, location,
		store.Named("tenant", in.Tenant), store.Named("paged", isPaged), store.Named("after", after))
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	page := cut(&in.Paged, in.Limit, found, (*tenant).key)
	return &list[tenantsBody]{Link: page.link, Body: tenantsBody{Tenants: page.items, Next: page.next}}, nil
}

// locations returns a function for each tenant's zone.
func (a *api) locations(ctx context.Context) (func(tenant string) *time.Location, error) {
	book, err := a.deps.Register.Book(ctx)
	if err != nil {
		return nil, err
	}
	return book.Location, nil
}

// tenantMonth is a tenant's usage in a month by UTC.
type tenantMonth struct {
	name        string
	month       uint32
	first, last time.Time
}

// errEnough stops a reading when it has enough rows.
var errEnough = errors.New("enough")

// readTenants stops after one tenant more than limit.
func (a *api) readTenants(
	ctx context.Context, limit int, location func(string) *time.Location, parameters ...any,
) ([]tenant, error) {
	found := []tenant{}
	fields := func(m *tenantMonth) []any { return []any{&m.name, &m.month, &m.first, &m.last} }
	err := store.Each(ctx, a.deps.DB, "tenants", tenantsSQL, parameters, fields, func(m *tenantMonth) error {
		if n := len(found); n == 0 || found[n-1].Tenant != m.name {
			if n > limit {
				return errEnough
			}
			found = append(found, tenant{
				Tenant: m.name, TimeZone: location(m.name).String(), FirstHour: rfc3339(m.first),
				Months: []string{},
			})
		}
		found[len(found)-1].add(m.first, m.last, location(m.name))
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return found, err
}

// add adds the usage of a month by UTC. It is in one or two months of the zone, according to the first and last hour.
func (t *tenant) add(first, last time.Time, zone *time.Location) {
	t.LastHour = rfc3339(last)
	for _, hour := range []time.Time{first, last} {
		if month := rating.PeriodOf(hour, zone).String(); !slices.Contains(t.Months, month) {
			t.Months = append(t.Months, month)
		}
	}
}
