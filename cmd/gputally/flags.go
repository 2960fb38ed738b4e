package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/internal/usage"
)

const dataEnv = "GPUTALLY_DATA"

func dataFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("data", os.Getenv(dataEnv), "data `DIR`ectory of a standalone or demo (default $"+dataEnv+"); without one, the configured ClickHouse")
}

// argumentsOfUse wants one argument for each name after the command's own in Use.
func argumentsOfUse(cmd *cobra.Command, args []string) error {
	names := strings.Fields(cmd.Use)[1:]
	switch {
	case len(args) < len(names):
		return fmt.Errorf("%s is missing", strings.Join(names[len(args):], " "))
	case len(args) > len(names):
		return fmt.Errorf("%q is too much: want %s", args[len(names)], strings.Join(names, " "))
	}
	return nil
}

// instant is a flag's point in time: RFC 3339, or a date, which is its first
// instant in UTC.
type instant struct{ at time.Time }

// String is empty where no time was given.
func (i *instant) String() string {
	if i.at.IsZero() {
		return ""
	}
	return i.at.Format(time.RFC3339)
}

// Type is what help calls the flag's value.
func (i *instant) Type() string { return "TIME" }

// Set reads RFC 3339 or 2006-01-02.
func (i *instant) Set(text string) error {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		at, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		i.at = at.UTC()
		return usage.InYears(i.at)
	}
	return errors.New("want a time such as 2026-10-01T00:00:00Z, or a date")
}

// timeRange is --from and --to.
type timeRange struct{ from, to instant }

func rangeFlags(cmd *cobra.Command) *timeRange {
	r := &timeRange{}
	cmd.Flags().Var(&r.from, "from", "first `TIME`, RFC 3339 (default: the ledger's first hour)")
	cmd.Flags().Var(&r.to, "to", "`TIME` after the last, RFC 3339 (default: the end of the ledger's last hour)")
	return r
}
