package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (s *session) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of gputally and of Go",
		Example: examples("gputally version", "what is installed"),
		Args:    cobra.NoArgs,
		RunE: s.run(func(context.Context, []string) error {
			_, err := fmt.Fprintf(s.stdout, "gputally %s (%s, %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		}),
	}
}

// version is the module's version, or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	settings := map[string]string{}
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	revision := settings["vcs.revision"]
	switch {
	case info.Main.Version != "" && info.Main.Version != "(devel)":
		return info.Main.Version
	case revision == "":
		return "devel"
	case settings["vcs.modified"] == "true":
		return revision[:min(12, len(revision))] + " and changes"
	}
	return revision[:min(12, len(revision))]
}
