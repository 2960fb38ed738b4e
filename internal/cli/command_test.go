package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/gputally/gputally/internal/clock"
)

// invocation is what a command saw of its command line.
type invocation struct {
	Args   []string
	Data   string
	Format string
	Tenant string
	N      int
	Given  bool
}

// TestCommandGetsItsFlagsAndArguments holds the table of a command against what its
// code gets, or the exit code of a wrong command line.
func TestCommandGetsItsFlagsAndArguments(t *testing.T) {
	t.Setenv(DataEnv, "/from/environment")
	for line, want := range map[string]struct {
		code int
		got  invocation
	}{
		"ask A --tenant t":                       {0, invocation{[]string{"A"}, "/from/environment", AsTable, "t", 1, false}},
		"ask A B --tenant t -o csv --data D":     {0, invocation{[]string{"A", "B"}, "D", AsCSV, "t", 1, false}},
		"ask A --tenant secret --data D":         {0, invocation{[]string{"A"}, "D", AsTable, "secret", 1, false}},
		"ask A --tenant t --n 5 --output json":   {0, invocation{[]string{"A"}, "/from/environment", AsJSON, "t", 5, true}},
		"ask --tenant t":                         {code: ExitUsage}, // A is missing
		"ask A B C --tenant t":                   {code: ExitUsage}, // C is too much
		"ask A":                                  {code: ExitUsage}, // --tenant is missing
		"ask A --tenant t --output xml":          {code: ExitUsage},
		"ask A --tenant t --n 5 --m 5":           {code: ExitUsage}, // they exclude each other
		"ask A --tenant t --by alice":            {code: ExitUsage}, // it takes no such flag
		"fail":                                   {code: ExitFailed},
		"fail --log-level x":                     {code: ExitUsage},
		"group":                                  {code: ExitOK}, // its help
		"group nothing":                          {code: ExitUsage},
		"help group deep":                        {code: ExitOK},
		"help nothing":                           {code: ExitUsage},
		"help group nothing":                     {code: ExitUsage},
		"group deep --from 2026-03-01":           {code: ExitOK},
		"group deep --from 2026-03-01T25:00:00Z": {code: ExitUsage},
	} {
		var got invocation
		var n, m int
		s := &Session{
			Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, Clock: clock.Real(),
			Args: strings.Fields(line),
		}
		root := Command{Use: "program", Short: "for a test"}.Root(s, []Group{{Title: "All:", Commands: []Command{
			{
				Use: "ask A [B]", Takes: Data | Output | Tenant, Apart: []string{"n", "m"},
				Flags: func(flags *pflag.FlagSet) {
					flags.IntVar(&n, "n", 1, "")
					flags.IntVar(&m, "m", 1, "")
				},
				Run: func(_ context.Context, s *Session, args []string) error {
					got = invocation{args, s.Data, s.Format, s.Tenant, n, s.Given("n")}
					return nil
				},
			},
			{Use: "fail", Run: func(context.Context, *Session, []string) error { return Quiet("why") }},
			{Use: "group", Commands: []Command{
				{Use: "deep", Takes: Range, Run: func(context.Context, *Session, []string) error { return nil }},
			}},
		}}})
		root.PersistentFlags().StringVar(&s.LogLevel, "log-level", "", "")
		code := s.Execute(t.Context(), root)
		if strings.Contains(s.CommandLine(), "secret") {
			t.Errorf("%s: a command line for files is %q, want no flag's value but --data", line, s.CommandLine())
		}
		if code != want.code || !cmp.Equal(got, want.got) {
			t.Errorf("%s: exit code %d, %+v; want %d, %+v", line, code, got, want.code, want.got)
		}
	}
}
