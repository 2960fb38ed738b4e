package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/projection"
	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/decisions"
)

// MarkAnomalies acknowledges, mutes or judges findings, or ends that.
func MarkAnomalies(ctx context.Context, s *cli.Session, f decisions.Finding) error {
	if f.ID != "" && f.Target != (decisions.Target{ID: f.ID}) {
		return cli.UsageError(errors.New("give an ID, or --kind, --tenant, --project and --workload; not both"))
	}
	if f.Action == decisions.FindingMute {
		f.Owner = cmp.Or(f.Owner, s.Who())
	}
	return app.WithRegister(ctx, s, func(p *app.Pipeline) error {
		done, already, err := p.Register.Mark(ctx, f, s.Who(), s.Key)
		if errors.Is(err, invoice.ErrNoFinding) && f.Action != decisions.FindingClear {
			// Without an analyzer that runs, the table has no findings.
			if f.Kind, err = kindOfAnomaly(ctx, p.Access, f.ID, err); err == nil {
				done, already, err = p.Register.Mark(ctx, f, s.Who(), s.Key)
			}
		}
		if err != nil {
			return err
		}
		return s.Writef("%s\n", markedWords(&done, already))
	})
}

// kindOfAnomaly looks for a finding in the whole ledger; err if there is none.
func kindOfAnomaly(ctx context.Context, a *app.Access, id string, err error) (kind string, _ error) {
	found, findErr := findAnomalies(ctx, a, &cli.TimeRange{})
	for _, e := range found {
		if e.ID() == id {
			return string(e.Kind), nil
		}
	}
	return "", cmp.Or(findErr, err)
}

func markedWords(f *decisions.Finding, already bool) string {
	what := map[string]string{
		decisions.FindingAck:   "acknowledged",
		decisions.FindingMute:  "muted until " + f.Until.Format(time.RFC3339),
		decisions.FindingJudge: "judged " + f.Verdict,
		decisions.FindingClear: "cleared of all marks",
	}[f.Action]
	words := fmt.Sprintf("finding %s is %s", f.Target, what)
	if f.ID == "" {
		words = fmt.Sprintf("findings of %s are %s", cli.Printable(f.Target.String()), what)
	}
	if already {
		words += ", by an earlier request with this key"
	}
	return words
}

// AnomalyScores prints, by kind, how the findings were judged, and the share of useful ones
// among those that were useful or false.
func AnomalyScores(ctx context.Context, s *cli.Session) error {
	return app.WithStore(ctx, s, func(a *app.Access) error {
		marks, err := projection.Findings(ctx, a.DB)
		if err != nil {
			return err
		}
		t := cli.Table{Columns: cli.Columns("kind", "useful number", "false number", "planned number", "precision exact")}
		scores := marks.Scores()
		for _, kind := range slices.Sorted(maps.Keys(scores)) {
			c, precision := scores[kind], ""
			if judged := int64(c.Useful + c.False); judged > 0 {
				precision = decimal.NewFromInt(int64(c.Useful)).DivRound(decimal.NewFromInt(judged), 3).StringFixed(3)
			}
			t.Rows = append(t.Rows, []string{
				kind, strconv.Itoa(c.Useful), strconv.Itoa(c.False), strconv.Itoa(c.Planned), precision,
			})
		}
		if err := s.Print(t); err != nil || len(t.Rows) > 0 || s.Format != cli.AsTable {
			return err
		}
		return s.Writef("No finding was judged: gputally anomalies judge ID VERDICT does that.\n")
	})
}
