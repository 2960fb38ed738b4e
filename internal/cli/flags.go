package cli

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/internal/usage"
)

// Place is a flag's partition and offset.
type Place struct {
	Partition int
	Offset    int64
	Given     bool
}

// String is empty where no place was given.
func (p *Place) String() string {
	if !p.Given {
		return ""
	}
	return strconv.Itoa(p.Partition) + "/" + strconv.FormatInt(p.Offset, 10)
}

// Type is what help calls the flag's value.
func (p *Place) Type() string { return "PLACE" }

// Set reads partition/offset, as in 0/17.
func (p *Place) Set(text string) error {
	partition, offset, _ := strings.Cut(text, "/")
	var errs [2]error
	var number int64
	number, errs[0] = strconv.ParseInt(partition, 10, 32)
	p.Offset, errs[1] = strconv.ParseInt(offset, 10, 64)
	if errors.Join(errs[:]...) != nil || number < 0 || p.Offset < 0 {
		return fmt.Errorf("want PARTITION/OFFSET, such as 0/17")
	}
	p.Partition, p.Given = int(number), true
	return nil
}

const DataEnv = "GPUTALLY_DATA"

func DataFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("data", os.Getenv(DataEnv), "data `DIR`ectory of a standalone or demo (default $"+DataEnv+"); without one, the configured ClickHouse")
}

// ArgumentsOfUse wants one argument for each name after the command's own in Use.
func ArgumentsOfUse(cmd *cobra.Command, args []string) error {
	names := strings.Fields(cmd.Use)[1:]
	switch {
	case len(args) < len(names):
		return fmt.Errorf("%s is missing", strings.Join(names[len(args):], " "))
	case len(args) > len(names):
		return fmt.Errorf("%q is too much: want %s", args[len(names)], strings.Join(names, " "))
	}
	return nil
}

// Instant is a flag's point in time: RFC 3339, or a date, which is its first
// instant in UTC.
type Instant struct{ At time.Time }

// String is empty where no time was given.
func (i *Instant) String() string {
	if i.At.IsZero() {
		return ""
	}
	return i.At.Format(time.RFC3339)
}

// Type is what help calls the flag's value.
func (i *Instant) Type() string { return "TIME" }

// Set reads RFC 3339 or 2006-01-02.
func (i *Instant) Set(text string) error {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		at, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		i.At = at.UTC()
		return usage.InYears(i.At)
	}
	return errors.New("want a time such as 2026-10-01T00:00:00Z, or a date")
}

// TimeRange is --from and --to.
type TimeRange struct{ From, To Instant }

func RangeFlags(cmd *cobra.Command) *TimeRange {
	r := &TimeRange{}
	cmd.Flags().Var(&r.From, "from", "first `TIME`, RFC 3339 (default: the ledger's first hour)")
	cmd.Flags().Var(&r.To, "to", "`TIME` after the last, RFC 3339 (default: the end of the ledger's last hour)")
	return r
}

// CurrentUser is for the record only; empty where the system has no name.
func CurrentUser() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// Month is a month such as 2026-10.
type Month struct{ Text string }

func (p *Month) String() string { return p.Text }

// Type is what help calls the flag's value.
func (p *Month) Type() string { return "MONTH" }

// Set takes a month that there is.
func (p *Month) Set(text string) error {
	month, err := time.Parse("2006-01", text)
	if err == nil {
		err = usage.InYears(month)
	}
	if err != nil {
		return errors.New("want a month such as 2026-10")
	}
	p.Text = text
	return nil
}

func PeriodFlag(cmd *cobra.Command) *Month {
	p := &Month{}
	cmd.Flags().Var(p, "period", "the `MONTH`, such as 2026-10, in each tenant's own zone")
	if err := cmd.MarkFlagRequired("period"); err != nil {
		panic(err) // the flag was defined a line above
	}
	return p
}

// TenantFlag is the tenant a command is about.
func TenantFlag(cmd *cobra.Command, tenant *string) {
	cmd.Flags().StringVar(tenant, "tenant", "", "the `TENANT`")
	if err := cmd.MarkFlagRequired("tenant"); err != nil {
		panic(err) // the flag was defined a line above
	}
}

// ByFlag names who decides.
func ByFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("by", "", "`NAME` of who decides (default: the user that runs this)")
}

func KeyFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("key", "", "idempotency `KEY`: the same request with it is decided once, however often it is sent")
}

// ContentFlag names what was looked at.
func ContentFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("expect", "", "`SHA256` of the content that was looked at, or 16 digits of it or more: where it is another one by now, nothing is decided")
}

// String is the range as it was asked for, in words; empty: all there is.
func (r *TimeRange) String() string {
	switch {
	case r.From.At.IsZero() && r.To.At.IsZero():
		return ""
	case r.To.At.IsZero():
		return "from " + r.From.String() + " on"
	case r.From.At.IsZero():
		return "before " + r.To.String()
	}
	return "from " + r.From.String() + " to " + r.To.String()
}
