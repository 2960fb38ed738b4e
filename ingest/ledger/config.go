package ledger

import (
	"fmt"
	"time"
)

// Config configures the ledger.
type Config struct {
	Interval    time.Duration `yaml:"interval"`     // pause between two passes
	TenantsFile string        `yaml:"tenants_file"` // dated tenant mapping (R15); empty: the owners' own names
	// KeepMapping uses the tenant mapping under which the ledger was last published,
	// if there is one. Commands set it, so that they don't rename tenants because they
	// were started with another configuration.
	KeepMapping bool `yaml:"-"`
	// CompareMapping states that TenantsFile is that of the ingesters, because it came
	// from their configuration: C6 then compares the mapping in force with it.
	CompareMapping bool          `yaml:"-"`
	CloseAfter     time.Duration `yaml:"close_after"` // an hour can be closed this long after its end (R3)
	// RawRetention is how long raw is kept after the end of its week; 0: for ever.
	RawRetention time.Duration `yaml:"raw_retention"`
	// MaxRowsInMemory bounds the rows of raw and journal held at a time, at about 270
	// bytes each: more hours are computed in several chunks, a larger hour in several
	// parts of its GPUs.
	MaxRowsInMemory uint64 `yaml:"max_rows_in_memory"`
}

// DefaultConfig returns the defaults of the configuration reference.
func DefaultConfig() Config {
	return Config{Interval: 2 * time.Second, CloseAfter: 72 * time.Hour, MaxRowsInMemory: 1_000_000}
}

// Validate returns an error that names the field and its value.
func (c Config) Validate() error {
	if c.Interval <= 0 {
		return fmt.Errorf("interval %s: must be positive", c.Interval)
	}
	if c.CloseAfter < time.Hour {
		return fmt.Errorf("close_after %s: must be at least 1h", c.CloseAfter)
	}
	if least := c.CloseAfter + weekLength; c.RawRetention != 0 && c.RawRetention < least {
		return fmt.Errorf("raw_retention %s: must be 0 (keep for ever), or at least close_after plus a week (%s)",
			c.RawRetention, least)
	}
	if c.MaxRowsInMemory < minRowsInMemory {
		return fmt.Errorf("max_rows_in_memory %d: must be at least %d", c.MaxRowsInMemory, minRowsInMemory)
	}
	return nil
}

// minRowsInMemory is far below any sensible value: one GPU, which is never split, has
// at least 360 rows an hour in slots of ten seconds.
const minRowsInMemory = 100
