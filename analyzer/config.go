package analyzer

import (
	"fmt"
	"time"

	"github.com/gputally/gputally/analyzer/device"
	"github.com/gputally/gputally/analyzer/idle"
	"github.com/gputally/gputally/analyzer/month"
	"github.com/gputally/gputally/analyzer/offhours"
)

// Config of the analyzer.
type Config struct {
	// Interval is the time between two runs.
	Interval time.Duration `yaml:"interval"`
	// Window is how far back from the ledger's newest hour a run looks. Longer
	// than the ledger keeps hours open, so that late data still corrects an
	// episode.
	Window   time.Duration   `yaml:"window"`
	Idle     idle.Config     `yaml:"idle"`
	OffHours offhours.Config `yaml:"off_hours"`
	Devices  device.Config   `yaml:"devices"`
	Alerts   Alerts          `yaml:"alerts"`
	Forecast month.Config    `yaml:"forecast"`
}

// DefaultConfig looks at the last 35 days every five minutes.
func DefaultConfig() Config {
	return Config{
		Interval: 5 * time.Minute,
		Window:   35 * 24 * time.Hour,
		Idle:     idle.DefaultConfig(),
		OffHours: offhours.DefaultConfig(),
		Devices:  device.DefaultConfig(),
		Alerts:   DefaultAlerts(),
	}
}

// Validate names the first field that makes no sense.
func (c Config) Validate() error {
	if c.Interval < time.Second {
		return fmt.Errorf("interval %v: want a second or more", c.Interval)
	}
	if c.Window < time.Hour {
		return fmt.Errorf("window %v: want an hour or more", c.Window)
	}
	if err := c.Idle.Validate(); err != nil {
		return fmt.Errorf("idle: %w", err)
	}
	if err := c.OffHours.Validate(); err != nil {
		return fmt.Errorf("off_hours: %w", err)
	}
	if err := c.Devices.Validate(); err != nil {
		return fmt.Errorf("devices: %w", err)
	}
	if err := c.Alerts.Validate(); err != nil {
		return fmt.Errorf("alerts: %w", err)
	}
	if err := c.Forecast.Validate(); err != nil {
		return fmt.Errorf("forecast: %w", err)
	}
	return nil
}
