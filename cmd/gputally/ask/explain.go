package ask

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/listprice"
	"github.com/gputally/gputally/ingest/explain"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/plural"
	"github.com/gputally/gputally/internal/usage"
)

// OutputText is the form for reading that explain has instead of a table.
const OutputText = "text"

// explainOutput is explain's flag --output.
type explainOutput string

func (o *explainOutput) String() string { return string(*o) }

// Type is what help calls the flag's value.
func (o *explainOutput) Type() string { return "FORMAT" }

// Set takes text or json.
func (o *explainOutput) Set(value string) error {
	if !slices.Contains([]string{OutputText, cli.AsJSON}, value) {
		return errors.New("want text or json")
	}
	*o = explainOutput(value)
	return nil
}

// FullHour reads an hour of the ledger, which are full ones in UTC: RFC 3339, with or without minutes and seconds.
func FullHour(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15Z07:00"} {
		at, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		at = at.UTC()
		if err := usage.InYears(at); err != nil {
			return at, err
		}
		if full := at.Truncate(time.Hour); !at.Equal(full) {
			return at, fmt.Errorf("want a full hour in UTC; the one around it is %s", full.Format(time.RFC3339))
		}
		return at, nil
	}
	return time.Time{}, errors.New("want an hour such as 2026-10-03T14:00Z")
}

// TimeZone reads a name of the IANA time-zone database.
func TimeZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		return nil, errors.New("want a zone such as Europe/Berlin")
	}
	return zone, nil
}

// ExplainAsk is what the command line asks.
type ExplainAsk struct {
	Request explain.Request
	Invoice string
	Line    int
	Zone    *time.Location // nil: UTC alone
	Output  explainOutput

	evidence *invoice.Evidence // of the invoice's line
}

// validate refuses flags that name no GPU-hour, or more than one.
func (a *ExplainAsk) validate() error {
	named := 0
	for _, name := range []string{a.Request.GPU, a.Request.Pod, a.Request.Job, a.Invoice} {
		if name != "" {
			named++
		}
	}
	switch {
	case named != 1:
		return errors.New("which GPU-hour? give exactly one of --gpu, --pod, --job and --invoice")
	case a.Invoice == "" && a.Request.Hour.IsZero():
		return errors.New("--hour is missing: name an hour such as 2026-10-03T14:00Z")
	case a.Invoice != "" && a.Line < 1:
		return errors.New("--line is missing: name a line of the invoice, from 1 on")
	}
	return nil
}

// Explain prints why a GPU-hour costs what it costs.
func Explain(ctx context.Context, s *cli.Session, ask ExplainAsk) error {
	if err := ask.validate(); err != nil {
		return cli.UsageError(err)
	}
	if ask.Invoice == "" {
		return app.WithStore(ctx, s, func(a *app.Access) error { return explainHour(ctx, s, a, ask) })
	}
	return app.WithRegister(ctx, s, func(p *app.Pipeline) error {
		if err := lineToHour(ctx, p, &ask); err != nil {
			return err
		}
		return explainHour(ctx, s, p.Access, ask)
	})
}

// lineToHour asks for the GPU-hour with the most time of an invoice's line, and
// says so on standard error.
func lineToHour(ctx context.Context, p *app.Pipeline, ask *ExplainAsk) error {
	e, err := p.Register.Evidence(ctx, ask.Invoice, ask.Line)
	if errors.Is(err, invoice.ErrNoEvidence) {
		return cli.UsageError(err)
	}
	if err != nil {
		return err
	}
	g := e.Largest()
	if g == nil {
		return noUsageLeft(e)
	}
	ask.evidence = e
	ask.Request.GPU, ask.Request.Cluster = g.GPU, g.Cluster
	if ask.Request.Hour, err = time.Parse(time.RFC3339, g.Hour); err != nil {
		return err
	}
	p.Session.Sayf("line %d of invoice %s has %s of GPU-hours (gputally invoice evidence lists them); "+
		"this is the largest\n", ask.Line, cli.Printable(ask.Invoice), plural.Of(len(e.GPUHours), "part"))
	return nil
}

// noUsageLeft is the error for a line whose usage belongs to others by now.
func noUsageLeft(e *invoice.Evidence) error {
	why := "an adjustment is pending: gputally invoice adjustments --period " + e.Period + " shows it"
	if len(e.Notes) > 0 {
		why = fmt.Sprintf("its invoice was corrected by %s: gputally invoice show --period %s --tenant %s shows what was "+
			"credited", strings.Join(e.Notes, ", "), e.Period, cli.Printable(e.Tenant))
	}
	return fmt.Errorf("line %d of invoice %s, %s %s = %s %s: the ledger has no GPU-hours of it any more; %s", e.LineNumber,
		cli.Printable(e.Number), e.Line.Quantity, e.Line.Unit, e.Line.Amount, e.Book.Currency, why)
}

const (
	explainAttempts = 5
	explainPause    = time.Second
)

// explainHour prints the answer. Where data come in meanwhile, the row of an open
// hour may be a moment older than the journal: what doesn't add up then is
// asked again.
func explainHour(ctx context.Context, s *cli.Session, a *app.Access, ask ExplainAsk) error {
	book, err := a.Book(ctx)
	if err != nil {
		return err
	}
	e, err := explain.Explain(ctx, a.DB, ask.Request)
	for range explainAttempts {
		if err != nil || e.Proof.OK || e.Raw != explain.RawKept || e.Figures.Inputs == e.Figures.JournalInputs ||
			a.Run.PID == 0 {
			break
		}
		if err := clock.Sleep(ctx, s.Clock, explainPause); err != nil {
			return err
		}
		e, err = explain.Explain(ctx, a.DB, ask.Request)
	}
	if err != nil {
		return err
	}
	if ask.Zone != nil {
		e.In(ask.Zone)
	}
	answer := listprice.Explanation{Explanation: e}
	if line := ask.evidence; line != nil {
		answer.Invoiced = listprice.InvoicedOf(line, book, e.Hour.Format(time.RFC3339))
		book = line.Book
	}
	price := listprice.Of(book, e, ask.Request)
	answer.Price = price
	if err := printExplanation(s, ask.Output, answer); err != nil {
		return err
	}
	if e.Raw != explain.RawGone && (!e.Proof.OK || !price.Proved) {
		return cli.Quiet("the explanation does not add up")
	}
	return nil
}

func printExplanation(s *cli.Session, o explainOutput, e listprice.Explanation) error {
	if o == cli.AsJSON {
		return s.PrintJSON(e)
	}
	var b strings.Builder
	if e.Invoiced != nil {
		b.WriteString(e.Invoiced.Text())
	}
	if err := e.WriteText(&b); err != nil {
		return err
	}
	b.WriteString(e.Price.Text())
	return s.Writef("%s", b.String())
}
