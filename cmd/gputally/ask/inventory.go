package ask

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/plural"
)

func inventoryTable(gpus []ledger.InventoryGPU) cli.Table {
	t := cli.Table{Columns: cli.Columns("cluster", "gpu", "node", "model", "slices number",
		"state", "first_listed", "last_listed", "closes", "retired_by", "reason")}
	at := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
	for _, g := range gpus {
		state := "present"
		if !g.Present {
			state = "closed"
		}
		if !g.Present && g.LeavesMS <= g.Retired.UnixMilli() {
			state = "retired"
		}
		if state != "retired" {
			g.Who, g.Reason = "", ""
		}
		t.Rows = append(t.Rows, []string{
			g.Cluster, g.GPU, g.Node, g.Model, strconv.FormatUint(uint64(g.Slices), 10), state, at(g.FirstMS), at(g.LastMS),
			at(g.LeavesMS), g.Who, g.Reason,
		})
	}
	return t
}

// retire records the retirement; where no service runs it computes the hours.
func retire(ctx context.Context, s *cli.Session, a *app.Access, l *ledger.Ledger, r ledger.Retirement) error {
	at, err := l.Retire(ctx, r)
	var no *ledger.NotRetirable
	if errors.As(err, &no) {
		return cli.UsageError(err)
	}
	if err != nil {
		return err
	}
	hours := "its hours are computed again by the running service"
	if a.Dir != nil {
		n, err := l.Pass(ctx)
		if err != nil && !ledger.Damaged(err) {
			return err
		}
		hours = plural.Of(n, "hour") + " computed again"
	}
	return s.Writef("GPU %s is retired from %s on; %s\n", cli.Printable(r.GPU), at.Format(time.RFC3339), hours)
}

// Inventory prints every GPU that was ever listed.
func Inventory(ctx context.Context, s *cli.Session) error {
	return app.WithLedger(ctx, s, func(_ *app.Access, l *ledger.Ledger) error {
		gpus, err := l.Inventory(ctx)
		if err != nil {
			return err
		}
		return s.Print(inventoryTable(gpus))
	})
}

// RetireGPU takes a silent GPU out of the inventory.
func RetireGPU(ctx context.Context, s *cli.Session, gpu string, at cli.Instant, cluster, reason string) error {
	if at.At.IsZero() || reason == "" {
		return cli.UsageError(errors.New("--at TIME and --reason TEXT are needed: from when the GPU is gone, and why"))
	}
	r := ledger.Retirement{Cluster: cluster, GPU: gpu, At: at.At, Reason: reason, Who: cmp.Or(s.By, cli.CurrentUser())}
	return app.WithLedger(ctx, s, func(a *app.Access, l *ledger.Ledger) error { return retire(ctx, s, a, l, r) })
}
