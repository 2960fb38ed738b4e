package commandtest

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/cmd/gputally/commands"
	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/cli"
)

func TestEveryCommandHasHelpWithExamples(t *testing.T) {
	s := &cli.Session{}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Short == "" || (cmd.Example == "" && !cmd.Hidden) {
			t.Errorf("%s: short %q, example %q: want both", cmd.CommandPath(), cmd.Short, cmd.Example)
		}
		got := programtest.Invoke(t, append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		if got.Code != cli.ExitOK || !strings.Contains(got.Stdout, "Usage:") || got.Stderr != "" {
			t.Errorf("%s --help: got %+v", cmd.CommandPath(), got)
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(commands.Root(s))
}

func TestWrongCommandLinesAreUsageErrors(t *testing.T) {
	for line, want := range map[string]string{
		"confg":                       `unknown command "confg" for "gputally", did you mean config?` + "\n",
		"frobnicate":                  `unknown command "frobnicate" for "gputally"` + "\n",
		"config chek":                 `unknown command "chek" for "gputally config"`,
		"config chek --data DIR":      `unknown command "chek" for "gputally config", did you mean check?`,
		"invoice frobnicate --data D": `unknown command "frobnicate" for "gputally invoice"` + "\n",
		"invoice --data D":            "unknown flag: --data",
		"invoice verify":              "NUMBER is missing",
		"invoice evidence 2026-10-a":  "LINE is missing",

		"invoice evidence 2026-10-a --line x":   `LINE "x": want a number`,
		"invoice evidence 2026-10-a 1 --line 1": "give one of them",
		"prices diff a b c":                     `"c" is too much: want OLD NEW`,
		"config check a b":                      `"b" is too much: want [FILE]`,
		"version --frobnicate":                  "unknown flag: --frobnicate",
		"version --log-level loud":              `log level "loud": want debug, info, warn or error`,
		"config show --config":                  "flag needs an argument",
		"config check no/such/a.yaml":           "no/such/a.yaml: no such file or directory",
	} {
		got := programtest.Invoke(t, strings.Fields(line)...)
		if got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, want) || got.Stdout != "" {
			t.Errorf("gputally %s: got %+v, want code %d and %q", line, got, cli.ExitUsage, want)
		}
	}
	if got := programtest.Invoke(t, "invoice", "finalize",
		"--help"); got.Code != cli.ExitOK || !strings.Contains(got.Stdout, "gputally invoice finalise") {
		t.Errorf("the other spelling: got %+v", got)
	}
	if got := programtest.Invoke(t, "invoice", "show", "--help"); strings.Contains(got.Stdout, "default -1") {
		t.Errorf("help names a revision that there isn't: %s", got.Stdout)
	}
	if got := programtest.Invoke(t, "verson"); !strings.Contains(got.Stderr, "version") {
		t.Errorf("a near miss: got %q, want a suggestion", got.Stderr)
	}
}

func TestVersion(t *testing.T) {
	got := programtest.Invoke(t, "version")
	if got.Code != cli.ExitOK || !strings.HasPrefix(got.Stdout, "gputally ") || got.Stderr != "" {
		t.Errorf("version: got %+v", got)
	}
}
