package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/internal/store/engine"
)

const engineCommandName = "engine"

// engineCommand is the helper process that holds ClickHouse: a crash in C++
// must not take the services down. It ends when its standard input does.
func (s *session) engineCommand() *cobra.Command {
	var o engine.Options
	cmd := &cobra.Command{
		Use:         engineCommandName,
		Short:       "Serve the embedded ClickHouse on a Unix socket (started by the other commands)",
		Args:        cobra.NoArgs,
		Hidden:      true,
		Annotations: map[string]string{serviceAnnotation: ""},
		RunE: s.run(func(ctx context.Context, _ []string) error {
			o.Log, o.Clock, o.Stdin = s.log, s.clock, s.stdin
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
