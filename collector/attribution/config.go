package attribution

import (
	"time"

	"github.com/gputally/gputally/internal/config"
)

// Config is how owners are polled.
type Config struct {
	// Poll is the interval at which every reader is polled, and so the precision of holds.
	Poll time.Duration `yaml:"poll"`
	// StaleAfter is how long an answer is valid when later polls fail.
	StaleAfter time.Duration `yaml:"stale_after"`
	// Timeout bounds one poll.
	Timeout time.Duration `yaml:"timeout"`
}

// DefaultConfig polls every second and tolerates four failures in a row.
func DefaultConfig() Config {
	return Config{Poll: time.Second, StaleAfter: 5 * time.Second, Timeout: 4 * time.Second}
}

// Validate returns an error for each invalid value.
func (c Config) Validate() error {
	var p config.Problems
	p.Want(c.Poll >= 100*time.Millisecond, "poll %s: must be 100ms or more", c.Poll)
	p.Want(c.StaleAfter >= 2*c.Poll, "stale_after %s: must be two polls of %s or more", c.StaleAfter, c.Poll)
	p.Want(c.Timeout > 0 && c.Timeout <= c.StaleAfter,
		"timeout %s: must be positive and at most stale_after %s", c.Timeout, c.StaleAfter)
	return p.Err()
}
