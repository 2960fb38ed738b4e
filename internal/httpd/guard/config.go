package guard

import (
	"fmt"
	"time"
)

const (
	// MaxBodyBytes bounds a request's body: a price book of 1 MiB, escaped as JSON.
	MaxBodyBytes = 3 << 20
	// maxBodiesBytes bounds the received bytes of all bodies; maxMetricsBytes the unsent bytes of large /metrics
	// answers; maxUnsentBytes those of all other large answers, separately for read-only clients and for those that
	// may decide.
	maxBodiesBytes  = 64 << 20
	maxMetricsBytes = 64 << 20
	maxUnsentBytes  = 128 << 20
	// smallAnswer is what every connection may leave unread. Answers to decisions are smaller, so that their clients
	// always get the outcome. 2,048 connections make 128 MiB.
	smallAnswer = 64 << 10
	// grace and bytesPerSecond determine, by size, how long receiving a body or sending an answer may take; slower
	// connections are closed.
	grace          = 10 * time.Second
	bytesPerSecond = 256 << 10
)

// Config has the limits per client and for all clients together.
type Config struct {
	// RatePerSecond is the sustained rate of requests of a client address; Burst is how many requests it may send at
	// once after a pause.
	RatePerSecond int `yaml:"rate_per_second"`
	Burst         int `yaml:"burst"`
	// InFlight bounds the requests that are handled at the same time, and InFlightPerClient those of one client
	// address; more wait.
	InFlight          int `yaml:"in_flight"`
	InFlightPerClient int `yaml:"in_flight_per_client"`
	// Timeout bounds a request, including the time it waits.
	Timeout time.Duration `yaml:"timeout"`
	// Hosts are names or addresses, without a port, that a request's Host may have in addition to the loopback ones.
	Hosts []string `yaml:"hosts"`
}

// DefaultConfig allows what people and scripts need, but not requests in a loop.
func DefaultConfig() Config {
	return Config{RatePerSecond: 50, Burst: 200, InFlight: 16, InFlightPerClient: 8, Timeout: time.Minute}
}

// Validate returns an error for the first invalid value.
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
