package ask

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/billing/projection"
	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/fault"
	"github.com/gputally/gputally/internal/plural"
)

// ExplainAnomaly prints one finding: what it says, by which rules, and what it costs. ID may be the beginning of one.
func ExplainAnomaly(ctx context.Context, s *cli.Session, id string) error {
	return app.WithStore(ctx, s, func(a *app.Access) error {
		found, err := findAnomalies(ctx, a, &cli.TimeRange{})
		if err != nil {
			return err
		}
		var match []*anomaly
		for i := range found {
			if len(id) >= 6 && strings.HasPrefix(found[i].ID(), id) {
				match = append(match, &found[i])
			}
		}
		if len(match) != 1 {
			return fault.New(fault.NotFound, "%s begin with %q: give the id of a finding that gputally anomalies "+
				"lists, or six or more of its first digits", plural.Of(len(match), "finding"), id)
		}
		e := match[0]
		marks, err := projection.Findings(ctx, a.DB)
		if err != nil {
			return err
		}
		e.Marks = marks.Marks(app.FindingOf(&e.Episode), s.Clock.Now())
		var children []*anomaly
		for i := range found {
			if found[i].Parent == e.ID() {
				children = append(children, &found[i])
			}
		}
		if s.Format == cli.AsTable {
			return explainFinding(s, e, children)
		}
		return s.PrintJSON(exactFinding(e, children))
	})
}

// exactFinding is a finding as JSON: the list's columns, its facts, and the ids of a pattern's allocations.
func exactFinding(e *anomaly, children []*anomaly) map[string]any {
	t := anomaliesExact([]anomaly{*e})
	out := map[string]any{"facts": e.Facts}
	for i, c := range t.Columns {
		out[c.Name] = t.Rows[0][i]
	}
	ids := []string{}
	for _, c := range children {
		ids = append(ids, c.ID())
	}
	out["children"] = ids
	return out
}

// shownChildren is how many allocations of a pattern are shown.
const shownChildren = 20

// findingTitles are the kinds in words.
var findingTitles = map[episode.Kind]string{
	episode.IdleAllocation: "Idle allocation", episode.IdlePattern: "Recurring idle time",
	episode.OffHoursSpike: "Off-hours spike", episode.Unobserved: "Unobserved time", episode.GPUErrors: "Errors of a GPU",
	episode.WorkWithoutOwner: "Work without an owner", episode.Telemetry: "Doubtful telemetry",
}

func explainFinding(s *cli.Session, e *anomaly, children []*anomaly) error {
	w := &pageWriter{s: s}
	who := []string{}
	for _, f := range [][2]string{
		{"tenant", e.Tenant}, {"project", e.Project}, {"user", e.User}, {"workload", e.Workload}, {"node", e.Node},
	} {
		if f[1] != "" {
			who = append(who, f[0]+" "+cli.Printable(f[1]))
		}
	}
	w.linef("%s %s: %s", findingTitles[e.Kind], e.ID(), strings.Join(who, ", "))
	w.linef("From %s to %s UTC (%s), %s GPU-hours, %s.", minute(e.Start), minute(e.End), e.state(),
		cli.Grouped(cli.Fixed(e.GPUHours().String(), 2)), costWords(e))
	w.linef("Why: %s.", cli.Printable(e.Evidence))
	w.linef("%s", severityWords(e))
	if e.Cause != "" {
		w.linef("Cause: %s. Grade: %s.", e.Cause, e.Grade)
	} else {
		w.linef("Grade: %s.", e.Grade)
	}
	w.marks(e)
	if e.Grade == episode.None && len(e.Leaves) > 0 {
		w.linef("GPU: %s; %s in all.", cli.Printable(e.Leaves[0].GPU), plural.Of(len(e.Leaves), "GPU"))
	}
	f := e.Facts
	f.Bound()
	w.table("Rules that it passed", rulesTable(f.Rules))
	w.table("Hours, in GPU-hours", hoursTable(f.Hours))
	w.table("What its rarest hour was compared with", sourcesTable(f.Sources))
	w.table("Leaves", runsTable(f.Runs))
	slices.SortStableFunc(children, func(a, b *anomaly) int { return b.WastedGPUHours.Cmp(a.WastedGPUHours) })
	w.table("The greatest idle allocations in it", childrenTable(children[:min(len(children), shownChildren)]))
	w.table("Who had it", partsTable(f.By))
	w.table("Cost", costTable(f.Cost, e.Currency))
	if f.More > 0 {
		w.linef("\n%s are left out of the lists.", plural.Of(f.More, "entry"))
	}
	or := ""
	if len(f.Rules) > 0 {
		or = ", or a stricter limit of a rule above"
	}
	w.linef("\nTo silence it: gputally anomalies mute %s --until TIME --reason TEXT%s.", e.ID(), or)
	return w.err
}

// pageWriter keeps the first error.
type pageWriter struct {
	s   *cli.Session
	err error
}

func (w *pageWriter) linef(format string, args ...any) {
	if w.err == nil {
		w.err = w.s.Writef(format+"\n", args...)
	}
}

func (w *pageWriter) table(title string, t cli.Table) {
	if len(t.Rows) == 0 {
		return
	}
	if w.linef("\n%s", title); w.err == nil {
		w.err = w.s.Print(t)
	}
}

func (w *pageWriter) marks(e *anomaly) {
	if e.AcknowledgedBy != "" {
		w.linef("Acknowledged by %s.", cli.Printable(e.AcknowledgedBy))
	}
	if e.Muted() {
		w.linef("Muted until %s by %s: %s.", e.until(), cli.Printable(e.MuteOwner), cli.Printable(e.MuteReason))
	}
	if e.Judged != "" {
		w.linef("Judged %s.", e.Judged)
	}
}

func minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

func costWords(e *anomaly) string {
	switch {
	case e.Grade == episode.None:
		return "lost to the platform"
	case e.Grade == episode.Suspected:
		return "no cost, because nothing is proven"
	case e.Currency == "":
		return "no price is known"
	}
	return CostShown(&e.Episode) + " " + e.Currency
}

func severityWords(e *anomaly) string {
	words := fmt.Sprintf("Severity: %s, by its cost per day.", e.Severity)
	if e.Grade == episode.None {
		words = fmt.Sprintf("Severity: %s, by its kind and the cost of the lost time per day.", e.Severity)
	}
	switch {
	case e.Parent != "":
		return words + " Part of pattern " + e.Parent + "."
	case !e.Alerted.IsZero():
		return words + " The alert budget let it through at " + minute(e.Alerted) + " UTC."
	case e.Severity == episode.Info:
		return words + " Too cheap for an alert."
	}
	return words + " No alert: the budget of its week went to others."
}

func rulesTable(rules []episode.Rule) cli.Table {
	t := cli.Table{Columns: cli.Columns("rule", "value", "found_if")}
	for _, r := range rules {
		found := "at most " + r.Limit
		if r.Least {
			found = "at least " + r.Limit
		}
		t.Rows = append(t.Rows, []string{"analyzer." + r.Key, r.Value, found})
	}
	return t
}

func hoursTable(hours []episode.Hour) cli.Table {
	t := cli.Table{Columns: cli.Columns("hour", "observed number", "expected number", "carried number", "probability number")}
	for _, h := range hours {
		t.Rows = append(t.Rows, []string{
			minute(h.At), hoursText(h.Observed), hoursText(h.Expected), hoursText(h.Carried),
			strconv.FormatFloat(h.Probability, 'g', 2, 64),
		})
	}
	return t
}

func hoursText(h float64) string { return strconv.FormatFloat(h, 'f', 1, 64) }

func sourcesTable(sources []episode.Source) cli.Table {
	t := cli.Table{Columns: cli.Columns("hour", "gpu_hours number", "same")}
	for _, h := range sources {
		t.Rows = append(t.Rows, []string{minute(h.At), hoursText(h.GPUHours), strings.ReplaceAll(h.Same, "_", " ")})
	}
	return t
}

func runsTable(runs []episode.Run) cli.Table {
	t := cli.Table{Columns: cli.Columns("node", "gpu", "leaf", "from", "to", "cause", "gpu_hours number")}
	for _, r := range runs {
		t.Rows = append(t.Rows, []string{r.Node, r.GPU, r.Leaf, seconds(r.From), seconds(r.To), r.Cause, cli.Fixed(r.GPUHours, 2)})
	}
	return t
}

func seconds(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

func childrenTable(children []*anomaly) cli.Table {
	t := cli.Table{Columns: cli.Columns("id", "workload", "from", "to", "gpu_hours number", "cost number", "cause")}
	for _, e := range children {
		t.Rows = append(t.Rows, []string{
			e.ID(), e.Workload, minute(e.Start), minute(e.End), cli.Fixed(e.WastedGPUHours.String(), 2),
			cli.Fixed(e.WastedCost.String(), 2), e.Cause,
		})
	}
	return t
}

func partsTable(parts []episode.Part) cli.Table {
	t := cli.Table{Columns: cli.Columns("workload", "user", "gpu_hours number")}
	for _, p := range parts {
		t.Rows = append(t.Rows, []string{p.Workload, p.User, cli.Fixed(p.GPUHours, 2)})
	}
	return t
}

func costTable(lines []episode.Price, currency string) cli.Table {
	t := cli.Table{Columns: cli.Columns("model", "profile", "gpu_hours number", "rate number", "cost number", "currency")}
	for _, p := range lines {
		if p.Cost != "" {
			t.Rows = append(t.Rows, []string{p.Model, p.Profile, cli.Fixed(p.GPUHours, 2), p.Rate, cli.Fixed(p.Cost, 2), currency})
		}
	}
	return t
}
