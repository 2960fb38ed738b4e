package offhours

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // time zones must not depend on the host
)

const (
	minutesPerDay  = 24 * 60
	minutesPerWeek = 7 * minutesPerDay
)

var weekdays = map[string]time.Weekday{
	"sun": time.Sunday, "mon": time.Monday, "tue": time.Tuesday, "wed": time.Wednesday,
	"thu": time.Thursday, "fri": time.Friday, "sat": time.Saturday,
}

// calendar knows for every minute of the week whether it is working time.
type calendar struct {
	zone    *time.Location
	working [minutesPerWeek]bool
}

func newCalendar(c Calendar) (*calendar, error) {
	zone, err := time.LoadLocation(c.Zone)
	if err != nil || c.Zone == "" || c.Zone == "Local" {
		return nil, fmt.Errorf("zone %q: must be an IANA time zone such as Europe/Berlin", c.Zone)
	}
	cal := &calendar{zone: zone}
	for i, w := range c.Working {
		if err := cal.mark(w); err != nil {
			return nil, fmt.Errorf("working window %d: %w", i+1, err)
		}
	}
	return cal, nil
}

func (c *calendar) mark(w Window) error {
	from, err := minuteOfDay("from", w.From)
	if err != nil {
		return err
	}
	to, err := minuteOfDay("to", w.To)
	if err != nil {
		return err
	}
	if from >= to {
		return fmt.Errorf("from %s to %s: from must be before to; split a window at midnight", w.From, w.To)
	}
	if len(w.Days) == 0 {
		return fmt.Errorf("days: must name at least one day")
	}
	for _, name := range w.Days {
		day, ok := weekdays[strings.ToLower(name)]
		if !ok {
			return fmt.Errorf("days: %q: must be mon, tue, wed, thu, fri, sat or sun", name)
		}
		for m := from; m < to; m++ {
			c.working[int(day)*minutesPerDay+m] = true
		}
	}
	return nil
}

func minuteOfDay(field, text string) (int, error) {
	if text == "24:00" {
		return minutesPerDay, nil
	}
	t, err := time.Parse("15:04", text)
	if err != nil {
		return 0, fmt.Errorf("%s %q: must be a time of day such as 08:00", field, text)
	}
	return t.Hour()*60 + t.Minute(), nil
}

// offHour reports whether the UTC hour that begins at start has no minute of working
// time. Each minute is tested separately, because the zone's offset may change within
// the hour and needn't be a whole number of hours.
func (c *calendar) offHour(start time.Time) bool {
	for m := range 60 {
		local := start.Add(time.Duration(m) * time.Minute).In(c.zone)
		if c.working[int(local.Weekday())*minutesPerDay+local.Hour()*60+local.Minute()] {
			return false
		}
	}
	return true
}
