package sim

import (
	"errors"
	"fmt"
	"time"
)

// Config chooses a time of the demo fleet. Together with the slot it is all that
// Read depends on.
type Config struct {
	Seed    int64
	Cluster string // must say that it is simulated, for people
	// WindowFrom and WindowTo declare the time window of the batches, the end
	// exclusive. Slots outside it are refused.
	WindowFrom, WindowTo time.Time
}

// DefaultConfig is September 2026; set WindowFrom and WindowTo for another time.
func DefaultConfig() Config {
	from := time.Date(2026, time.September, 1, 0, 0, 0, 0, time.UTC)
	return Config{Seed: 1, Cluster: "demo-sim", WindowFrom: from, WindowTo: from.AddDate(0, 1, 0)}
}

// Validate names the wrong field and its value.
func (c Config) Validate() error {
	switch {
	case c.Cluster == "":
		return errors.New("cluster is empty")
	case c.WindowFrom.IsZero() || !c.WindowTo.After(c.WindowFrom):
		return fmt.Errorf("window_to %s: must be after window_from %s", c.WindowTo, c.WindowFrom)
	}
	return nil
}
