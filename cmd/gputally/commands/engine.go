package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/store/engine"
)

// engineCommand is the helper process that holds ClickHouse: a crash in C++
// must not take the services down. It ends when its standard input does.
func engineCommand(s *cli.Session) *cobra.Command {
	var o engine.Options
	cmd := &cobra.Command{
		Use:         app.EngineCommandName,
		Short:       "Serve the embedded ClickHouse on a Unix socket (started by the other commands)",
		Args:        cobra.NoArgs,
		Hidden:      true,
		Annotations: map[string]string{cli.ServiceAnnotation: ""},
		RunE: s.Run(func(ctx context.Context, _ []string) error {
			o.Log, o.Clock, o.Stdin = s.Log, s.Clock, s.Stdin
			return engine.Serve(ctx, o)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Dir, "dir", "", "the engine's data `DIR`")
	flags.StringVar(&o.Socket, "socket", "", "`PATH` of the Unix socket")
	flags.StringVar(&o.Library, "library", "", "`PATH` of libchdb.so")
	flags.Int64Var(&o.MemoryBytes, "memory-bytes", 0, "memory limit in bytes")
	return cmd
}
