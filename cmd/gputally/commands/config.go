package commands

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/ask"
	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/cmd/gputally/setup"
	"github.com/gputally/gputally/internal/cli"
)

func configCommand() cli.Command {
	return cli.Command{
		Use:      "config",
		Short:    "Check and show the configuration",
		Examples: []string{"gputally config check gputally.yaml", "find mistakes before a service does"},
		Commands: []cli.Command{configCheckCommand(), configShowCommand(), configProposeCommand()},
	}
}

func configCheckCommand() cli.Command {
	var fleet setup.FleetSize
	return cli.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration: keys, types, values, files it names",
		Long: "Checks FILE, else what --config or $" + settings.ConfigEnv + " names: first keys, types and\n" +
			"secrets, with their lines; if these are right, values and the files it names. Exit code 2 when there is\n" +
			"a mistake; readers without a source are a warning. With --gpus it also estimates, from measured\n" +
			"figures, the disk use of that many GPUs by table, and how long a node's spool lasts.",
		Examples: []string{
			"gputally config check", "check what services would read",
			"gputally config check /etc/gputally/gputally.yaml", "check a file",
			"gputally config check --gpus 1000 --mig 120", "and how much disk 1,000 GPUs take, 120 of them cut into instances",
		},
		Flags: func(flags *pflag.FlagSet) {
			flags.IntVar(&fleet.Gpus, "gpus", 0, "also estimate the disk that `N` GPUs take")
			flags.IntVar(&fleet.Mig, "mig", 0, "of them, `M` are cut into seven instances")
		},
		Run: func(_ context.Context, s *cli.Session, args []string) error {
			return setup.CheckConfig(s, append(args, s.ConfigPath)[0], fleet)
		},
	}
}

func configShowCommand() cli.Command {
	return cli.Command{
		Use:   "show",
		Short: "Print the configuration in force, defaults included",
		Long:  "Prints YAML that is itself a valid configuration. Of a secret it shows where it is read from.",
		Examples: []string{
			"gputally config show > gputally.yaml", "start from the defaults",
			"gputally config show --config FILE", "what FILE comes to",
			"gputally config show --data DIR", "what counts in a data directory",
		},
		Takes: cli.Data,
		Run:   func(_ context.Context, s *cli.Session, _ []string) error { return setup.ShowConfig(s) },
	}
}

func configProposeCommand() cli.Command {
	return cli.Command{
		Use:   "propose",
		Short: "Propose idle power for models that have none, from the cluster's free GPUs",
		Long: "Prints YAML for section exporter or device. A model is proposed if enough free time was measured, and if its\n" +
			"power at work is above its power at rest by more than what an open CUDA context takes. Without --from it\n" +
			"reads the last seven days.",
		Examples: []string{"gputally config propose --data DIR", "what the free GPUs of the last week draw"},
		Takes:    cli.Data | cli.Range,
		Run:      func(ctx context.Context, s *cli.Session, _ []string) error { return ask.ProposeModels(ctx, s) },
	}
}
