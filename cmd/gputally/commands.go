package main

import "github.com/spf13/cobra"

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

func (s *session) commandGroups() []commandGroup {
	return []commandGroup{
		{runGroup, []*cobra.Command{s.demoCommand(), s.standaloneCommand(), s.importCommand()}},
		{askGroup, []*cobra.Command{
			s.statusCommand(), s.verifyCommand(), s.usageCommand(), s.explainCommand(), s.anomaliesCommand(), s.invoiceCommand(), s.pricesCommand(), s.exportCommand(), s.auditCommand(), s.policyCommand(), s.inventoryCommand(),
		}},
		{mendGroup, []*cobra.Command{s.dlqCommand(), s.replayCommand()}},
		{serveGroup, s.separateCommands()},
		{helpGroup, []*cobra.Command{
			s.configCommand(), s.migrateCommand(), s.dashboardsCommand(), s.versionCommand(), s.engineCommand(),
		}},
	}
}
