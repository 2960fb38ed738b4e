package decisions

import "fmt"

// NoCopy as the copy's folder means that there is none.
const NoCopy = "none"

// Config says where else the decisions are kept.
type Config struct {
	// CopyDir is a folder that the log is copied to as it grows; empty: one in the
	// data directory; NoCopy: none. Separate services have none unless it is named.
	CopyDir string `yaml:"copy_dir"`
	// Witness is where the log's head is sent at each decision.
	Witness WitnessConfig `yaml:"witness"`
	// PriceBooksPerDay is how many may be published in 24 hours. Each lies in the
	// log for ever.
	PriceBooksPerDay int `yaml:"price_books_per_day"`
}

// DefaultConfig copies into the data directory and has no witness.
func DefaultConfig() Config { return Config{PriceBooksPerDay: dailyBooks} }

// Validate names what can't work, by its key.
func (c Config) Validate() error {
	if err := c.Witness.Validate(); err != nil {
		return fmt.Errorf("witness: %w", err)
	}
	if c.PriceBooksPerDay < 1 || c.PriceBooksPerDay > dailyOthers {
		return fmt.Errorf("price_books_per_day %d: want 1 to %d", c.PriceBooksPerDay, dailyOthers)
	}
	return nil
}
