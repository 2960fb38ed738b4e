package guard

import (
	"fmt"
	"time"
)

const (
	// MaxBodyBytes bounds a request's body: a price book of 1 MiB, escaped in JSON.
	MaxBodyBytes = 3 << 20
	// maxBodiesBytes bounds what has come of all bodies; maxMetricsBytes what is left
	// to send of large /metrics; maxUnsentBytes of all other large
	// answers, to those who only read and to those who may decide each.
	maxBodiesBytes  = 64 << 20
	maxMetricsBytes = 64 << 20
	maxUnsentBytes  = 128 << 20
	// smallAnswer is what every connection may leave unread: what a decision answers
	// is smaller, and whoever made one is told. 2,048 connections make 128 MiB.
	smallAnswer = 64 << 10
	// grace and bytesPerSecond say how long a body may take to come, and an answer
	// to go, by its size: whoever is slower is cut off.
	grace          = 10 * time.Second
	bytesPerSecond = 256 << 10
)

// Config says how much one client and all together may ask.
type Config struct {
	// RatePerSecond is how many requests a second a client address may send in
	// the long run; Burst is how many at once after a pause.
	RatePerSecond int `yaml:"rate_per_second"`
	Burst         int `yaml:"burst"`
	// InFlight is how many requests are answered at the same time, and
	// InFlightPerClient how many of them may be one client address's; more wait.
	InFlight          int `yaml:"in_flight"`
	InFlightPerClient int `yaml:"in_flight_per_client"`
	// Timeout bounds a request, its waiting included.
	Timeout time.Duration `yaml:"timeout"`
	// Hosts are names or addresses, without a port, that a request's Host may
	// have beside the loopback ones.
	Hosts []string `yaml:"hosts"`
}

// DefaultConfig is generous to a person and to scripts, not to a loop.
func DefaultConfig() Config {
	return Config{RatePerSecond: 50, Burst: 200, InFlight: 16, InFlightPerClient: 8, Timeout: time.Minute}
}

// Validate names the value that can't work.
func (c Config) Validate() error {
	switch {
	case c.RatePerSecond < 1 || c.RatePerSecond > 1_000_000:
		return fmt.Errorf("rate_per_second %d: want 1 to 1000000", c.RatePerSecond)
	case c.Burst < 1 || c.Burst > 1_000_000:
		return fmt.Errorf("burst %d: want 1 to 1000000", c.Burst)
	case c.InFlight < 1:
		return fmt.Errorf("in_flight %d: want 1 or more", c.InFlight)
	case c.InFlightPerClient < 1 || c.InFlightPerClient > c.InFlight:
		return fmt.Errorf("in_flight_per_client %d: want 1 to in_flight, %d", c.InFlightPerClient, c.InFlight)
	case c.Timeout < time.Second || c.Timeout > time.Hour:
		return fmt.Errorf("timeout %s: want 1s to 1h", c.Timeout)
	}
	return nil
}
