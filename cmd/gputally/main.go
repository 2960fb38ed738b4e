// Command gputally turns what GPUs did into a ledger and the ledger into invoices.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/gputally/gputally/cmd/gputally/commands"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal drains; from then on a second one kills.
	context.AfterFunc(ctx, stop)
	code := commands.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
