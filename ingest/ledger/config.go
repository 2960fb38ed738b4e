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
	KeepMapping bool `yaml:"-"`
	// CompareMapping says that TenantsFile is the ingesters' own, as where their
	// configuration was read: C6 holds the mapping in force against it.
	CompareMapping bool          `yaml:"-"`
	CloseAfter     time.Duration `yaml:"close_after"` // R3: an hour is closed after this
	// RawRetention is how long raw is kept after its week ended; 0: for ever.
	RawRetention time.Duration `yaml:"raw_retention"`
	// MaxRowsInMemory bounds what is held of raw and journal at a time, in rows
	// of about 270 bytes: more hours are computed one after the other, a larger
	// hour a part of its GPUs at a time.
	MaxRowsInMemory uint64 `yaml:"max_rows_in_memory"`
}

// DefaultConfig is what the design says.
func DefaultConfig() Config {
	return Config{Interval: 2 * time.Second, CloseAfter: 72 * time.Hour, MaxRowsInMemory: 1_000_000}
}

// Validate names the field and the value that can't be used.
func (c Config) Validate() error {
	if c.Interval <= 0 {
		return fmt.Errorf("ledger.interval %s: must be positive", c.Interval)
	}
	if c.CloseAfter < time.Hour {
		return fmt.Errorf("ledger.close_after %s: must be an hour or more", c.CloseAfter)
	}
	if least := c.CloseAfter + weekLength; c.RawRetention != 0 && c.RawRetention < least {
		return fmt.Errorf("ledger.raw_retention %s: must be 0 (for ever), or close_after and a week (%s) or more",
			c.RawRetention, least)
	}
	if c.MaxRowsInMemory < minRowsInMemory {
		return fmt.Errorf("ledger.max_rows_in_memory %d: must be %d or more", c.MaxRowsInMemory, minRowsInMemory)
	}
	return nil
}

// minRowsInMemory is far below what makes sense: a GPU, which is never split,
// has 360 rows an hour and more in slots of ten seconds.
const minRowsInMemory = 100
