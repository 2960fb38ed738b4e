package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/internal/config"
)

func (s *session) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "config",
		Short:   "Check and show the configuration",
		Args:    cobra.NoArgs,
		Example: examples("gputally config check gputally.yaml", "find mistakes before a service does"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(s.configCheckCommand(), s.configShowCommand())
	return cmd
}

func (s *session) configCheckCommand() *cobra.Command {
	var fleet fleetSize
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration: keys, types, values, files it names",
		Long: "Checks FILE, else what --config or $" + configEnv + " names. Every mistake is named\n" +
			"with file, line, key and value; exit code 2 when there is one. With --gpus it also says how much disk such a\n" +
			"fleet takes, by table, and how long a node's spool lasts: measured figures, for planning.",
		Example: examples(
			"gputally config check", "check what services would read",
			"gputally config check /etc/gputally/gputally.yaml", "check a file",
			"gputally config check --gpus 1000 --mig 120", "and how much disk 1,000 GPUs take, 120 of them cut into instances",
		),
		Args: cobra.MaximumNArgs(1),
		RunE: s.run(func(_ context.Context, args []string) error {
			if err := fleet.validate(); err != nil {
				return err
			}
			path, err := findConfig(append(args, s.configPath)[0], "")
			if err != nil {
				return err
			}
			cfg, err := readConfig(path)
			if err != nil {
				return err
			}
			if err := errors.Join(cfg.Validate(), cfg.loadFiles()); err != nil {
				return usageError{fmt.Errorf("check %s: %w", path, err)}
			}
			if path == "" {
				path = "built-in defaults"
			}
			if _, err = fmt.Fprintf(s.stdout, "%s: ok\n", path); err != nil || fleet.gpus == 0 {
				return err
			}
			return writeDiskEstimate(s.stdout, fleet, cfg)
		}),
	}
	cmd.Flags().IntVar(&fleet.gpus, "gpus", 0, "also estimate the disk that `N` GPUs take")
	cmd.Flags().IntVar(&fleet.mig, "mig", 0, "of them, `M` are cut into seven instances")
	return cmd
}

func (s *session) configShowCommand() *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print the configuration in force, defaults included",
		Long:  "Prints YAML that is itself a valid configuration. Of a secret it shows where it is read from.",
		Example: examples(
			"gputally config show > gputally.yaml", "start from the defaults",
			"gputally config show --config FILE", "what FILE comes to",
		),
		Args: cobra.NoArgs,
		RunE: s.run(func(context.Context, []string) error {
			path, err := findConfig(s.configPath, data)
			if err != nil {
				return err
			}
			cfg, err := loadConfig(path)
			if err != nil {
				return err
			}
			if path == "" {
				path = "built-in defaults"
			}
			if _, err := fmt.Fprintf(s.stdout, "# from %s\n", path); err != nil {
				return fmt.Errorf("print configuration: %w", err)
			}
			return config.Encode(s.stdout, cfg)
		}),
	}
	cmd.Flags().StringVar(&data, "data", "", "data `DIR` whose "+configName+" is shown, where it has one")
	return cmd
}
