package rating

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Period is a calendar month; its hours depend on the zone.
type Period struct {
	Year  int
	Month time.Month
}

// The years of valid periods: those that ClickHouse's DateTime covers completely in every zone.
const (
	minYear = 1971
	maxYear = 2105
)

// ParsePeriod parses a month such as "2026-03".
func ParsePeriod(text string) (Period, error) {
	at, err := time.Parse("2006-01", text)
	if err != nil {
		return Period{}, fmt.Errorf("parse period %q: not a month such as 2026-03", text)
	}
	if at.Year() < minYear || at.Year() > maxYear {
		return Period{}, fmt.Errorf("parse period %q: not a month of the years %d to %d", text, minYear, maxYear)
	}
	return Period{at.Year(), at.Month()}, nil
}

// PeriodOf is the month that contains an instant, in a zone.
func PeriodOf(at time.Time, zone *time.Location) Period {
	local := at.In(zone)
	return Period{local.Year(), local.Month()}
}

// Periods are the months that contain the instants, in any of the zones, ascending.
func Periods(at []time.Time, zones []*time.Location) []Period {
	var out []Period
	for _, t := range at {
		for _, zone := range zones {
			out = append(out, PeriodOf(t, zone))
		}
	}
	slices.SortFunc(out, func(a, b Period) int {
		return cmp.Or(cmp.Compare(a.Year, b.Year),
			cmp.Compare(a.Month, b.Month))
	})
	return slices.Compact(out)
}

// Before is the period some months earlier.
func (p Period) Before(months int) Period {
	return PeriodOf(time.Date(p.Year, p.Month-time.Month(months), 1, 0, 0, 0, 0, time.UTC), time.UTC)
}

// String is the month as "2026-03".
func (p Period) String() string {
	return fmt.Sprintf("%04d-%02d", p.Year, int(p.Month))
}

// margin is greater than any zone's offset from UTC.
const margin = 24 * time.Hour

// Range is every UTC hour that is in the month in some zone: from (inclusive) a day before the UTC month to
// (exclusive) a day after it.
func (p Period) Range() (from, to time.Time) {
	start := time.Date(p.Year, p.Month, 1, 0, 0, 0, 0, time.UTC)
	return start.Add(-margin), start.AddDate(0, 1, 0).Add(margin)
}

// Hours are the UTC hours that start in the month in a zone, ascending (R17). Only those within margin of the UTC
// month's ends need the zone's calendar.
func (p Period) Hours(zone *time.Location) []time.Time {
	from, to := p.Range()
	hours := make([]time.Time, 0, 745)
	for hour := from; hour.Before(to); hour = hour.Add(time.Hour) {
		inner := !hour.Before(from.Add(2*margin)) && hour.Before(to.Add(-2*margin))
		if inner || PeriodOf(hour, zone) == p {
			hours = append(hours, hour)
		}
	}
	return hours
}

// Bounds are the first UTC hour of the month in a zone and the one after its last.
func (p Period) Bounds(zone *time.Location) (from, to time.Time) {
	hours := p.Hours(zone)
	return hours[0], hours[len(hours)-1].Add(time.Hour)
}

// month is a period in one zone, with its hours as a set of Unix seconds.
type month struct {
	hours []time.Time
	set   map[int64]bool
}

func newMonth(p Period, zone *time.Location) *month {
	m := &month{hours: p.Hours(zone), set: map[int64]bool{}}
	for _, hour := range m.hours {
		m.set[hour.Unix()] = true
	}
	return m
}

func (m *month) has(hour time.Time) bool { return m.set[hour.Unix()] }
