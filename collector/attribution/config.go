package attribution

import (
	"time"

	"github.com/gputally/gputally/internal/config"
)

// Config of how owners are polled.
type Config struct {
	// Poll is how often every reader is asked: holds are exact to it.
	Poll time.Duration `yaml:"poll"`
	// StaleAfter is how long an answer stands when the next ones fail.
	StaleAfter time.Duration `yaml:"stale_after"`
	// Timeout bounds one answer.
	Timeout time.Duration `yaml:"timeout"`
}

// DefaultConfig polls every second and bears four failures in a row.
func DefaultConfig() Config {
	return Config{Poll: time.Second, StaleAfter: 5 * time.Second, Timeout: 4 * time.Second}
}

// Validate names every wrong value.
func (c Config) Validate() error {
	var p config.Problems
	p.Want(c.Poll >= 100*time.Millisecond, "poll %s: must be 100ms or more", c.Poll)
	p.Want(c.StaleAfter >= 2*c.Poll, "stale_after %s: must be two polls of %s or more", c.StaleAfter, c.Poll)
	p.Want(c.Timeout > 0 && c.Timeout <= c.StaleAfter,
		"timeout %s: must be positive and at most stale_after %s", c.Timeout, c.StaleAfter)
	return p.Err()
}
