package bill

import (
	"fmt"
	"strconv"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/internal/cli"
)

func DecidedTable(done []invoice.Decided) cli.Table {
	t := cli.Table{Columns: append(cli.TextColumns([]string{"number", "tenant", "kind", "currency"}), cli.ExactColumn("total"),
		cli.Column{Name: "outcome"}, cli.Column{Name: "content_sha256", Wide: true})}
	for _, d := range done {
		outcome := "finalised"
		if d.Already {
			outcome = "stood already"
		}
		t.Rows = append(t.Rows, []string{d.Number, d.Tenant, d.Kind, d.Currency, d.Total, outcome, d.Content})
	}
	return t
}

func AdjustmentTable(found []invoice.Adjustment) cli.Table {
	t := cli.Table{Columns: append(cli.TextColumns([]string{"note", "tenant", "kind", "currency"}), cli.ExactColumn("total"),
		cli.ExactColumn("gpu_hours"), cli.Column{Name: "changed_hours", Number: true}, cli.Column{Name: "ready"}, cli.Column{Name: "reason", Wide: true},
		cli.Column{Name: "content_sha256", Wide: true})}
	for _, a := range found {
		ready := "yes"
		if !a.Closed {
			ready = "no: " + a.Open
		}
		t.Rows = append(t.Rows, []string{
			a.Note.Number, a.Note.Tenant, a.Note.Kind, a.Note.Currency, a.Note.Total.String(), a.Note.GPUHours.String(), strconv.Itoa(a.Hours), ready, a.Reason, a.Content,
		})
	}
	return t
}

func PrintVerdict(s *cli.Session, o cli.Output, v *invoice.Verdict) error {
	if o == cli.OutputJSON {
		return PrintDocument(s, v)
	}
	result, pending := "same bytes", "no"
	if !v.Same {
		result = "DIFFERS: " + v.Wrong
	}
	if v.Pending {
		pending = "yes: see invoice adjustments"
	}
	t := cli.Table{Columns: append(cli.TextColumns([]string{"number"}), cli.ExactColumn("total"), cli.Column{Name: "pending_adjustment"},
		cli.Column{Name: "result", Wide: true}, cli.Column{Name: "content_sha256", Wide: true}, cli.Column{Name: "usage_sha256", Wide: true})}
	t.Rows = [][]string{{v.Number, v.Total, pending, result, v.Content, v.Usage}}
	return t.Write(s.Stdout, o, cli.Colour(s.Stdout))
}

func PrintEvidence(s *cli.Session, o cli.Output, e *invoice.Evidence) error {
	if o == cli.OutputJSON {
		return PrintDocument(s, e)
	}
	t := cli.Table{Columns: append(cli.TextColumns([]string{"hour", "cluster", "node", "gpu", "leaf", "profile", "project", "user", "workload"}),
		cli.Column{Name: "slice_ms", Number: true}, cli.Column{Name: "slices", Number: true}, cli.Column{Name: "batches", Number: true}, cli.Column{Name: "batches_sha256"})}
	for _, g := range e.GPUHours {
		t.Rows = append(t.Rows, []string{
			g.Hour, g.Cluster, g.Node, g.GPU, g.Leaf, g.Profile, g.Project, g.User, g.Workload,
			g.SliceMS, strconv.Itoa(g.Slices), strconv.FormatUint(g.Batches, 10), g.BatchHash,
		})
	}
	if err := t.Write(s.Stdout, o, cli.Colour(s.Stdout)); err != nil || o != cli.OutputTable {
		return err
	}
	moved := "the ledger agrees with every one of them"
	if len(e.Moved) > 0 {
		moved = fmt.Sprintf("of %d the ledger says otherwise by now: %s to %s", len(e.Moved), e.Moved[0], e.Moved[len(e.Moved)-1])
	}
	_, err := fmt.Fprintf(s.Stdout, "\n%s, line %d: these are of %d UTC hours in its own copy of usage; %s\n", cli.Printable(e.Number), e.LineNumber, e.Hours, moved)
	return err
}
