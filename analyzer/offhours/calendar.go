package offhours

import (
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // time zones must not depend on the host
)

// Calendar is when people of a tenant work, as configured.
type Calendar struct {
	// Zone is an IANA time zone such as Europe/Berlin.
	Zone string `yaml:"zone"`
	// Working lists the working windows; other time is off-hours.
	Working []Window `yaml:"working"`
	// Holidays are dates, such as 2026-12-25, on which no window begins.
	Holidays []string `yaml:"holidays"`
	// MakeUp are dates with the windows of another day of the week.
	MakeUp map[string]string `yaml:"make_up"`
}

// Window is [From, To) in local time; it begins on each of the days.
type Window struct {
	Days []string `yaml:"days"` // mon, tue, wed, thu, fri, sat, sun
	From string   `yaml:"from"` // 15:04
	To   string   `yaml:"to"`   // 15:04; 24:00 is midnight; not later than From: on the next day
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// late is how long after a working window somebody may still be at work, in minutes.
const late = 3 * 60

// window is minutes of the local day on which it begins; to may exceed a day.
type window struct{ from, to int }

// calendar is a Calendar that was read.
type calendar struct {
	zone    *time.Location
	days    [7][]window
	special map[string][]window // by date
	// daytime are the hours of the day at which people work on any day, and late after.
	daytime [24]bool
}

func newCalendar(c Calendar) (*calendar, error) {
	zone, err := time.LoadLocation(c.Zone)
	if err != nil || c.Zone == "" || c.Zone == "Local" {
		return nil, fmt.Errorf("zone %q: want an IANA time zone such as Europe/Berlin", c.Zone)
	}
	cal := &calendar{zone: zone, special: map[string][]window{}}
	for i, w := range c.Working {
		if err := cal.add(w); err != nil {
			return nil, fmt.Errorf("working[%d]: %w", i, err)
		}
	}
	for date, like := range c.MakeUp {
		day, err := weekday(like)
		if err == nil {
			_, err = time.Parse(time.DateOnly, date)
		}
		if err != nil {
			return nil, fmt.Errorf("make_up %q: %w", date, err)
		}
		cal.special[date] = cal.days[day]
	}
	for _, date := range c.Holidays {
		if _, err := time.Parse(time.DateOnly, date); err != nil {
			return nil, fmt.Errorf("holidays: %q: want a date such as 2026-12-25", date)
		}
		if _, both := cal.special[date]; both {
			return nil, fmt.Errorf("%s is in holidays and in make_up", date)
		}
		cal.special[date] = nil
	}
	return cal, nil
}

func (c *calendar) add(w Window) error {
	from, err := minuteOfDay("from", w.From)
	if err != nil {
		return err
	}
	to, err := minuteOfDay("to", w.To)
	if err != nil {
		return err
	}
	if to <= from {
		to += 24 * 60
	}
	if len(w.Days) == 0 {
		return fmt.Errorf("days is empty: name at least one of mon, tue, wed, thu, fri, sat, sun")
	}
	for _, name := range w.Days {
		day, err := weekday(name)
		if err != nil {
			return fmt.Errorf("days: %w", err)
		}
		c.days[day] = append(c.days[day], window{from, to})
	}
	for minute := from; minute < to+late; minute++ {
		c.daytime[minute/60%24] = true
	}
	return nil
}

func weekday(name string) (int, error) {
	day := slices.Index(weekdays, strings.ToLower(name))
	if day < 0 {
		return 0, fmt.Errorf("%q: want mon, tue, wed, thu, fri, sat or sun", name)
	}
	return day, nil
}

func minuteOfDay(field, text string) (int, error) {
	if text == "24:00" {
		return 24 * 60, nil
	}
	t, err := time.Parse("15:04", text)
	if err != nil {
		return 0, fmt.Errorf("%s %q: want a time of day such as 08:00", field, text)
	}
	return t.Hour()*60 + t.Minute(), nil
}

// windows are those that begin on the local date of t.
func (c *calendar) windows(t time.Time) []window {
	if len(c.special) > 0 {
		if w, there := c.special[t.Format(time.DateOnly)]; there {
			return w
		}
	}
	return c.days[t.Weekday()]
}

// off reports whether the UTC hour that begins at start has no working time.
func (c *calendar) off(start time.Time) bool {
	end := start.Add(time.Hour)
	local := start.In(c.zone)
	year, month, day := local.Date()
	for back := range 2 {
		// Noon exists on every date; midnight doesn't.
		for _, w := range c.windows(time.Date(year, month, day-back, 12, 0, 0, 0, c.zone)) {
			from := time.Date(year, month, day-back, 0, w.from, 0, 0, c.zone)
			to := time.Date(year, month, day-back, 0, w.to, 0, 0, c.zone)
			if from.Before(end) && to.After(start) {
				return false
			}
		}
	}
	// The hour may reach into the next local date, where the zone's offset is not a
	// whole number of hours.
	for _, w := range c.windows(time.Date(year, month, day+1, 12, 0, 0, 0, c.zone)) {
		if time.Date(year, month, day+1, 0, w.from, 0, 0, c.zone).Before(end) {
			return false
		}
	}
	return true
}

// place is where an hour lies in local time.
type place struct {
	ofWeek  int16 // 0 to 167
	working bool  // the date has working time
}

func (c *calendar) place(start time.Time) place {
	local := start.In(c.zone)
	return place{ofWeek: int16(int(local.Weekday())*24 + local.Hour()), working: len(c.windows(local)) > 0}
}
