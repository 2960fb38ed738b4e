// Package setup checks the configuration, estimates disk usage, migrates tables, and writes dashboards and alert
// rules.
package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/dashboards/grafana"
	"github.com/gputally/gputally/dashboards/rules"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/config"
	"github.com/gputally/gputally/internal/plural"
	"github.com/gputally/gputally/internal/store"
)

// WriteDashboards writes the dashboard and the alert rules into a directory, and prints their paths.
func WriteDashboards(s *cli.Session, folder string) error {
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
		if err := s.Writef("%s\n", path); err != nil {
			return err
		}
	}
	return nil
}

// writeReadable writes a file for other users' services: Grafana and Prometheus read these files, which contain no
// secret.
func writeReadable(path string, text []byte) error {
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return err
	}
	return os.Chmod(path, 0o644) // for an older file, or a strict umask
}

// Migrate migrates the tables of the configured server or cluster.
func Migrate(ctx context.Context, s *cli.Session, cluster string) (err error) {
	a, err := app.OpenStore(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	migrate := a.DB.Migrate
	if cluster != "" {
		migrate = func(ctx context.Context) (int, error) { return a.DB.MigrateCluster(ctx, cluster) }
	}
	applied, err := migrate(ctx)
	if err != nil {
		return err
	}
	return s.Writef("%s: %s applied\n", a.DB.Database(), plural.Of(applied, "migration"))
}

// PrintMigrations prints every statement of the migrations.
func PrintMigrations(s *cli.Session, cluster string) error {
	cfg, err := app.ConfigOf(s)
	if err != nil {
		return err
	}
	statements, err := store.Statements(cfg.ClickHouse.Database, cluster)
	if err != nil {
		return cli.UsageError(err)
	}
	for i, statement := range statements {
		text := statement + ";\n\n"
		if i == 0 {
			text += "USE " + cfg.ClickHouse.Database + ";\n\n"
		}
		if err := s.Verbatim(text); err != nil {
			return err
		}
	}
	return nil
}

// Version is the module's version, or the commit from which it was built.
func Version() string {
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

// CheckConfig checks the configuration at path, else the one in force, and the files that it names. For a non-empty
// fleet it also estimates disk usage.
func CheckConfig(s *cli.Session, path string, fleet FleetSize) error {
	if err := fleet.Validate(); err != nil {
		return err
	}
	path, err := settings.Find(path, "")
	if err != nil {
		return err
	}
	cfg, err := settings.Read(path)
	if err != nil {
		return err
	}
	if err := errors.Join(cfg.Validate(), cfg.LoadFiles()); err != nil {
		return cli.UsageError(fmt.Errorf("check %s: %w", path, err))
	}
	if len(cfg.Attribution.Readers) > 0 && cfg.SourceName() == "" {
		s.Sayf("warning: %s: attribution.readers is set, but there is no source, so no GPU is metered: set collector.source "+
			"to dcgm or nvml, or name exporter.targets\n", path)
	}
	if err := s.Writef("%s: ok\n", cmp.Or(path, builtIn)); err != nil || fleet.Gpus == 0 {
		return err
	}
	return writeDiskEstimate(s.Stdout, fleet, cfg)
}

// builtIn is shown as the path of a configuration if no file is read.
const builtIn = "built-in defaults"

// ShowConfig prints the configuration in force as a configuration file.
func ShowConfig(s *cli.Session) error {
	path, err := settings.Find(s.ConfigPath, s.Data)
	if err != nil {
		return err
	}
	cfg, err := settings.Load(path)
	if err != nil {
		return err
	}
	if err := s.Writef("# from %s\n", cmp.Or(path, builtIn)); err != nil {
		return err
	}
	return config.Encode(s.Stdout, cfg)
}
