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
	zone    zoneFlag
	output  explainOutput
}

func (s *session) explainCommand() *cobra.Command {
	ask := explainAsk{output: outputText}
	var hour fullHour
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Why so much? One GPU in one hour, down to slots, evidence and batches",
		Long: "Takes one GPU-hour of the ledger apart: its capacity, who held what from when to when and at which share,\n" +
			"which evidence made it active, idle or unproven and by which rule, gaps and how they were filled, the batches\n" +
			"behind it and those that lost, energy, and the list price. All of it is derived from what is stored, and the\n" +
			"parts must sum to the ledger's row exactly; where they don't, it says so and exits with 1.",
		Example: examples(
			"gputally explain --data DIR --gpu GPU-0137 --hour 2026-10-03T14:00Z", "a GPU by the beginning of its UUID",
			"gputally explain --data DIR --gpu GPU-0137 --hour 2026-10-03T14:00Z --tenant ml-train --time-zone Europe/Berlin", "for one tenant, in its own time",
			"gputally explain --data DIR --gpu GPU-0137 --hour 2026-10-03T14:00Z --output json", "for scripts",
		),
		Args: cobra.NoArgs,
	}
	data := dataFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&ask.request.GPU, "gpu", "", "the GPU's `UUID`, or a unique beginning of it")
	flags.Var(&hour, "hour", "the `HOUR`, in UTC unless it names an offset")
	flags.StringVar(&ask.request.Cluster, "cluster", "", "the GPU's `CLUSTER`, where several have one of that id")
	flags.StringVar(&ask.request.Leaf, "leaf", "", "only the lines of this `LEAF`, such as a MIG instance")
	flags.StringVar(&ask.request.Tenant, "tenant", "", "only the `TENANT`'s lines")
	flags.Var(&ask.zone, "time-zone", "show times in this `ZONE` too, such as Europe/Berlin")
	flags.VarP(&ask.output, "output", "o", "print the answer as `FORMAT`: text or json")
	for _, name := range []string{"gpu", "hour"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag was defined above
		}
	}
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		ask.request.Hour = hour.at
		if ask.request.GPU == "" {
			return usageError{errors.New(`gpu "": name a GPU by its UUID or a unique beginning of it`)}
		}
		return s.withStore(ctx, *data, func(a *access) error { return s.explain(ctx, a, ask) })
	})
	return cmd
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
		if err := enc.Encode(struct {
			*explain.Explanation
			Price explainPrice `json:"price"`
		}{e, price}); err != nil {
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
