package commands

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/cmd/gputally/setup"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/config"
)

func configCommand(s *cli.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "config",
		Short:   "Check and show the configuration",
		Args:    cobra.NoArgs,
		Example: cli.Examples("gputally config check gputally.yaml", "find mistakes before a service does"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(configCheckCommand(s), configShowCommand(s))
	return cmd
}

func configCheckCommand(s *cli.Session) *cobra.Command {
	var fleet setup.FleetSize
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration: keys, types, values, files it names",
		Long: "Checks FILE, else what --config or $" + settings.ConfigEnv + " names. Every mistake is named\n" +
			"with file, line, key and value; exit code 2 when there is one. With --gpus it also says how much disk such a\n" +
			"fleet takes, by table, and how long a node's spool lasts: measured figures, for planning.",
		Example: cli.Examples(
			"gputally config check", "check what services would read",
			"gputally config check /etc/gputally/gputally.yaml", "check a file",
			"gputally config check --gpus 1000 --mig 120", "and how much disk 1,000 GPUs take, 120 of them cut into instances",
		),
		Args: cobra.MaximumNArgs(1),
		RunE: s.Run(func(_ context.Context, args []string) error {
			if err := fleet.Validate(); err != nil {
				return err
			}
			path, err := settings.Find(append(args, s.ConfigPath)[0], "")
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
			if path == "" {
				path = "built-in defaults"
			}
			if _, err = fmt.Fprintf(s.Stdout, "%s: ok\n", path); err != nil || fleet.Gpus == 0 {
				return err
			}
			return setup.WriteDiskEstimate(s.Stdout, fleet, cfg)
		}),
	}
	cmd.Flags().IntVar(&fleet.Gpus, "gpus", 0, "also estimate the disk that `N` GPUs take")
	cmd.Flags().IntVar(&fleet.Mig, "mig", 0, "of them, `M` are cut into seven instances")
	return cmd
}

func configShowCommand(s *cli.Session) *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print the configuration in force, defaults included",
		Long:  "Prints YAML that is itself a valid configuration. Of a secret it shows where it is read from.",
		Example: cli.Examples(
			"gputally config show > gputally.yaml", "start from the defaults",
			"gputally config show --config FILE", "what FILE comes to",
		),
		Args: cobra.NoArgs,
		RunE: s.Run(func(context.Context, []string) error {
			path, err := settings.Find(s.ConfigPath, data)
			if err != nil {
				return err
			}
			cfg, err := settings.Load(path)
			if err != nil {
				return err
			}
			if path == "" {
				path = "built-in defaults"
			}
			if _, err := fmt.Fprintf(s.Stdout, "# from %s\n", path); err != nil {
				return fmt.Errorf("print configuration: %w", err)
			}
			return config.Encode(s.Stdout, cfg)
		}),
	}
	cmd.Flags().StringVar(&data, "data", "", "data `DIR` whose "+settings.ConfigName+" is shown, where it has one")
	return cmd
}
