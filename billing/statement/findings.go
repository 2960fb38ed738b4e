package statement

import (
	"fmt"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/plural"
)

// findings are the analyzer's findings of a month: the most expensive ones, and the number of each kind.
type findings struct {
	Episodes []episode
	Sums     []episodeSum
	Zone     *time.Location
	Places   int32  // of costs
	Period   string // if set, findings are shown with their tenants
}

// Rest is the number of findings that are not among the episodes.
func (f findings) Rest() (count int) {
	for _, s := range f.Sums {
		count += int(s.Count)
	}
	for _, e := range f.Episodes {
		count -= int(e.Leaves)
	}
	return count
}

// episodeSum are all findings of a kind.
type episodeSum struct {
	Kind  string
	Count uint64
	Hours decimal.Decimal
}

// Text is the count in words.
func (s episodeSum) Text() string {
	title, known := kindTitles[s.Kind]
	if !known {
		return fmt.Sprintf("%d of kind %s", s.Count, visible(s.Kind))
	}
	return plural.Of(s.Count, strings.ToLower(title))
}

// episode is a finding about a workload at one time, on one leaf or several; node, GPU, leaf and evidence are those
// of the first. Its cost is at list price; without a currency no price was known.
type episode struct {
	kind, Tenant, workload, Currency string
	node, gpu, leaf, Evidence        string
	// Said is what people have said of all of it: planned, acknowledged or muted; empty: nothing.
	Said string

	ids     []string // of the findings
	project string

	Leaves     uint64
	Start, end time.Time
	Hours      decimal.Decimal
	Cost       decimal.Decimal
}

func (e *episode) fields() []any {
	return []any{
		&e.kind, &e.Tenant, &e.workload, &e.Start, &e.end, &e.Currency, &e.Leaves, &e.Hours, &e.Cost,
		&e.node, &e.gpu, &e.leaf, &e.Evidence, &e.ids, &e.project,
	}
}

// said sums up the marks of an episode's findings.
func (p *pages) said(e *episode) (said string) {
	for i, id := range e.ids {
		word := ""
		switch m := p.deps.Marks(decisions.Target{
			ID: id, Kind: e.kind, Tenant: e.Tenant, Project: e.project, Workload: e.workload,
		}); {
		case m.Judged == decisions.VerdictPlanned:
			word = "planned"
		case m.AcknowledgedBy != "":
			word = "acknowledged"
		case m.Muted():
			word = "muted"
		}
		if i > 0 && word != said {
			return ""
		}
		said = word
	}
	return said
}

// kindTitles are the titles of the kinds of findings.
var kindTitles = map[string]string{
	"idle_allocation": "Idle allocation", "idle_pattern": "Recurring idle time",
	"off_hours_spike": "Off-hours spike",
}

// Title is the title of the kind.
func (e episode) Title() string {
	if title, known := kindTitles[e.kind]; known {
		return title
	}
	return visible(e.kind)
}

// What is the workload, or the tenant.
func (e episode) What() string {
	if e.workload == "" && e.gpu == "" {
		return "the tenant as a whole"
	}
	return named(e.workload)
}

// Length is in hours.
func (e episode) Length() string {
	minutes := decimal.NewFromInt(int64(e.end.Sub(e.Start) / time.Minute))
	return number(minutes.DivRound(decimal.NewFromInt(60), 9), 0) + " h"
}

// Where is the node, the GPU and the leaf, as far as known; a whole GPU is its own leaf.
func (e episode) Where() string {
	var where []string
	for _, name := range []string{e.node, e.gpu, e.leaf} {
		if name != "" && (len(where) == 0 || where[len(where)-1] != name) {
			where = append(where, name)
		}
	}
	return visible(strings.Join(where, " · "))
}
