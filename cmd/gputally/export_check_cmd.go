package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/billing/export/focus"
	"github.com/gputally/gputally/billing/export/focus/focuscheck"
)

func (s *session) exportCheckCommand() *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a FOCUS file of anybody's against the specification",
		Long: "Prints each rule that a line breaks, with line, column and value; rules have the ids of FOCUS 1.2's requirements\n" +
			"model. Exit code 1 when there is one. Those rules are checked that a file shows by itself; a file wrong in each\n" +
			"line ends after 10 000.",
		Example: examples(
			"gputally export check focus-1.2-2026-10.csv", "against FOCUS 1.2",
			"gputally export check costs.csv --focus-version 1.4 --output json", "another tool's file, for a script",
		),
		Args: argumentsOfUse,
	}
	cmd.Flags().StringVar(&version, "focus-version", focus.Version12, "`VERSION` of FOCUS: 1.2 or 1.4")
	o := outputFlag(cmd)
	cmd.RunE = s.run(func(_ context.Context, args []string) error {
		if err := (focus.Options{Version: version}).Validate(); err != nil {
			return usageError{err}
		}
		violations, err := checkFocus(args[0], version)
		if err != nil {
			return err
		}
		return s.printViolations(*o, args[0], version, violations)
	})
	return cmd
}

func checkFocus(path, version string) (violations []focuscheck.Violation, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	violations, err = focuscheck.Check(file, focuscheck.Options{Version: version})
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", path, err)
	}
	return violations, nil
}

// printViolations prints what is wrong; a file without is said to be right.
func (s *session) printViolations(o output, path, version string, violations []focuscheck.Violation) error {
	if len(violations) == 0 && o == outputTable {
		return s.writef("%s: breaks no rule of FOCUS %s\n", printable(path), version)
	}
	if err := violationTable(version, violations).write(s.stdout, o, colour(s.stdout)); err != nil {
		return err
	}
	if len(violations) == 0 {
		return nil
	}
	reason := fmt.Sprintf("%s: %d violations of FOCUS %s", path, len(violations), version)
	if o == outputTable {
		s.sayf("%s\n", printable(reason))
	}
	return quietError{reason}
}

func violationTable(version string, violations []focuscheck.Violation) table {
	rules := focuscheck.Rules(version)
	t := table{columns: []column{{name: "line", number: true}, {name: "column"}, {name: "rule"}, {name: "value"}, {name: "requirement", wide: true}}}
	for _, v := range violations {
		text := ""
		if at := slices.IndexFunc(rules, func(r focuscheck.Rule) bool { return r.ID == v.Rule }); at >= 0 {
			text = rules[at].Text
		}
		t.rows = append(t.rows, []string{strconv.Itoa(v.Line), v.Column, v.Rule, v.Value, text})
	}
	return t
}
