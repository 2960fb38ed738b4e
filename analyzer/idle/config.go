package idle

import (
	"fmt"
	"time"
)

// Config defines an idle allocation.
type Config struct {
	// MinIdleShare is the part of an hour's held time that must be idle, above 0 and
	// at most 1.
	MinIdleShare float64 `yaml:"min_idle_share"`
	// MinDuration is the least total idle time of an episode.
	MinDuration time.Duration `yaml:"min_duration"`
	// MaxBridgeHours is the greatest number of consecutive unproven hours that don't
	// end an episode.
	MaxBridgeHours int `yaml:"max_bridge_hours"`
}

// DefaultConfig is 90 % of the held time, for two hours, over at most one
// unproven hour.
func DefaultConfig() Config {
	return Config{MinIdleShare: 0.9, MinDuration: 2 * time.Hour, MaxBridgeHours: 1}
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	if !(c.MinIdleShare > 0 && c.MinIdleShare <= 1) {
		return fmt.Errorf("min_idle_share %v: must be more than 0 and at most 1", c.MinIdleShare)
	}
	if c.MinDuration <= 0 {
		return fmt.Errorf("min_duration %v: must be more than 0", c.MinDuration)
	}
	if c.MaxBridgeHours < 0 {
		return fmt.Errorf("max_bridge_hours %d: must be at least 0", c.MaxBridgeHours)
	}
	return nil
}

// shareUnit is the unit in which shares are compared, as integers.
const shareUnit = 10_000

// MinIdlePer10k is MinIdleShare in 1e-4.
func (c Config) MinIdlePer10k() uint64 { return uint64(c.MinIdleShare*shareUnit + 0.5) }
