package main

import "github.com/spf13/cobra"

// The groups of commands, as help lists them.
const (
	askGroup  = "Ask a ledger:"
	helpGroup = "Help and configuration:"
)

type commandGroup struct {
	title    string
	commands []*cobra.Command
}

func (s *session) commandGroups() []commandGroup {
	return []commandGroup{
		{askGroup, []*cobra.Command{
			s.usageCommand(), s.anomaliesCommand(), s.invoiceCommand(), s.exportCommand(),
		}},
		{helpGroup, []*cobra.Command{
			s.configCommand(), s.dashboardsCommand(), s.versionCommand(), s.engineCommand(),
		}},
	}
}
