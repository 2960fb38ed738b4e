package ledger

import (
	"fmt"
	"time"
)

// Config of the ledger.
type Config struct {
	Interval    time.Duration `yaml:"interval"`     // between two passes
	TenantsFile string        `yaml:"tenants_file"` // effective-dated mapping (R15); empty: the owners' own names
	// KeepMapping takes the mapping that the ledger was last published under,
	// where there is one: for commands, which must not rename tenants because
	// they were started with another configuration.
	KeepMapping bool          `yaml:"-"`
	CloseAfter  time.Duration `yaml:"close_after"` // R3: an hour is closed after this
}

// DefaultConfig is what the design says.
func DefaultConfig() Config {
	return Config{Interval: 2 * time.Second, CloseAfter: 72 * time.Hour}
}

// Validate names the field and the value that can't be used.
func (c Config) Validate() error {
	if c.Interval <= 0 {
		return fmt.Errorf("ledger.interval %s: must be positive", c.Interval)
	}
	if c.CloseAfter < time.Hour {
		return fmt.Errorf("ledger.close_after %s: must be an hour or more", c.CloseAfter)
	}
	return nil
}
