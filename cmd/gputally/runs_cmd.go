package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/internal/decisions"
)

func (s *session) runsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "Who may send batches that no live collector measured, until when",
		Long: "A batch that is imported, replayed, simulated or a fill is only taken under an open run of its cluster, its\n" +
			"collector and its slots: else it is a dead letter (reason origin). Imports and demo open and end their own;\n" +
			"the run of one that was killed stays open until the same command is given again, or closes by itself.",
		Example: examples("gputally import runs list --data DIR", "all runs, with who opened them"),
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(s.runsListCommand(), s.runsOpenCommand(), s.runsCloseCommand())
	return cmd
}

func (s *session) runsListCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "The runs that are open",
		Example: examples(
			"gputally import runs list --data DIR", "those that are open now",
			"gputally import runs list --data DIR --all --output csv", "all that ever were",
		),
		Args: cobra.NoArgs,
	}
	data, o := dataFlag(cmd), outputFlag(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "those that have ended, too")
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		return s.withBroker(ctx, *data, func(p *pipeline) error {
			if err := p.follow().Refresh(ctx); err != nil {
				return err
			}
			t := table{columns: textColumns([]string{"id", "state", "cluster", "sends", "collector", "slot", "from", "to", "opened", "by", "ends", "ended_by"})}
			p.follow().View(func(state *decisions.State) {
				for _, r := range state.Runs() {
					word, b := "open", &r.Body
					if !s.clock.Now().Before(r.Ends) {
						word = "ended"
					}
					if word == "ended" && !all {
						continue
					}
					t.rows = append(t.rows, []string{
						b.ID, word, b.Cluster, b.Sends, b.Collector, (time.Duration(b.SlotMS) * time.Millisecond).String(),
						b.From.Format(time.RFC3339), b.To.Format(time.RFC3339), r.Appended.Format(time.RFC3339), r.Who, r.Ends.Format(time.RFC3339), r.Ended,
					})
				}
			})
			return t.write(s.stdout, *o, colour(s.stdout))
		})
	})
	return cmd
}

func (s *session) runsOpenCommand() *cobra.Command {
	var r decisions.Run
	var slot time.Duration
	var from, to instant
	cmd := &cobra.Command{
		Use:   "open",
		Short: "Open a run by hand, as to send dead letters of reason origin back",
		Example: examples(
			"gputally import runs open --data DIR --cluster lab --sends import --collector import/lab/allocations --slot 1h --from 2026-03-01 --to 2026-04-01", "for dlq replay --reason origin",
		),
		Args: cobra.NoArgs,
	}
	data, by := dataFlag(cmd), byFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&r.Cluster, "cluster", "", "`NAME` of the cluster")
	flags.StringVar(&r.Sends, "sends", "", "`KIND` of batches: import, replay, simulated or fill")
	flags.StringVar(&r.Collector, "collector", "", "`ID` that the batches carry; '"+decisions.AnyCollector+"' takes any")
	flags.DurationVar(&slot, "slot", 0, "`LENGTH` of the cluster's slots, such as 10s")
	flags.Var(&from, "from", "first `TIME` of the slots, RFC 3339")
	flags.Var(&to, "to", "`TIME` after the last")
	flags.IntVar(&r.Hours, "hours", importRunHours, "`HOURS` after which it closes by itself")
	for _, name := range []string{"cluster", "sends", "collector", "slot", "from", "to"} {
		_ = cmd.MarkFlagRequired(name) // fails only for a flag that isn't there
	}
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		r.SlotMS, r.From, r.To = slot.Milliseconds(), from.at, to.at
		if err := r.Check(); err != nil {
			return usageError{err}
		}
		return s.withBroker(ctx, *data, func(p *pipeline) error {
			if err := p.otherSlots(ctx, r.Cluster, slot); err != nil {
				return err
			}
			id, err := p.newRun(ctx, r, *by)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.stdout, "run %s is open for %d hours; gputally import runs close %s%s ends it\n", id, r.Hours, id, p.access.onData())
			return err
		})
	})
	return cmd
}

func (s *session) runsCloseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "close ID",
		Short:   "End a run: what is appended from now on is not taken under it",
		Example: examples("gputally import runs close JXQ4V2KZ7TBNM --data DIR", "one that a killed import left open"),
		Args:    argumentsOfUse,
	}
	data, by := dataFlag(cmd), byFlag(cmd)
	cmd.RunE = s.run(func(ctx context.Context, args []string) error {
		return s.withBroker(ctx, *data, func(p *pipeline) error {
			if err := p.decide(ctx, decisions.KindRunEnd, "run_end/"+args[0], *by, &decisions.RunEnd{ID: args[0]}); err != nil {
				return err
			}
			return s.writef("run %s has ended\n", args[0])
		})
	})
	return cmd
}

func (s *session) inventoryClusterCommand() *cobra.Command {
	var slot time.Duration
	cmd := &cobra.Command{
		Use:   "cluster NAME",
		Short: "Declare a cluster that live collectors measure, and its slot length",
		Long: "Batches of a cluster that nobody declared are dead letters (reason cluster); dlq replay sends them back. A\n" +
			"standalone declares its own cluster, imports and demo theirs, and ingest takes the one of its configuration\n" +
			"(cluster.name, cluster.slot) as declared. The length never changes: a cluster of another has another name.",
		Example: examples("gputally inventory cluster prod-b --slot 10s --data DIR", "a second cluster on one ledger"),
		Args:    argumentsOfUse,
	}
	data, by := dataFlag(cmd), byFlag(cmd)
	cmd.Flags().DurationVar(&slot, "slot", 0, "`LENGTH` of its slots, such as 10s; divides the hour")
	_ = cmd.MarkFlagRequired("slot") // fails only for a flag that isn't there
	cmd.RunE = s.run(func(ctx context.Context, args []string) error {
		if err := validateSlot(slot); err != nil {
			return usageError{fmt.Errorf("--slot: %w", err)}
		}
		return s.withBroker(ctx, *data, func(p *pipeline) error {
			if err := p.otherSlots(ctx, args[0], slot); err != nil {
				return err
			}
			if err := p.declare(ctx, args[0], slot, *by); err != nil {
				return err
			}
			return s.writef("cluster %s is declared, with slots of %s\n", printable(args[0]), slot)
		})
	})
	return cmd
}

// otherSlots refuses a length other than that which was declared, or that of what
// is stored, where the ledger can be asked.
func (p *pipeline) otherSlots(ctx context.Context, cluster string, slot time.Duration) error {
	log := p.follow()
	if err := log.Refresh(ctx); err != nil {
		return err
	}
	if ms := log.Leave(decisions.Sent{Cluster: cluster}).SlotMS; ms != 0 && ms != slot.Milliseconds() {
		return usageError{fmt.Errorf("slot %s: cluster %q was declared with slots of %s", slot, cluster, time.Duration(ms)*time.Millisecond)}
	}
	if p.access.db == nil {
		return nil
	}
	lengths, err := slotLengths(ctx, p.access.db)
	if err != nil {
		return err
	}
	if ms, ok := lengths[cluster]; ok && ms != slot.Milliseconds() {
		return usageError{fmt.Errorf("slot %s: cluster %q has slots of %s", slot, cluster, time.Duration(ms)*time.Millisecond)}
	}
	return nil
}
