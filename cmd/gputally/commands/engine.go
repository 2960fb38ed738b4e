package commands

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/store/engine"
)

// engineCommand is the helper process that holds ClickHouse: a crash in C++
// must not take the services down. It ends when its standard input does.
func engineCommand() cli.Command {
	var o engine.Options
	return cli.Command{
		Use:     app.EngineCommandName,
		Short:   "Serve the embedded ClickHouse on a Unix socket (started by the other commands)",
		Hidden:  true,
		Service: true,
		Flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&o.Dir, "dir", "", "the engine's data `DIR`")
			flags.StringVar(&o.Socket, "socket", "", "`PATH` of the Unix socket")
			flags.StringVar(&o.Library, "library", "", "`PATH` of libchdb.so")
			flags.Int64Var(&o.MemoryBytes, "memory-bytes", 0, "memory limit in bytes")
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			o.Log, o.Clock, o.Stdin = s.Log, s.Clock, s.Stdin
			return engine.Serve(ctx, o)
		},
	}
}
