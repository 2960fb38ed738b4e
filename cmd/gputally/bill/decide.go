package bill

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/plural"
)

func decidedTable(done []invoice.Decided) cli.Table {
	t := cli.Table{Columns: cli.Columns("number", "tenant", "kind", "currency", "total exact", "outcome",
		"content_sha256 wide")}
	for _, d := range done {
		outcome := "finalised"
		if d.Already {
			outcome = "stood already"
		}
		t.Rows = append(t.Rows, []string{d.Number, d.Tenant, d.Kind, d.Currency, d.Total, outcome, d.Content})
	}
	return t
}

func adjustmentTable(found []invoice.Adjustment) cli.Table {
	t := cli.Table{Columns: cli.Columns("note", "tenant", "kind", "currency", "total exact", "gpu_hours exact",
		"changed_hours number", "ready", "reason wide", "content_sha256 wide")}
	for _, a := range found {
		ready := "yes"
		if !a.Closed {
			ready = "no: " + a.Open
		}
		t.Rows = append(t.Rows, []string{
			a.Note.Number, a.Note.Tenant, a.Note.Kind, a.Note.Currency, a.Note.Total.String(), a.Note.GPUHours.String(),
			strconv.Itoa(a.Hours), ready, a.Reason, a.Content,
		})
	}
	return t
}

func printVerdict(s *cli.Session, v *invoice.Verdict) error {
	if s.Format == cli.AsJSON {
		return printDocument(s, v)
	}
	result, pending := "same bytes", "no"
	if !v.Same {
		result = "DIFFERS: " + v.Wrong
	}
	if v.Pending {
		pending = "yes: see invoice adjustments"
	}
	t := cli.Table{Columns: cli.Columns("number", "total exact", "pending_adjustment", "result wide",
		"content_sha256 wide", "usage_sha256 wide")}
	t.Rows = [][]string{{v.Number, v.Total, pending, result, v.Content, v.Usage}}
	return s.Print(t)
}

func printEvidence(s *cli.Session, e *invoice.Evidence) error {
	if s.Format == cli.AsJSON {
		return printDocument(s, e)
	}
	t := cli.Table{Columns: cli.Columns("hour", "cluster", "node", "gpu", "leaf", "profile", "project", "user",
		"workload", "slice_ms number", "slices number", "batches number", "batches_sha256")}
	for _, g := range e.GPUHours {
		t.Rows = append(t.Rows, []string{
			g.Hour, g.Cluster, g.Node, g.GPU, g.Leaf, g.Profile, g.Project, g.User, g.Workload,
			g.SliceMS, strconv.Itoa(g.Slices), strconv.FormatUint(g.Batches, 10), g.BatchHash,
		})
	}
	if err := s.Print(t); err != nil || s.Format != cli.AsTable {
		return err
	}
	moved := "the ledger still has the same usage in all of them"
	if len(e.Moved) > 0 {
		moved = fmt.Sprintf("the ledger's usage has changed since in %s, from %s to %s", plural.Of(len(e.Moved), "hour"),
			e.Moved[0], e.Moved[len(e.Moved)-1])
	}
	return s.Writef("\n%s, line %d: the invoice's own copy of usage has %s (UTC) for it; %s\n",
		cli.Printable(e.Number), e.LineNumber, plural.Of(e.Hours, "hour"), moved)
}

// Finalise finalises the invoices of the given tenants, or of all.
func Finalise(ctx context.Context, s *cli.Session, tenants []string, withoutUsage, withoutUnpriced bool) error {
	if (s.Key != "" || s.Expect != "") && len(tenants) != 1 {
		return cli.UsageError(errors.New("--key and --expect are for one invoice: give exactly one --tenant"))
	}
	return app.WithRegister(ctx, s, func(p *app.Pipeline) error {
		p.WarnOfPrices(ctx)
		bar := cli.NewProgress(s.Stderr, s.Clock, "finalise")
		defer bar.Clear()
		done, err := p.Register.Finalise(ctx, invoice.FinaliseRequest{
			Period: s.Month.Text, Tenants: tenants, Who: s.Who(), Key: s.Key,
			Expect: s.Expect, WithoutUsage: withoutUsage, WithoutUnpriced: withoutUnpriced,
			Progress: func(done, total int) { bar.Set(int64(done), int64(total)) },
		})
		bar.Clear()
		if err != nil && len(done) == 0 {
			return err
		}
		return errors.Join(err, s.Print(decidedTable(done)))
	})
}

// Adjustments prints what changed since invoices were finalised.
func Adjustments(ctx context.Context, s *cli.Session) error {
	return app.WithRegister(ctx, s, func(p *app.Pipeline) error {
		found, err := p.Register.Adjustments(ctx, s.Month.Text)
		if err != nil {
			return err
		}
		if s.Format == cli.AsJSON {
			return printDocument(s, found)
		}
		if len(found) == 0 && s.Format == cli.AsTable {
			return s.Writef("No adjustment is pending in %s.\n", s.Month.Text)
		}
		return s.Print(adjustmentTable(found))
	})
}

// Note decides the credit or debit note of a pending adjustment.
func Note(ctx context.Context, s *cli.Session) error {
	return app.WithRegister(ctx, s, func(p *app.Pipeline) error {
		done, err := p.Register.Correct(ctx, invoice.CorrectRequest{
			Period: s.Month.Text, Tenant: s.Tenant, Who: s.Who(), Key: s.Key, Expect: s.Expect,
		})
		if err != nil {
			return err
		}
		return s.Print(decidedTable([]invoice.Decided{done}))
	})
}

// Approve approves the invoice that finalising, or the note that correcting, would decide.
func Approve(ctx context.Context, s *cli.Session, comment string) error {
	return app.WithRegister(ctx, s, func(p *app.Pipeline) error {
		done, err := p.Register.Approve(ctx, invoice.ApproveRequest{
			Period: s.Month.Text, Tenant: s.Tenant, Who: s.Who(), Comment: comment, Expect: s.Expect,
		})
		if err != nil {
			return err
		}
		return s.Writef("%s over %s %s is approved with the content %s\n", cli.Printable(done.Number),
			cli.Grouped(done.Total), done.Currency, done.Content)
	})
}

// VerifyInvoice recomputes a finalised document from its own copy of usage.
func VerifyInvoice(ctx context.Context, s *cli.Session, number string) error {
	return app.WithRegister(ctx, s, func(p *app.Pipeline) error {
		verdict, err := p.Register.Verify(ctx, number)
		if err != nil {
			return err
		}
		if err := printVerdict(s, verdict); err != nil || verdict.Same {
			return err
		}
		return cli.Quiet("the invoice does not follow from its usage")
	})
}

// Evidence prints the GPU-hours from which a line of a finalised document follows.
func Evidence(ctx context.Context, s *cli.Session, number, lineText string) error {
	line, err := strconv.Atoi(lineText)
	if err != nil || line < 1 {
		return cli.UsageError(fmt.Errorf("LINE %q: want a number, 1 for the first line that invoice show prints", lineText))
	}
	return app.WithRegister(ctx, s, func(p *app.Pipeline) error {
		evidence, err := p.Register.Evidence(ctx, number, line)
		if errors.Is(err, invoice.ErrNoEvidence) {
			return cli.UsageError(err)
		}
		if err != nil {
			return err
		}
		return printEvidence(s, evidence)
	})
}
