package device

import (
	"fmt"
	"slices"

	"github.com/gputally/gputally/internal/meter"
)

// Config has what differs between sites.
type Config struct {
	// FatalXIDs are the errors after which a GPU needs a reset. Collectors have a list of their own, by which they
	// mark a GPU as unhealthy.
	FatalXIDs []int64 `yaml:"fatal_xids"`
}

// DefaultConfig has the collectors' default.
func DefaultConfig() Config { return Config{FatalXIDs: meter.FatalXIDs()} }

// Validate names the first field that makes no sense.
func (c Config) Validate() error {
	for _, code := range c.FatalXIDs {
		if code < 1 || slices.Contains(symptoms, code) {
			return fmt.Errorf("fatal_xids: %d: want numbers above 0 that are no errors of users' programs (%v)", code, symptoms)
		}
	}
	return nil
}
