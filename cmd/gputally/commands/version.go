package commands

import (
	"context"
	"runtime"

	"github.com/gputally/gputally/cmd/gputally/setup"
	"github.com/gputally/gputally/internal/cli"
)

func versionCommand() cli.Command {
	return cli.Command{
		Use:      "version",
		Short:    "Print the version of gputally and of Go",
		Examples: []string{"gputally version", "what is installed"},
		Run: func(_ context.Context, s *cli.Session, _ []string) error {
			return s.Writef("gputally %s (%s, %s/%s)\n", setup.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}
