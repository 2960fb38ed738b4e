package rating

import (
	"sync"
	"testing"
	"time"
)

// A zone of the slow model: minutes east of UTC, and when summer time begins
// and ends, by rule. It asks no time-zone database, so that a wrong use of one
// cannot hide; the rules are those of the years 2023 to 2030.
type slowZone struct {
	standard, summer int
	begins, ends     *sunday
}

// sunday is an instant of every year: minutes of UTC after (or before) the
// midnight that begins the first Sunday of a month on or after a day.
type sunday struct {
	month   time.Month
	day     int
	minutes int
}

func (s *sunday) of(year int) time.Time {
	at := time.Date(year, s.month, s.day, 0, 0, 0, 0, time.UTC)
	for at.Weekday() != time.Sunday {
		at = at.AddDate(0, 0, 1)
	}
	return at.Add(time.Duration(s.minutes) * time.Minute)
}

var (
	europeBegins, europeEnds   = &sunday{time.March, 25, 60}, &sunday{time.October, 25, 60}
	zealandBegins, zealandEnds = &sunday{time.September, 24, -600}, &sunday{time.April, 1, -600}
)

var slowZones = map[string]slowZone{
	"UTC":                 {},
	"Europe/London":       {0, 60, europeBegins, europeEnds},
	"Europe/Berlin":       {60, 120, europeBegins, europeEnds},
	"America/New_York":    {-300, -240, &sunday{time.March, 8, 420}, &sunday{time.November, 1, 360}},
	"America/St_Johns":    {-210, -150, &sunday{time.March, 8, 330}, &sunday{time.November, 1, 270}},
	"America/Santiago":    {-240, -180, &sunday{time.September, 2, 240}, &sunday{time.April, 2, 180}},
	"Australia/Lord_Howe": {630, 660, &sunday{time.October, 1, -510}, &sunday{time.April, 1, -540}},
	"Australia/Adelaide":  {570, 630, &sunday{time.October, 1, -450}, &sunday{time.April, 1, -450}},
	"Pacific/Chatham":     {765, 825, zealandBegins, zealandEnds},
	"Pacific/Auckland":    {720, 780, zealandBegins, zealandEnds},
	"Asia/Kolkata":        {standard: 330},
	"Asia/Kathmandu":      {standard: 345},
	"Asia/Tehran":         {standard: 210},
	"Australia/Eucla":     {standard: 525},
	"Pacific/Marquesas":   {standard: -570},
	"Pacific/Kiritimati":  {standard: 840},
	"Pacific/Niue":        {standard: -660},
}

func (z slowZone) offset(at time.Time) time.Duration {
	minutes := z.standard
	if z.begins != nil {
		begins, ends := z.begins.of(at.Year()), z.ends.of(at.Year())
		after, before := !at.Before(begins), at.Before(ends)
		if begins.Before(ends) && after && before || ends.Before(begins) && (after || before) {
			minutes = z.summer
		}
	}
	return time.Duration(minutes) * time.Minute
}

func (z slowZone) in(p Period, at time.Time) bool {
	local := at.Add(z.offset(at))
	return local.Year() == p.Year && local.Month() == p.Month
}

// slowMonth is a period in a zone.
type slowMonth struct {
	zone   string
	period Period
}

// slowHours remembers the hours of months, only to be quicker.
var slowHours sync.Map

func (m slowMonth) hours() []time.Time {
	if hours, done := slowHours.Load(m); done {
		return hours.([]time.Time)
	}
	start := time.Date(m.period.Year, m.period.Month, 1, 0, 0, 0, 0, time.UTC)
	var hours []time.Time
	for h := start.Add(-48 * time.Hour); h.Before(start.Add(34 * 24 * time.Hour)); h = h.Add(time.Hour) {
		if slowZones[m.zone].in(m.period, h) {
			hours = append(hours, h)
		}
	}
	slowHours.Store(m, hours)
	return hours
}

// change is how many minutes the clocks of a zone go forward in a month, less
// those they go back.
func (m slowMonth) change() int {
	hours, zone := m.hours(), slowZones[m.zone]
	return int((zone.offset(hours[len(hours)-1]) - zone.offset(hours[0])) / time.Minute)
}

func TestSlowZonesAreThoseOfTheDatabase(t *testing.T) {
	for name, zone := range slowZones {
		location := load(name)
		for at := time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2031; at = at.Add(30 * time.Minute) {
			if _, want := at.In(location).Zone(); int(zone.offset(at)/time.Second) != want {
				t.Fatalf("%s at %s: %s, the database has %d s", name, at, zone.offset(at), want)
			}
		}
	}
}

// The length of a month, worked out by hand: an hour belongs to it that starts
// in it, so half an hour of summer time moves an hour or none.
func TestHoursOfMonthsWithSummerTime(t *testing.T) {
	for _, c := range []struct {
		zone        string
		period      Period
		hours       int
		first, last string
	}{
		{"Europe/Berlin", Period{2026, 3}, 743, "2026-02-28T23:00:00Z", "2026-03-31T21:00:00Z"},
		{"Europe/Berlin", Period{2026, 10}, 745, "2026-09-30T22:00:00Z", "2026-10-31T22:00:00Z"},
		{"America/St_Johns", Period{2026, 3}, 743, "2026-03-01T04:00:00Z", "2026-04-01T02:00:00Z"},
		{"America/St_Johns", Period{2026, 11}, 721, "2026-11-01T03:00:00Z", "2026-12-01T03:00:00Z"},
		{"Asia/Kolkata", Period{2026, 3}, 744, "2026-02-28T19:00:00Z", "2026-03-31T18:00:00Z"},
		{"Asia/Kathmandu", Period{2026, 3}, 744, "2026-02-28T19:00:00Z", "2026-03-31T18:00:00Z"},
		{"Australia/Lord_Howe", Period{2026, 4}, 721, "2026-03-31T13:00:00Z", "2026-04-30T13:00:00Z"},
		{"Australia/Lord_Howe", Period{2026, 10}, 743, "2026-09-30T14:00:00Z", "2026-10-31T12:00:00Z"},
		{"Pacific/Chatham", Period{2026, 4}, 721, "2026-03-31T11:00:00Z", "2026-04-30T11:00:00Z"},
		{"Pacific/Chatham", Period{2026, 9}, 719, "2026-08-31T12:00:00Z", "2026-09-30T10:00:00Z"},
		{"America/Santiago", Period{2026, 9}, 719, "2026-09-01T04:00:00Z", "2026-10-01T02:00:00Z"},
	} {
		for who, hours := range map[string][]time.Time{
			"rater": c.period.Hours(load(c.zone)), "slow model": slowMonth{c.zone, c.period}.hours(),
		} {
			first, last := hours[0].Format(time.RFC3339), hours[len(hours)-1].Format(time.RFC3339)
			if len(hours) != c.hours || first != c.first || last != c.last {
				t.Errorf("%s, %s in %s: %d hours from %s to %s, want %d from %s to %s",
					who, c.period, c.zone, len(hours), first, last, c.hours, c.first, c.last)
			}
		}
	}
}
