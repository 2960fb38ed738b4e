package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/billing/api"
	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/ingest/explain"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/usage"
)

// outputText is the form for reading that explain has instead of a table.
const outputText = "text"

// explainOutput is explain's flag --output.
type explainOutput string

func (o *explainOutput) String() string { return string(*o) }

// Type is what help calls the flag's value.
func (o *explainOutput) Type() string { return "FORMAT" }

// Set takes text or json.
func (o *explainOutput) Set(value string) error {
	if !slices.Contains([]string{outputText, outputJSON}, value) {
		return errors.New("want text or json")
	}
	*o = explainOutput(value)
	return nil
}

// fullHour is the flag --hour.
type fullHour struct{ at time.Time }

// String is empty where no hour was given.
func (h *fullHour) String() string {
	if h.at.IsZero() {
		return ""
	}
	return h.at.Format(time.RFC3339)
}

// Type is what help calls the flag's value.
func (h *fullHour) Type() string { return "HOUR" }

// Set reads RFC 3339, with or without minutes and seconds; the ledger's hours
// are full ones in UTC.
func (h *fullHour) Set(text string) error {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15Z07:00"} {
		at, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		at = at.UTC()
		if err := usage.InYears(at); err != nil {
			return err
		}
		if full := at.Truncate(time.Hour); !at.Equal(full) {
			return fmt.Errorf("want a full hour in UTC; the one around it is %s", full.Format(time.RFC3339))
		}
		h.at = at
		return nil
	}
	return errors.New("want an hour such as 2026-10-03T14:00Z")
}

// zoneFlag is the flag --time-zone.
type zoneFlag struct{ zone *time.Location }

// String is empty where no zone was given.
func (z *zoneFlag) String() string {
	if z.zone == nil {
		return ""
	}
	return z.zone.String()
}

// Type is what help calls the flag's value.
func (z *zoneFlag) Type() string { return "ZONE" }

// Set takes a name of the IANA time-zone database.
func (z *zoneFlag) Set(name string) error {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		return errors.New("want a zone such as Europe/Berlin")
	}
	z.zone = zone
	return nil
}

// explainAsk is what the command line asks.
type explainAsk struct {
	request explain.Request
	invoice string
	line    int
	zone    zoneFlag
	output  explainOutput
}

func (a *explainAsk) validate() error {
	named := 0
	for _, name := range []string{a.request.GPU, a.request.Pod, a.request.Job, a.invoice} {
		if name != "" {
			named++
		}
	}
	switch {
	case named != 1:
		return errors.New("name one of --gpu, --pod, --job and --invoice")
	case a.invoice == "" && a.request.Hour.IsZero():
		return errors.New("--hour is missing: name an hour such as 2026-10-03T14:00Z")
	case a.invoice != "" && a.line < 1:
		return errors.New("--line is missing: name a line of the invoice, from 1 on")
	}
	return nil
}

func (s *session) explainCommand() *cobra.Command {
	ask := explainAsk{output: outputText}
	var hour fullHour
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Why so much? One GPU in one hour, in words, by reason and evidence, down to batches",
		Long: "Says in words who pays for a GPU-hour and why, then shows it piece by piece: who held what from when to when and\n" +
			"at which share, which evidence made it active, idle or unproven, which gaps were filled or not, energy, and the list\n" +
			"price. The hour is computed again from raw and compared with the ledger's row; where they differ, the exit code is 1.\n" +
			"Name the GPU by its id, or by its node and index; or the pod or job that held it; or a line of a decided invoice, of\n" +
			"which the GPU-hour with the most time is explained.",
		Example: examples(
			"gputally explain --data DIR --gpu GPU-0137 --hour 2026-10-03T14:00Z", "a GPU by the beginning of its UUID",
			"gputally explain --data DIR --gpu node-7/3 --hour 2026-10-03T14:00Z --all", "a GPU by node and index, with the batches",
			"gputally explain --data DIR --pod ml/train-0 --hour 2026-10-03T14:00Z --time-zone Europe/Berlin", "what a pod held, in its own time",
			"gputally explain --data DIR --invoice 2026-10-ml-train-r0 --line 1", "the GPU-hour that counts most in a line",
			"gputally explain --data DIR --gpu GPU-0137 --hour 2026-10-03T14:00Z --output json", "for scripts",
		),
		Args: cobra.NoArgs,
	}
	data := dataFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&ask.request.GPU, "gpu", "", "the GPU's `ID`, a unique beginning of it, or NODE/INDEX")
	flags.StringVar(&ask.request.Pod, "pod", "", "the GPU that this `POD` held: NAMESPACE/NAME, a name or a UID")
	flags.StringVar(&ask.request.Job, "job", "", "the GPU that this `JOB` held, by its id")
	flags.StringVar(&ask.invoice, "invoice", "", "the `NUMBER` of a decided invoice, with --line")
	flags.IntVar(&ask.line, "line", 0, "the invoice's `LINE`, from 1 on")
	flags.Var(&hour, "hour", "the `HOUR`, in UTC unless it names an offset")
	flags.StringVar(&ask.request.Cluster, "cluster", "", "the GPU's `CLUSTER`, where several have one of that id")
	flags.StringVar(&ask.request.Leaf, "leaf", "", "only the lines of this `LEAF`, such as a MIG instance")
	flags.StringVar(&ask.request.Tenant, "tenant", "", "only the `TENANT`'s lines")
	flags.BoolVar(&ask.request.All, "all", false, "list the batches behind it, too, and those that lost")
	flags.Var(&ask.zone, "time-zone", "show times in this `ZONE` too, such as Europe/Berlin")
	flags.VarP(&ask.output, "output", "o", "print the answer as `FORMAT`: text or json")
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		ask.request.Hour = hour.at
		if err := ask.validate(); err != nil {
			return usageError{err}
		}
		if ask.invoice != "" {
			if err := s.lineToHour(ctx, *data, &ask); err != nil {
				return err
			}
		}
		return s.withStore(ctx, *data, func(a *access) error { return s.explain(ctx, a, ask) })
	})
	return cmd
}

// lineToHour asks for the GPU-hour with the most time of an invoice's line, and
// says so on standard error.
func (s *session) lineToHour(ctx context.Context, data string, ask *explainAsk) error {
	return s.withRegister(ctx, data, func(p *pipeline) error {
		e, err := p.register.Evidence(ctx, ask.invoice, ask.line)
		if errors.Is(err, invoice.ErrNoEvidence) {
			return usageError{err}
		}
		if err != nil {
			return err
		}
		g := e.Largest()
		if g == nil {
			return fmt.Errorf("line %d of invoice %s: the ledger has no GPU-hours of it any more", ask.line, ask.invoice)
		}
		ask.request.GPU, ask.request.Cluster = g.GPU, g.Cluster
		ask.request.Hour, err = time.Parse(time.RFC3339, g.Hour)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.stderr, "line %d of invoice %s has %d parts of GPU-hours (gputally invoice evidence lists them); this is the largest\n",
			ask.line, printable(ask.invoice), len(e.GPUHours))
		return err
	})
}

// explain answers the finance API's question as the command prints it for scripts.
func (p *pipeline) explain(ctx context.Context, q *api.Explanation, hour time.Time) (any, error) {
	request := explain.Request{
		GPU: q.GPU, Pod: q.Pod, Job: q.Job, Hour: hour, Cluster: q.Cluster, Leaf: q.Leaf, Tenant: q.Tenant, All: q.All,
	}
	e, err := explain.Explain(ctx, p.finance, request)
	if err != nil {
		return nil, err
	}
	book, err := p.register.Book(ctx)
	if err != nil {
		return nil, err
	}
	return explained{e, priceOf(book, e, request)}, nil
}

// explained is an explanation with its price.
type explained struct {
	*explain.Explanation
	Price explainPrice `json:"price"`
}

const (
	explainAttempts = 5
	explainPause    = time.Second
)

// explain prints the answer. Where data come in meanwhile, the row of an open
// hour may be a moment older than the journal: what doesn't add up then is
// asked again.
func (s *session) explain(ctx context.Context, a *access, ask explainAsk) error {
	book, err := a.book(ctx)
	if err != nil {
		return err
	}
	e, err := explain.Explain(ctx, a.db, ask.request)
	for range explainAttempts {
		if err != nil || e.Proof.OK || e.Raw != explain.RawKept || e.Figures.Inputs == e.Figures.JournalInputs || a.run.PID == 0 {
			break
		}
		if err := clock.Sleep(ctx, s.clock, explainPause); err != nil {
			return err
		}
		e, err = explain.Explain(ctx, a.db, ask.request)
	}
	if err != nil {
		return err
	}
	if ask.zone.zone != nil {
		e.In(ask.zone.zone)
	}
	price := priceOf(book, e, ask.request)
	if err := s.printExplanation(ask.output, e, price); err != nil {
		return err
	}
	if e.Raw != explain.RawGone && (!e.Proof.OK || !price.Proved) {
		return quietError{"the explanation does not add up"}
	}
	return nil
}

func (s *session) printExplanation(o explainOutput, e *explain.Explanation, price explainPrice) error {
	if o == outputJSON {
		enc := json.NewEncoder(s.stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		if err := enc.Encode(explained{e, price}); err != nil {
			return fmt.Errorf("print explanation: %w", err)
		}
		return nil
	}
	var b strings.Builder
	if err := e.WriteText(&b); err != nil {
		return err
	}
	b.WriteString(price.text())
	if _, err := io.WriteString(s.stdout, printableLines(b.String())); err != nil {
		return fmt.Errorf("print explanation: %w", err)
	}
	return nil
}
