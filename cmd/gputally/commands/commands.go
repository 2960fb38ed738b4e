package commands

import (
	"github.com/spf13/cobra"

	"github.com/gputally/gputally/internal/cli"
)

// The groups of commands, as help lists them.
const (
	runGroup   = "Run:"
	askGroup   = "Ask a ledger:"
	mendGroup  = "Mend a ledger:"
	serveGroup = "Run the services, each on its own:"
	helpGroup  = "Help and configuration:"
)

type commandGroup struct {
	title    string
	commands []*cobra.Command
}

func commandGroups(s *cli.Session) []commandGroup {
	return []commandGroup{
		{runGroup, []*cobra.Command{demoCommand(s), standaloneCommand(s), importCommand(s)}},
		{askGroup, []*cobra.Command{
			statusCommand(s), verifyCommand(s), usageCommand(s), explainCommand(s), anomaliesCommand(s), invoiceCommand(s), pricesCommand(s), exportCommand(s), auditCommand(s), policyCommand(s), inventoryCommand(s),
		}},
		{mendGroup, []*cobra.Command{dlqCommand(s), replayCommand(s)}},
		{serveGroup, separateCommands(s)},
		{helpGroup, []*cobra.Command{
			configCommand(s), migrateCommand(s), dashboardsCommand(s), VersionCommand(s), engineCommand(s),
		}},
	}
}
