package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/internal/usage"
)

// Into is for pflag.FlagSet.Func: it reads a flag's value with parse.
func Into[T any](into *T, parse func(string) (T, error)) func(string) error {
	return func(text string) (err error) {
		*into, err = parse(text)
		return err
	}
}

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

// choice is a flag that takes one of a few words.
type choice struct {
	to   *string
	kind string
	of   []string
}

// Choice defines a flag that sets to, and refuses any word but those of the list, which
// its help names after usage; short: its one letter, if any.
func Choice[T ~string](flags *pflag.FlagSet, to *string, name, short, usage string, of ...T) {
	c := &choice{to: to}
	for _, word := range of {
		c.of = append(c.of, string(word))
	}
	c.kind, _ = pflag.UnquoteUsage(&pflag.Flag{Usage: usage})
	flags.VarP(c, name, short, usage+": "+strings.Join(c.of, ", "))
}

func (c *choice) String() string { return *c.to }

// Type is what help calls the flag's value.
func (c *choice) Type() string { return c.kind }

// Set takes one of the words.
func (c *choice) Set(text string) error {
	if !slices.Contains(c.of, text) {
		return fmt.Errorf("want one of %s", strings.Join(c.of, ", "))
	}
	*c.to = text
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

// Closed returns whether both ends were given.
func (r *TimeRange) Closed() bool { return !r.From.At.IsZero() && !r.To.At.IsZero() }

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
