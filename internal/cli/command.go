package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Takes says which of the common flags a command has. Their values are fields of
// Session.
type Takes uint16

// The common flags.
const (
	Data    Takes = 1 << iota // --data, which may be left out: then the configured servers are asked
	NewData                   // --data, which is needed; the directory is made where it is missing
	Output                    // --output: table, json or csv
	Period                    // --period, needed
	Range                     // --from and --to
	Tenant                    // --tenant, needed
	By                        // --by
	Key                       // --key
	Content                   // --expect
	Listen                    // --listen
)

// DataEnv is the environment variable used if --data is not given.
const DataEnv = "GPUTALLY_DATA"

// Command is a command as data: what help says of it, its flags, and what runs.
type Command struct {
	// Use is the command's name, followed by a word in capitals for each argument, in
	// brackets where it may be left out.
	Use, Short, Long string
	Aliases          []string
	Examples         []string // pairs: a command line, and what it is for
	Hidden           bool
	Service          bool // runs until it is stopped; logs from level info on
	Resumes          bool // the same command, given again, goes on where this one was stopped

	Takes Takes
	Flags func(flags *pflag.FlagSet) // its own; nil: none
	Needs []string                   // flags that have to be given
	OneOf []string                   // flags of which at least one has to be given
	Apart []string                   // flags of which at most one may be given

	Run      func(ctx context.Context, s *Session, args []string) error
	Commands []Command // below it; without Run it prints its help
}

// Group is a part of the commands, as help lists them.
type Group struct {
	Title    string
	Commands []Command
}

// Root is the command above all others. The last group is that of help itself.
func (c Command) Root(s *Session, groups []Group) *cobra.Command {
	root := c.cobra(s)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return plainFlagError(err) })
	root.Args = nil                // cobra then refuses unknown commands
	root.DisableSuggestions = true // misspelt has them, without tabs, which are not printable
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return s.openLog(cmd) }
	root.CompletionOptions.HiddenDefaultCmd = true
	for _, group := range groups {
		root.AddGroup(&cobra.Group{ID: group.Title, Title: group.Title})
		for _, command := range group.Commands {
			below := command.cobra(s)
			below.GroupID = group.Title
			root.AddCommand(below)
		}
		root.SetHelpCommandGroupID(group.Title)
	}
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Example = examples([]string{root.Name() + " help " + strings.Fields(groups[0].Commands[0].Use)[0], "the help of one command"})
	help.Args = func(_ *cobra.Command, args []string) error {
		if of, left, err := root.Find(args); err != nil || len(left) > 0 {
			return fmt.Errorf("%q has no command %q", of.CommandPath(), strings.Join(left, " "))
		}
		return nil
	}
	return root
}

func (c Command) cobra(s *Session) *cobra.Command {
	cmd := &cobra.Command{
		Use: c.Use, Short: c.Short, Long: strings.TrimPrefix(c.Long, "\n"), Aliases: c.Aliases,
		Example: examples(c.Examples), Hidden: c.Hidden,
		Args: argumentsOfUse, Annotations: map[string]string{},
	}
	if c.Service {
		cmd.Annotations[serviceAnnotation] = ""
	}
	if c.Run == nil {
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	} else {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := c.checkFlags(cmd.Flags().Changed); err != nil {
				return err
			}
			s.Started, s.Command, s.resumes, s.changed = true, cmd.CommandPath(), c.Resumes, cmd.Flags().Changed
			return c.Run(cmd.Context(), s, args)
		}
	}
	c.Needs = append(s.define(cmd.Flags(), c.Takes), c.Needs...)
	if c.Flags != nil {
		c.Flags(cmd.Flags())
	}
	for _, name := range slices.Concat(c.Needs, c.OneOf, c.Apart) {
		if cmd.Flags().Lookup(name) == nil {
			panic(c.Use + " has no flag --" + name)
		}
	}
	for _, below := range c.Commands {
		cmd.AddCommand(below.cobra(s))
	}
	return cmd
}

// define defines the common flags that a command takes, and names those it needs.
func (s *Session) define(flags *pflag.FlagSet, takes Takes) (needs []string) {
	for _, f := range []struct {
		of     Takes
		needed string
		define func()
	}{
		{Data, "", func() {
			flags.StringVar(&s.Data, "data", os.Getenv(DataEnv),
				"data directory `DIR` of a standalone or demo (default $"+DataEnv+"); without one, the configured ClickHouse")
		}},
		{NewData, "data", func() { flags.StringVar(&s.Data, "data", "", "data directory `DIR`, created if it doesn't exist") }},
		{Output, "", func() {
			s.Format = AsTable
			Choice(flags, &s.Format, "output", "o", "print the answer as `FORMAT`", AsTable, AsJSON, AsCSV)
		}},
		{Period, "period", func() {
			flags.Var(&s.Month, "period",
				"the `MONTH`, such as 2026-10, in each tenant's own zone")
		}},
		{Range, "", func() {
			flags.Var(&s.Range.From, "from", "first `TIME`, RFC 3339 (default: the ledger's first hour)")
			flags.Var(&s.Range.To, "to", "`TIME` after the last, RFC 3339 (default: the end of the ledger's last hour)")
		}},
		{Tenant, "tenant", func() { flags.StringVar(&s.Tenant, "tenant", "", "the `TENANT`") }},
		{By, "", func() { flags.StringVar(&s.By, "by", "", "`NAME` of who decides (default: the user that runs this)") }},
		{Key, "", func() {
			flags.StringVar(&s.Key, "key", "",
				"idempotency `KEY`: the same request with it is decided once, however often it is sent")
		}},
		{Content, "", func() {
			flags.StringVar(&s.Expect, "expect", "",
				"`SHA256` of the content that was looked at, or 16 digits of it or more: where it is another one by now, "+
					"nothing is decided")
		}},
		{Listen, "", func() {
			flags.StringVar(&s.Listen, "listen", "",
				"loopback `HOST:PORT` of the HTTP endpoint, or unix: its socket alone (default: the configuration's)")
		}},
	} {
		if takes&f.of == 0 {
			continue
		}
		f.define()
		if f.needed != "" {
			needs = append(needs, f.needed)
		}
	}
	return needs
}

// checkFlags holds the flags that are given against Needs, OneOf and Apart.
func (c Command) checkFlags(given func(flag string) bool) error {
	missing := slices.DeleteFunc(slices.Clone(c.Needs), given)
	if len(missing) > 0 {
		return fmt.Errorf("--%s is missing", strings.Join(missing, ", --"))
	}
	if len(c.OneOf) > 0 && !slices.ContainsFunc(c.OneOf, given) {
		return fmt.Errorf("one of --%s is needed", strings.Join(c.OneOf, ", --"))
	}
	both := slices.DeleteFunc(slices.Clone(c.Apart), func(flag string) bool { return !given(flag) })
	if len(both) > 1 {
		return fmt.Errorf("--%s exclude each other: give one of them", strings.Join(both, " and --"))
	}
	return nil
}

// plainFlagError says in words what a flag takes where the error is that of Go's parser.
func plainFlagError(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	want := map[string]string{
		"bool": "true or false", "duration": "a duration with its unit, such as 10s or 1h",
		"int": "a whole number", "int64": "a whole number", "uint": "a whole number, 0 or more",
	}[invalid.GetFlag().Value.Type()]
	if want == "" {
		return err
	}
	return fmt.Errorf("invalid argument %q for --%s: want %s", invalid.GetValue(), invalid.GetFlag().Name, want)
}

// argumentsOfUse wants an argument for each name after the command's own in Use; one
// in brackets may be left out.
func argumentsOfUse(cmd *cobra.Command, args []string) error {
	names := strings.Fields(cmd.Use)[1:]
	switch {
	case len(args) < len(names) && !strings.HasPrefix(names[len(args)], "["):
		return fmt.Errorf("%s is missing", strings.Join(names[len(args):], " "))
	case len(args) > len(names) && len(names) == 0:
		return fmt.Errorf("argument %q is too much: %q takes none", args[0], cmd.CommandPath())
	case len(args) > len(names):
		return fmt.Errorf("argument %q is too much: want %s", args[len(names)], strings.Join(names, " "))
	}
	return nil
}

// Execute carries out the session's arguments and returns the exit code.
func (s *Session) Execute(ctx context.Context, root *cobra.Command) int {
	root.SetArgs(s.Args)
	root.SetIn(s.Stdin)
	root.SetOut(s.Stdout)
	root.SetErr(s.Stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && !s.Started {
		err = UsageError(fmt.Errorf("%w\n%s", misspelt(root, s.Args, err), hint(root, s.Args)))
	}
	return s.report(ctx, err)
}

// misspelt returns an error that names the unknown subcommand and similar ones, if the
// arguments have one, and err otherwise. Cobra would report an unknown flag of the parent.
func misspelt(root *cobra.Command, args []string, err error) error {
	found, rest, findErr := root.Find(args)
	unknown := findErr != nil || found != root
	if !unknown || !found.HasAvailableSubCommands() || len(rest) == 0 || strings.HasPrefix(rest[0], "-") {
		return err
	}
	near := ""
	found.SuggestionsMinimumDistance = 2 // letters that differ; cobra sets it for the root alone
	if names := found.SuggestionsFor(rest[0]); len(names) > 0 {
		near = ", did you mean " + strings.Join(names, " or ") + "?"
	}
	return fmt.Errorf("unknown command %q for %q%s", rest[0], found.CommandPath(), near)
}

// hint points at the help of the command that was meant.
func hint(root *cobra.Command, args []string) string {
	path := root.CommandPath()
	if found, _, err := root.Find(args); err == nil {
		path = found.CommandPath()
	}
	return fmt.Sprintf("%s --help shows how it is used", path)
}

// examples are pairs of a command line and what it is for, as help shows them.
func examples(pairs []string) string {
	var b strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		fmt.Fprintf(&b, "  # %s\n  %s\n", pairs[i+1], pairs[i])
	}
	return strings.TrimRight(b.String(), "\n")
}

// report prints what went wrong and returns the exit code.
func (s *Session) report(ctx context.Context, err error) int {
	code := ExitCode(ctx, err)
	var quiet quietError
	switch {
	case code == ExitInterrupted && s.resumes:
		err = errors.New("interrupted; the same command goes on from here")
	case code == ExitInterrupted:
		err = errors.New("interrupted")
	}
	if err != nil && !errors.As(err, &quiet) {
		s.Sayf("gputally: %v\n", err)
	}
	return code
}
