package bill

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/gputally/gputally/billing/export/focus/focuscheck"
	"github.com/gputally/gputally/internal/cli"
)

func CheckFocus(path, version string) (violations []focuscheck.Violation, err error) {
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

// PrintViolations prints what is wrong; a file without is said to be right.
func PrintViolations(s *cli.Session, o cli.Output, path, version string, violations []focuscheck.Violation) error {
	if len(violations) == 0 && o == cli.OutputTable {
		return s.Writef("%s: breaks no rule of FOCUS %s\n", cli.Printable(path), version)
	}
	if err := violationTable(version, violations).Write(s.Stdout, o, cli.Colour(s.Stdout)); err != nil {
		return err
	}
	if len(violations) == 0 {
		return nil
	}
	reason := fmt.Sprintf("%s: %d violations of FOCUS %s", path, len(violations), version)
	if o == cli.OutputTable {
		s.Sayf("%s\n", cli.Printable(reason))
	}
	return cli.Quiet(reason)
}

func violationTable(version string, violations []focuscheck.Violation) cli.Table {
	rules := focuscheck.Rules(version)
	t := cli.Table{Columns: []cli.Column{{Name: "line", Number: true}, {Name: "column"}, {Name: "rule"}, {Name: "value"}, {Name: "requirement", Wide: true}}}
	for _, v := range violations {
		text := ""
		if at := slices.IndexFunc(rules, func(r focuscheck.Rule) bool { return r.ID == v.Rule }); at >= 0 {
			text = rules[at].Text
		}
		t.Rows = append(t.Rows, []string{strconv.Itoa(v.Line), v.Column, v.Rule, v.Value, text})
	}
	return t
}

// ExportFolder is where exports go: beside the data, unless told otherwise.
func ExportFolder(out, data string) (string, error) {
	if folder := cmp.Or(out, data); folder != "" {
		return folder, nil
	}
	return "", cli.UsageError(errors.New("no folder is named: give --data DIR or --out FOLDER"))
}
