package ledger

import (
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/meter"
)

var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

func TestMondays(t *testing.T) {
	for i := range 14 * 24 {
		at := monday.Add(time.Duration(i)*time.Hour + 59*time.Minute)
		if got, want := mondayOf(at), monday.AddDate(0, 0, i/168*7); !got.Equal(want) {
			t.Fatalf("%s: monday %s, want %s", at, got, want)
		}
	}
}

// TestHoursNextToAWeekRestOnIt: the gap rule looks over its borders.
func TestHoursNextToAWeekRestOnIt(t *testing.T) {
	end := monday.Add(weekLength)
	for _, c := range []struct {
		state      uint8
		at         time.Time
		late, gone bool
	}{
		{weekSealed, monday, true, false},
		{weekDropping, monday, true, true},
		{weekDropped, monday.Add(100 * time.Hour), true, true},
		{weekDropped, monday.Add(-time.Second), true, true},
		{weekDropped, monday.Add(-time.Hour - time.Second), false, false},
		{weekDropped, end.Add(59 * time.Minute), true, true},
		{weekDropped, end.Add(time.Hour), false, false},
	} {
		w := RawWeeks{monday: {Week: monday, State: c.state}}
		if late, gone := w.Late(c.at), w.gone(c.at.Truncate(time.Hour)); late != c.late || gone != c.gone {
			t.Errorf("week in state %d, %s: late %v, gone %v; want %v, %v", c.state, c.at, late, gone, c.late, c.gone)
		}
	}
}

// TestWhoKeepsAWeek: every hour that rests on it must be clean and at its end;
// a cluster that ended long ago doesn't keep it.
func TestWhoKeepsAWeek(t *testing.T) {
	ended := monday.Add(10 * 24 * time.Hour)
	cluster := func(hours int, restMS int64, dirty int) look {
		o := &overview{watermarkMS: monday.Add(time.Duration(hours-1)*time.Hour).UnixMilli() + restMS}
		for i := range hours {
			h := hourState{start: monday.Add(time.Duration(i) * time.Hour), untilMS: meter.HourMS, dirty: i == dirty}
			if i == hours-1 {
				h.untilMS = uint32(restMS)
			}
			o.hours = append(o.hours, h)
		}
		return look{cluster{Name: "c"}, o}
	}
	for name, c := range map[string]struct {
		look  look
		ended time.Time
		want  string
	}{
		"all of it is there":                      {cluster(200, 1000, -1), monday, ""},
		"the first hour is dirty":                 {cluster(200, 1000, 0), monday, "hour 2026-03-02T00:00:00Z"},
		"the hour after it is dirty":              {cluster(200, 1000, 168), monday, "hour 2026-03-09T00:00:00Z"},
		"a later hour is dirty":                   {cluster(200, 1000, 169), monday, ""},
		"the hour after it is open":               {cluster(169, 1000, -1), monday, "hour 2026-03-09T00:00:00Z"},
		"the hour after it hasn't begun":          {cluster(168, meter.HourMS, -1), monday, "has only been computed up to 2026-03-09T00:00:00Z"},
		"it ended in the week":                    {cluster(100, 1000, -1), ended, ""},
		"it ended in the week, with a dirty hour": {cluster(100, 1000, 99), ended, "hour 2026-03-06T03:00:00Z"},
	} {
		got := keptBy(monday, c.ended, []look{c.look})
		if !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%s: kept because %q, want %q", name, got, c.want)
		}
	}
}

// TestConfigNamesWhatItRefuses: the field, the value and what would do.
func TestConfigNamesWhatItRefuses(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	for want, change := range map[string]func(*Config){
		"raw_retention 239h0m0s: must be 0 (keep for ever), or at least close_after plus a week (240h0m0s)": func(c *Config) { c.RawRetention = 239 * time.Hour },
		"raw_retention -1s":                           func(c *Config) { c.RawRetention = -time.Second },
		"max_rows_in_memory 99: must be at least 100": func(c *Config) { c.MaxRowsInMemory = 99 },
		"close_after 59m0s":                           func(c *Config) { c.CloseAfter = 59 * time.Minute },
	} {
		c := DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
