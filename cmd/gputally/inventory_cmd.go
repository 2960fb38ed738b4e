package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/gputally/gputally/ingest/ledger"
)

func (s *session) inventoryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "inventory",
		Short:   "The GPUs that there are, and taking one out",
		Args:    cobra.NoArgs,
		Example: examples("gputally inventory list --data DIR", "every GPU, where it is and until when"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(s.inventoryListCommand(), s.inventoryRetireCommand(), s.inventoryClusterCommand())
	return cmd
}

func (s *session) inventoryListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Every GPU that was ever listed: where, since when, until when",
		Long: "A GPU is capacity from the first slot that lists it until 24 hours after the last, or until it is retired;\n" +
			"one that is listed again is there again. A pool's slices are thousandths of a GPU; one of unknown capacity is\n" +
			"there only while it is listed.",
		Example: examples(
			"gputally inventory list --data DIR", "for people",
			"gputally inventory list --data DIR --output csv", "for scripts",
		),
		Args: cobra.NoArgs,
	}
	data, o := dataFlag(cmd), outputFlag(cmd)
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		return s.withLedger(ctx, *data, func(_ *access, l *ledger.Ledger) error {
			boards, err := l.Boards(ctx)
			if err != nil {
				return err
			}
			return boardTable(boards).write(s.stdout, *o, colour(s.stdout))
		})
	})
	return cmd
}

func boardTable(boards []ledger.Board) table {
	t := table{columns: append(textColumns([]string{"cluster", "gpu", "node", "model"}), column{name: "slices", number: true})}
	t.columns = append(t.columns, textColumns([]string{"state", "first_listed", "last_listed", "closes", "retired_by", "reason"})...)
	at := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
	for _, b := range boards {
		state := "present"
		if !b.Present {
			state = "closed"
		}
		if !b.Present && b.ClosesMS <= b.Retired.UnixMilli() {
			state = "retired"
		}
		if state != "retired" {
			b.Who, b.Reason = "", ""
		}
		t.rows = append(t.rows, []string{
			b.Cluster, b.GPU, b.Node, b.Model, strconv.FormatUint(uint64(b.Slices), 10), state, at(b.FirstMS), at(b.LastMS), at(b.ClosesMS), b.Who, b.Reason,
		})
	}
	return t
}

func (s *session) inventoryRetireCommand() *cobra.Command {
	var r ledger.Retirement
	var at instant
	cmd := &cobra.Command{
		Use:   "retire GPU",
		Short: "Take a silent GPU out of the inventory before its 24 hours are over",
		Long: "Closes the GPU's inventory at the start of the slot that --at lies in: from then on it is no capacity, neither\n" +
			"free nor lost nor unobserved. The hours concerned are computed again. Who did it, when and why is kept for\n" +
			"ever. A GPU that is still listed can't be retired, and one that is listed again opens again by itself.",
		Example: examples(
			`gputally inventory retire GPU-6f1c… --at 2026-10-05T14:00:00Z --reason "board swapped" --data DIR`, "a swapped board",
		),
		Args: argumentsOfUse,
	}
	data := dataFlag(cmd)
	cmd.Flags().Var(&at, "at", "`TIME` from which it is gone, RFC 3339")
	cmd.Flags().StringVar(&r.Reason, "reason", "", "`TEXT` that says why")
	cmd.Flags().StringVar(&r.Who, "by", "", "`NAME` of who retires it (default: the user that runs this)")
	cmd.Flags().StringVar(&r.Cluster, "cluster", "", "`NAME` of its cluster, where several have listed it")
	cmd.RunE = s.run(func(ctx context.Context, args []string) error {
		if at.at.IsZero() || r.Reason == "" {
			return usageError{errors.New("--at TIME and --reason TEXT are needed")}
		}
		r.GPU, r.At, r.Who = args[0], at.at, cmp.Or(r.Who, currentUser())
		return s.withLedger(ctx, *data, func(a *access, l *ledger.Ledger) error { return s.retire(ctx, a, l, r) })
	})
	return cmd
}

// retire records the retirement; where no service runs it computes the hours.
func (s *session) retire(ctx context.Context, a *access, l *ledger.Ledger, r ledger.Retirement) error {
	at, err := l.Retire(ctx, r)
	var no *ledger.NotRetirable
	if errors.As(err, &no) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	hours := "its hours are computed again by the running service"
	if a.dir != nil {
		n, err := l.Pass(ctx)
		if err != nil && !ledger.Damaged(err) {
			return err
		}
		hours = strconv.Itoa(n) + " hours computed again"
	}
	_, err = fmt.Fprintf(s.stdout, "GPU %s is retired from %s on; %s\n", printable(r.GPU), at.Format(time.RFC3339), hours)
	return err
}

// currentUser is for the record only; empty where the system has no name.
func currentUser() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// withLedger asks the ledger in dataDir, under the mapping it was published with.
func (s *session) withLedger(ctx context.Context, dataDir string, ask func(*access, *ledger.Ledger) error) error {
	return s.withStore(ctx, dataDir, func(a *access) error {
		cfg := a.cfg.Ledger
		cfg.KeepMapping = true
		l, err := ledger.New(cfg, ledger.Deps{Store: a.db, Clock: s.clock, Log: s.log, Registry: prometheus.NewRegistry()})
		if err != nil {
			return err
		}
		return ask(a, l)
	})
}
