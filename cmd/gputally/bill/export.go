package bill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/gputally/gputally/billing/export"
	"github.com/gputally/gputally/billing/export/focus"
	"github.com/gputally/gputally/billing/export/focus/focuscheck"
	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/plural"
)

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

// printViolations prints the violations; for a file without any, that it is valid.
func printViolations(s *cli.Session, path, version string, violations []focuscheck.Violation) error {
	if len(violations) == 0 && s.Format == cli.AsTable {
		return s.Writef("%s: violates no rule of FOCUS %s\n", cli.Printable(path), version)
	}
	if err := s.Print(violationTable(version, violations)); err != nil {
		return err
	}
	if len(violations) == 0 {
		return nil
	}
	reason := fmt.Sprintf("%s: %s of FOCUS %s", path, plural.Of(len(violations), "violation"), version)
	if s.Format == cli.AsTable {
		s.Sayf("%s\n", cli.Printable(reason))
	}
	return cli.Quiet(reason)
}

func violationTable(version string, violations []focuscheck.Violation) cli.Table {
	rules := focuscheck.Rules(version)
	t := cli.Table{Columns: cli.Columns("line number", "column", "rule", "value", "requirement wide")}
	for _, v := range violations {
		text := ""
		if at := slices.IndexFunc(rules, func(r focuscheck.Rule) bool { return r.ID == v.Rule }); at >= 0 {
			text = rules[at].Text
		}
		t.Rows = append(t.Rows, []string{strconv.Itoa(v.Line), v.Column, v.Rule, v.Value, text})
	}
	return t
}

// exportFolder is the directory below which exports are written: --out, else the data directory.
func exportFolder(out, data string) (string, error) {
	if folder := cmp.Or(out, data); folder != "" {
		return folder, nil
	}
	return "", cli.UsageError(errors.New("no directory is given: set --data DIR or --out FOLDER"))
}

// ExportCSV writes a month's invoice lines below a directory; empty: the data directory.
func ExportCSV(ctx context.Context, s *cli.Session, out string) error {
	folder, err := exportFolder(out, s.Data)
	if err != nil {
		return err
	}
	return app.WithRegister(ctx, s, func(p *app.Pipeline) error {
		drafted, err := p.Register.List(ctx, s.Month.Text)
		if err != nil {
			return err
		}
		tellQuarantined(s, drafted)
		path, err := export.Chargeback(folder, drafted)
		if err != nil {
			return err
		}
		return s.Writef("%s\n", path)
	})
}

// FocusVersion is the default version of FOCUS.
const FocusVersion = focus.Version12

// ExportFocus writes a month as FOCUS below a directory; empty: the data directory. validator writes what the
// published validator can read.
func ExportFocus(ctx context.Context, s *cli.Session, out, version string, validator bool) error {
	options := focus.Options{Version: version, Validator: validator}
	folder, err := exportFolder(out, s.Data)
	if err == nil {
		err = options.Validate()
	}
	if err != nil {
		return cli.UsageError(err)
	}
	return app.WithRegister(ctx, s, func(p *app.Pipeline) error {
		options.Config = p.Config.Billing.Focus
		path, _, err := focus.File(folder, s.Month.Text, options, s.Clock.Now(), focus.Bills(ctx, p.Register, s.Month.Text))
		if err != nil {
			return err
		}
		return s.Writef("%s\n", path)
	})
}

// CheckExport prints the rules of FOCUS that a file violates.
func CheckExport(s *cli.Session, path, version string) error {
	if err := (focus.Options{Version: version}).Validate(); err != nil {
		return cli.UsageError(err)
	}
	violations, err := checkFocus(path, version)
	if err != nil {
		return err
	}
	return printViolations(s, path, version, violations)
}
