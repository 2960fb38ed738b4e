package decisions

import "fmt"

// NoCopy as CopyDir disables the copy.
const NoCopy = "none"

// Config configures the copies and limits of the decisions.
type Config struct {
	// CopyDir is a directory to which the log is copied as it grows; empty: one in the
	// data directory; NoCopy: none. Separate services have none unless it is
	// configured.
	CopyDir string `yaml:"copy_dir"`
	// Witness configures where the log's head is sent at each decision.
	Witness WitnessConfig `yaml:"witness"`
	// PriceBooksPerDay is the greatest number of books published in 24 hours. Each
	// stays in the log for ever.
	PriceBooksPerDay int `yaml:"price_books_per_day"`
}

// DefaultConfig copies to the data directory and has no witness.
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
