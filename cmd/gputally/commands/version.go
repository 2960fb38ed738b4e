package commands

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/cmd/gputally/setup"
	"github.com/gputally/gputally/internal/cli"
)

func VersionCommand(s *cli.Session) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of gputally and of Go",
		Example: cli.Examples("gputally version", "what is installed"),
		Args:    cobra.NoArgs,
		RunE: s.Run(func(context.Context, []string) error {
			_, err := fmt.Fprintf(s.Stdout, "gputally %s (%s, %s/%s)\n", setup.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		}),
	}
}
