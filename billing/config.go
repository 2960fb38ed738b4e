package billing

import (
	"fmt"
	"time"
)

// Config of the billing service.
type Config struct {
	// Interval is the time between two runs.
	Interval time.Duration `yaml:"interval"`
	// Months is how many months a run rates: 1 is the current one.
	Months int `yaml:"months"`
	// Prices is the price book's file; empty: the embedded default.
	Prices string `yaml:"prices"`
}

// DefaultConfig rates the current and the last month every five minutes.
func DefaultConfig() Config {
	return Config{Interval: 5 * time.Minute, Months: 2}
}

// Validate returns an error for the first invalid field.
func (c Config) Validate() error {
	if c.Interval < time.Second {
		return fmt.Errorf("interval %v: want a second or more", c.Interval)
	}
	if c.Months < 1 || c.Months > 24 {
		return fmt.Errorf("months %d: want 1 to 24", c.Months)
	}
	return nil
}
