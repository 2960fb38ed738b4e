package sim

import (
	"errors"
	"fmt"
	"time"
)

// Config is a time window of the demo fleet. Read depends only on it and the slot.
type Config struct {
	Seed    int64
	Cluster string // must show users that it is simulated
	// WindowFrom and WindowTo are the time window of the batches, the end exclusive. Slots outside it are refused.
	WindowFrom, WindowTo time.Time
}

// DefaultConfig is September 2026; set WindowFrom and WindowTo for another time.
func DefaultConfig() Config {
	from := time.Date(2026, time.September, 1, 0, 0, 0, 0, time.UTC)
	return Config{Seed: 1, Cluster: "demo-sim", WindowFrom: from, WindowTo: from.AddDate(0, 1, 0)}
}

// Validate returns an error for the first invalid field, with its value.
func (c Config) Validate() error {
	switch {
	case c.Cluster == "":
		return errors.New("cluster is empty")
	case c.WindowFrom.IsZero() || !c.WindowTo.After(c.WindowFrom):
		return fmt.Errorf("window_to %s: must be after window_from %s", c.WindowTo, c.WindowFrom)
	}
	return nil
}
