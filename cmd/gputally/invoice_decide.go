package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/billing/invoice"
)

// byFlag names who decides.
func byFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("by", "", "`NAME` of who decides (default: the user that runs this)")
}

func keyFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("key", "", "idempotency `KEY`: the same request with it is decided once, however often it is sent")
}

// contentFlag names what was looked at.
func contentFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("expect", "", "`SHA256` of the content that was looked at, or 16 digits of it or more: where it is another one by now, nothing is decided")
}

func (s *session) invoiceFinaliseCommand() *cobra.Command {
	var tenants []string
	var withoutUsage, withoutUnpriced bool
	cmd := &cobra.Command{
		Use:     "finalise",
		Aliases: []string{"finalize"},
		Short:   "Let a month's invoices stand for ever",
		Long: "Only closed hours can be finalised. Each invoice keeps its own copy of the usage it follows from, and is never\n" +
			"changed again: what comes later is a credit or debit note (invoice adjustments, invoice note). Without --tenant\n" +
			"it finalises every tenant's; what stands already stays. A price book that was not published yet is published.\n" +
			"A month of which the ledger has no hour is refused, unless --without-usage says that it is meant; so is one with usage\n" +
			"of models that the price book has no rate for, unless --without-unpriced says so: that usage and its tenants are left\n" +
			"out, and nothing of its hours is shared out, for ever. What is refused leaves nothing behind.",
		Example: examples(
			"gputally invoice finalise --data DIR --period 2026-10", "all of a month",
			"gputally invoice finalise --data DIR --period 2026-10 --tenant ml-train --by finance", "one tenant's",
			"gputally invoice finalise --data DIR --period 2026-10 --tenant ml-train --expect c3b6c210e10fe877", "only what invoice list showed",
		),
		Args: cobra.NoArgs,
	}
	data, o, month, by, key, expect := dataFlag(cmd), outputFlag(cmd), periodFlag(cmd), byFlag(cmd), keyFlag(cmd), contentFlag(cmd)
	cmd.Flags().StringArrayVar(&tenants, "tenant", nil, "a `TENANT`; may be repeated (default: all)")
	cmd.Flags().BoolVar(&withoutUsage, "without-usage", false, "finalise though the ledger has no hour of the month")
	cmd.Flags().BoolVar(&withoutUnpriced, "without-unpriced", false, "leave out the tenants who used a model that the price book has no rate for")
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		if (*key != "" || *expect != "") && len(tenants) != 1 {
			return usageError{errors.New("--key is for one --tenant, and so is --expect")}
		}
		return s.withRegister(ctx, *data, func(p *pipeline) error {
			p.warnOfPrices(ctx)
			bar := newProgress(s.stderr, s.clock, "finalise")
			defer bar.Clear()
			done, err := p.register.Finalise(ctx, invoice.FinaliseRequest{
				Period: month.text, Tenants: tenants, Who: cmp.Or(*by, currentUser(), "unknown"), Key: *key,
				Expect: *expect, WithoutUsage: withoutUsage, WithoutUnpriced: withoutUnpriced,
				Progress: func(done, total int) { bar.Set(int64(done), int64(total)) },
			})
			bar.Clear()
			if err != nil && len(done) == 0 {
				return err
			}
			return errors.Join(err, decidedTable(done).write(s.stdout, *o, colour(s.stdout)))
		})
	})
	return cmd
}

func decidedTable(done []invoice.Decided) table {
	t := table{columns: append(textColumns([]string{"number", "tenant", "kind", "currency"}), exactColumn("total"),
		column{name: "outcome"}, column{name: "content_sha256", wide: true})}
	for _, d := range done {
		outcome := "finalised"
		if d.Already {
			outcome = "stood already"
		}
		t.rows = append(t.rows, []string{d.Number, d.Tenant, d.Kind, d.Currency, d.Total, outcome, d.Content})
	}
	return t
}

func (s *session) invoiceAdjustmentsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "adjustments",
		Short: "List the finalised invoices whose usage changed since",
		Long: "Late or corrected data, or another tenant mapping, change hours that were invoiced. Each tenant's pending\n" +
			"adjustment is shown with its reason and the note it would come to; invoice note decides one.",
		Example: examples("gputally invoice adjustments --data DIR --period 2026-10", "what changed since October was invoiced"),
		Args:    cobra.NoArgs,
	}
	data, o, month := dataFlag(cmd), outputFlag(cmd), periodFlag(cmd)
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		return s.withRegister(ctx, *data, func(p *pipeline) error {
			found, err := p.register.Adjustments(ctx, month.text)
			if err != nil {
				return err
			}
			if *o == outputJSON {
				return s.printDocument(found)
			}
			if len(found) == 0 && *o == outputTable {
				_, err := fmt.Fprintf(s.stdout, "No adjustment is pending in %s.\n", month.text)
				return err
			}
			return adjustmentTable(found).write(s.stdout, *o, colour(s.stdout))
		})
	})
	return cmd
}

func adjustmentTable(found []invoice.Adjustment) table {
	t := table{columns: append(textColumns([]string{"note", "tenant", "kind", "currency"}), exactColumn("total"),
		exactColumn("gpu_hours"), column{name: "changed_hours", number: true}, column{name: "ready"}, column{name: "reason", wide: true},
		column{name: "content_sha256", wide: true})}
	for _, a := range found {
		ready := "yes"
		if !a.Closed {
			ready = "no: " + a.Open
		}
		t.rows = append(t.rows, []string{
			a.Note.Number, a.Note.Tenant, a.Note.Kind, a.Note.Currency, a.Note.Total.String(), a.Note.GPUHours.String(), strconv.Itoa(a.Hours), ready, a.Reason, a.Content,
		})
	}
	return t
}

func (s *session) invoiceNoteCommand() *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use:   "note",
		Short: "Decide the credit or debit note of a pending adjustment",
		Long: "The note is what the tenant's month comes to now, by the invoice's own price book, distribution and supplied hours,\n" +
			"less the invoice and its earlier notes. The invoice stays as it is, byte for byte.",
		Example: examples("gputally invoice note --data DIR --period 2026-10 --tenant ml-train", "correct October's invoice"),
		Args:    cobra.NoArgs,
	}
	data, o, month, by, key, expect := dataFlag(cmd), outputFlag(cmd), periodFlag(cmd), byFlag(cmd), keyFlag(cmd), contentFlag(cmd)
	tenantFlag(cmd, &tenant)
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		return s.withRegister(ctx, *data, func(p *pipeline) error {
			done, err := p.register.Correct(ctx, invoice.CorrectRequest{
				Period: month.text, Tenant: tenant, Who: cmp.Or(*by, currentUser(), "unknown"), Key: *key, Expect: *expect,
			})
			if err != nil {
				return err
			}
			return decidedTable([]invoice.Decided{done}).write(s.stdout, *o, colour(s.stdout))
		})
	})
	return cmd
}

func (s *session) invoiceApproveCommand() *cobra.Command {
	var tenant, comment string
	cmd := &cobra.Command{
		Use:   "approve",
		Short: "Approve what finalising, or the note, would decide",
		Long: "Where the policy or billing.approvals wants it, an invoice or note stands only if somebody other than who decides it has approved\n" +
			"exactly these bytes. --expect says which: the content of the draft (invoice list, invoice show) or of the pending note\n" +
			"(invoice adjustments) that was looked at; where it is another one by now, nothing is approved. Names are what --by\n" +
			"says: without access control nobody proves who they are.",
		Example: examples("gputally invoice approve --data DIR --period 2026-10 --tenant ml-train --expect c3b6c210e10fe877 --by auditor", "the second pair of eyes"),
		Args:    cobra.NoArgs,
	}
	data, month, by, expect := dataFlag(cmd), periodFlag(cmd), byFlag(cmd), contentFlag(cmd)
	if err := cmd.MarkFlagRequired("expect"); err != nil {
		panic(err) // the flag was defined a line above
	}
	tenantFlag(cmd, &tenant)
	cmd.Flags().StringVar(&comment, "comment", "", "`TEXT` to keep with it")
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		return s.withRegister(ctx, *data, func(p *pipeline) error {
			done, err := p.register.Approve(ctx, invoice.ApproveRequest{
				Period: month.text, Tenant: tenant, Who: cmp.Or(*by, currentUser(), "unknown"), Comment: comment, Expect: *expect,
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.stdout, "%s over %s %s is approved with the content %s\n", printable(done.Number), grouped(done.Total), done.Currency, done.Content)
			return err
		})
	})
	return cmd
}

func (s *session) invoiceVerifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify NUMBER",
		Short: "Recompute a finalised invoice or note from its own copy of usage",
		Long: "Rates the usage copy by the price book it names and compares the document byte for byte (C8); exits with 1 when they\n" +
			"differ. It also says whether the ledger's usage has changed since.",
		Example: examples("gputally invoice verify 2026-10-ml-train-r0 --data DIR", "does it still follow?"),
		Args:    argumentsOfUse,
	}
	data, o := dataFlag(cmd), outputFlag(cmd)
	cmd.RunE = s.run(func(ctx context.Context, args []string) error {
		return s.withRegister(ctx, *data, func(p *pipeline) error {
			verdict, err := p.register.Verify(ctx, args[0])
			if err != nil {
				return err
			}
			if err := s.printVerdict(*o, verdict); err != nil || verdict.Same {
				return err
			}
			return quietError{"the invoice does not follow from its usage"}
		})
	})
	return cmd
}

func (s *session) printVerdict(o output, v *invoice.Verdict) error {
	if o == outputJSON {
		return s.printDocument(v)
	}
	result, pending := "same bytes", "no"
	if !v.Same {
		result = "DIFFERS: " + v.Wrong
	}
	if v.Pending {
		pending = "yes: see invoice adjustments"
	}
	t := table{columns: append(textColumns([]string{"number"}), exactColumn("total"), column{name: "pending_adjustment"},
		column{name: "result", wide: true}, column{name: "content_sha256", wide: true}, column{name: "usage_sha256", wide: true})}
	t.rows = [][]string{{v.Number, v.Total, pending, result, v.Content, v.Usage}}
	return t.write(s.stdout, o, colour(s.stdout))
}

func (s *session) invoiceEvidenceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "evidence NUMBER LINE",
		Short: "Go from a line of a finalised invoice back to GPU-hours and batches",
		Long: "LINE counts from 1, as invoice show lists them. Each row is a GPU's hour with the tenant's part of it, and the number\n" +
			"and hash of its node's batches; gputally explain goes on from there. Hours of which the ledger says otherwise by\n" +
			"now are named.",
		Example: examples("gputally invoice evidence 2026-10-ml-train-r0 1 --data DIR", "what the first line rests on"),
		Args:    argumentsOfUse,
	}
	data, o := dataFlag(cmd), outputFlag(cmd)
	cmd.RunE = s.run(func(ctx context.Context, args []string) error {
		line, err := strconv.Atoi(args[1])
		if err != nil || line < 1 {
			return usageError{fmt.Errorf("line %q: want a number from 1 on", args[1])}
		}
		return s.withRegister(ctx, *data, func(p *pipeline) error {
			evidence, err := p.register.Evidence(ctx, args[0], line)
			if errors.Is(err, invoice.ErrNoEvidence) {
				return usageError{err}
			}
			if err != nil {
				return err
			}
			return s.printEvidence(*o, evidence)
		})
	})
	return cmd
}

func (s *session) printEvidence(o output, e *invoice.Evidence) error {
	if o == outputJSON {
		return s.printDocument(e)
	}
	t := table{columns: append(textColumns([]string{"hour", "cluster", "node", "gpu", "leaf", "profile", "project", "user", "workload"}),
		column{name: "slice_ms", number: true}, column{name: "slices", number: true}, column{name: "batches", number: true}, column{name: "batches_sha256"})}
	for _, g := range e.GPUHours {
		t.rows = append(t.rows, []string{
			g.Hour, g.Cluster, g.Node, g.GPU, g.Leaf, g.Profile, g.Project, g.User, g.Workload,
			g.SliceMS, strconv.Itoa(g.Slices), strconv.FormatUint(g.Batches, 10), g.BatchHash,
		})
	}
	if err := t.write(s.stdout, o, colour(s.stdout)); err != nil || o != outputTable {
		return err
	}
	moved := "the ledger agrees with every one of them"
	if len(e.Moved) > 0 {
		moved = fmt.Sprintf("of %d the ledger says otherwise by now: %s to %s", len(e.Moved), e.Moved[0], e.Moved[len(e.Moved)-1])
	}
	_, err := fmt.Fprintf(s.stdout, "\n%s, line %d: these are of %d UTC hours in its own copy of usage; %s\n", printable(e.Number), e.LineNumber, e.Hours, moved)
	return err
}
