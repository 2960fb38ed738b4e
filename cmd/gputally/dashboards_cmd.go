package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/dashboards/grafana"
	"github.com/gputally/gputally/dashboards/rules"
)

func (s *session) dashboardsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "dashboards",
		Short:   "Grafana dashboard and Prometheus alert rules",
		Args:    cobra.NoArgs,
		Example: examples("gputally dashboards write ./observability", "the files, to import"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:     "write FOLDER",
		Short:   "Write " + grafana.FileName + " and " + rules.FileName + " into a folder",
		Example: examples("gputally dashboards write ./observability", "the files, to import"),
		Args:    argumentsOfUse,
		RunE:    s.run(func(_ context.Context, args []string) error { return s.writeDashboards(args[0]) }),
	})
	return cmd
}

func (s *session) writeDashboards(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("write dashboards: %w", err)
	}
	for _, file := range []struct {
		name string
		make func() ([]byte, error)
	}{{grafana.FileName, grafana.JSON}, {rules.FileName, rules.YAML}} {
		text, err := file.make()
		if err != nil {
			return err
		}
		path := filepath.Join(folder, file.name)
		if err := writeReadable(path, text); err != nil {
			return fmt.Errorf("write dashboards: %w", err)
		}
		if _, err := fmt.Fprintln(s.stdout, path); err != nil {
			return fmt.Errorf("print path: %w", err)
		}
	}
	return nil
}

// writeReadable writes for other users' services: Grafana and Prometheus read
// these files, which hold no secret.
func writeReadable(path string, text []byte) error {
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return err
	}
	return os.Chmod(path, 0o644) // an older file, or a strict umask
}
