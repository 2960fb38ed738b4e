package offhours

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Config has the thresholds.
type Config struct {
	// Calendar applies to every tenant without its own.
	Calendar Calendar `yaml:"calendar"`
	// Tenants has the calendars of single tenants. A field that is left out is taken
	// from Calendar.
	Tenants map[string]Calendar `yaml:"tenants"`
	// P is the greatest probability of a spike's first hour, HysteresisP that of the
	// hours after it.
	P           float64 `yaml:"p"`
	HysteresisP float64 `yaml:"hysteresis_p"`
	// MinRise is the least excess of the first hour, in GPU-hours per hour; MinGPUHours
	// that of the whole episode, in GPU-hours.
	MinRise     float64 `yaml:"min_rise"`
	MinGPUHours float64 `yaml:"min_gpu_hours"`
	// MinExplained is the share of the variance that the references must explain.
	MinExplained float64 `yaml:"min_explained"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Calendar: Calendar{
			Zone:    "UTC",
			Working: []Window{{Days: []string{"mon", "tue", "wed", "thu", "fri"}, From: "08:00", To: "19:00"}},
		},
		P: 0.002, HysteresisP: 0.05, MinRise: 2, MinGPUHours: 6, MinExplained: 0.2,
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
	for _, f := range []struct {
		name            string
		value, from, to float64
	}{
		{"p", c.P, 1e-9, 0.1},
		{"hysteresis_p", c.HysteresisP, c.P, 0.5},
		{"min_rise", c.MinRise, 0.01, 1e6},
		{"min_gpu_hours", c.MinGPUHours, 0.01, 1e6},
		{"min_explained", c.MinExplained, 0, 0.99},
	} {
		if !(f.value >= f.from && f.value <= f.to) {
			return fmt.Errorf("%s %v: want %v to %v", f.name, f.value, f.from, f.to)
		}
	}
	return nil
}

// calendarOf is the tenant's calendar, with missing fields taken from the default.
func (c Config) calendarOf(tenant string) Calendar {
	own, there := c.Tenants[tenant]
	if !there {
		return c.Calendar
	}
	if own.Zone == "" {
		own.Zone = c.Calendar.Zone
	}
	if own.Working == nil {
		own.Working = c.Calendar.Working
	}
	if own.Holidays == nil {
		own.Holidays = c.Calendar.Holidays
	}
	if own.MakeUp == nil {
		own.MakeUp = c.Calendar.MakeUp
	}
	return own
}

// Zone is the time zone of a tenant's calendar.
func (c Config) Zone(tenant string) *time.Location {
	zone, err := time.LoadLocation(c.calendarOf(tenant).Zone)
	if err != nil {
		return time.UTC // Validate refuses it
	}
	return zone
}

// calendarFor shares the default calendar between tenants.
func (c Config) calendarFor(made map[string]*calendar, tenant string) (*calendar, error) {
	key := tenant
	if _, own := c.Tenants[tenant]; !own {
		key = ""
	}
	if cal, ok := made[key]; ok {
		return cal, nil
	}
	cal, err := newCalendar(c.calendarOf(tenant))
	if err != nil {
		return nil, fmt.Errorf("read calendar of tenant %q: %w", tenant, err)
	}
	made[key] = cal
	return cal, nil
}
