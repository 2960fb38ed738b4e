package idle

import (
	"fmt"
	"time"
)

// Config says what counts as an idle allocation.
type Config struct {
	// MinIdleShare is the part of an hour's held time, above 0 and up to 1,
	// that must be idle.
	MinIdleShare float64 `yaml:"min_idle_share"`
	// MinDuration is the idle time an episode needs in all.
	MinDuration time.Duration `yaml:"min_duration"`
	// MaxBridgeHours is how many unproven hours in a row don't end an episode.
	MaxBridgeHours int `yaml:"max_bridge_hours"`
}

// DefaultConfig is 90 % of the held time, for two hours, over at most one
// unproven hour.
func DefaultConfig() Config {
	return Config{MinIdleShare: 0.9, MinDuration: 2 * time.Hour, MaxBridgeHours: 1}
}

// Validate names the first field that makes no sense.
func (c Config) Validate() error {
	if !(c.MinIdleShare > 0 && c.MinIdleShare <= 1) {
		return fmt.Errorf("min_idle_share %v: want more than 0 and at most 1", c.MinIdleShare)
	}
	if c.MinDuration <= 0 {
		return fmt.Errorf("min_duration %v: want more than 0", c.MinDuration)
	}
	if c.MaxBridgeHours < 0 {
		return fmt.Errorf("max_bridge_hours %d: want 0 or more", c.MaxBridgeHours)
	}
	return nil
}

// shareUnit is the unit in which shares are compared, so that no float decides.
const shareUnit = 10_000

// MinIdlePer10k is MinIdleShare in 1e-4.
func (c Config) MinIdlePer10k() uint64 { return uint64(c.MinIdleShare*shareUnit + 0.5) }
