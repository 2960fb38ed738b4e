package offhours

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Config defines working time and spikes.
type Config struct {
	// Calendar applies to every tenant without its own.
	Calendar Calendar `yaml:"calendar"`
	// Tenants has the calendars of single tenants. A field that is left out is taken
	// from Calendar.
	Tenants map[string]Calendar `yaml:"tenants"`
	// History is the length of the baseline.
	History time.Duration `yaml:"history"`
	// MinHistory is how long a tenant must have been seen before a verdict.
	MinHistory time.Duration `yaml:"min_history"`
	// MADs is the least distance of a spike from the median, in scaled median absolute
	// deviations.
	MADs float64 `yaml:"mads"`
	// MinRatio is the least ratio of a spike to the usual amount.
	MinRatio float64 `yaml:"min_ratio"`
	// HabitQuantile, from 0 to below 1: what the tenant exceeds in more than 1 −
	// HabitQuantile of its off-hours is a habit.
	HabitQuantile float64 `yaml:"habit_quantile"`
	// MinGPUHours is the least excess that is reported, in GPU-hours per hour.
	MinGPUHours float64 `yaml:"min_gpu_hours"`
}

// Calendar is a tenant's working time.
type Calendar struct {
	// Zone is an IANA time zone such as Europe/Berlin.
	Zone string `yaml:"zone"`
	// Working lists the working windows; other time is off-hours.
	Working []Window `yaml:"working"`
}

// Window is [From, To) in local time on each of the days.
type Window struct {
	Days []string `yaml:"days"` // mon, tue, wed, thu, fri, sat, sun
	From string   `yaml:"from"` // 15:04
	To   string   `yaml:"to"`   // 15:04, later than From; 24:00 is midnight
}

// DefaultConfig is Monday to Friday, 08:00 to 19:00 UTC; four deviations, twice the
// usual amount and two GPUs above it, with 28 days of history and at least 7.
func DefaultConfig() Config {
	return Config{
		Calendar: Calendar{
			Zone:    "UTC",
			Working: []Window{{Days: []string{"mon", "tue", "wed", "thu", "fri"}, From: "08:00", To: "19:00"}},
		},
		History:       28 * 24 * time.Hour,
		MinHistory:    7 * 24 * time.Hour,
		MADs:          4,
		MinRatio:      2,
		HabitQuantile: 0.95,
		MinGPUHours:   2,
	}
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	if _, err := newCalendar(c.Calendar); err != nil {
		return fmt.Errorf("calendar: %w", err)
	}
	for _, tenant := range slices.Sorted(maps.Keys(c.Tenants)) {
		if _, err := newCalendar(c.calendarOf(tenant)); err != nil {
			return fmt.Errorf("tenants: %s: %w", tenant, err)
		}
	}
	switch {
	case c.MinHistory < 24*time.Hour:
		return fmt.Errorf("min_history %v: must be at least 24h", c.MinHistory)
	case c.History < c.MinHistory:
		return fmt.Errorf("history %v: must be at least min_history (%v)", c.History, c.MinHistory)
	case !(c.MADs >= 0):
		return fmt.Errorf("mads %v: must be at least 0", c.MADs)
	case !(c.MinRatio >= 1):
		return fmt.Errorf("min_ratio %v: must be at least 1", c.MinRatio)
	case !(c.HabitQuantile >= 0 && c.HabitQuantile < 1):
		return fmt.Errorf("habit_quantile %v: must be at least 0 and less than 1", c.HabitQuantile)
	case !(c.MinGPUHours > 0):
		return fmt.Errorf("min_gpu_hours %v: must be more than 0", c.MinGPUHours)
	}
	return nil
}

// calendarOf is the tenant's calendar, with missing fields taken from the default.
func (c Config) calendarOf(tenant string) Calendar {
	own := c.Tenants[tenant]
	if own.Zone == "" {
		own.Zone = c.Calendar.Zone
	}
	if own.Working == nil {
		own.Working = c.Calendar.Working
	}
	return own
}
