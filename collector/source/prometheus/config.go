package prometheus

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gputally/gputally/collector/source/exporter"
	"github.com/gputally/gputally/internal/config"
	"github.com/gputally/gputally/internal/trust"
)

// Config is which history is read.
type Config struct {
	// URL is the server's URL, including any path before /api/v1.
	URL string
	// Match is an additional selector for the series: {cluster="a"}.
	Match string
	// BearerToken authorises each request; empty: none. It is sent over TLS or to a loopback address only.
	BearerToken string
	// From and To are the slots that will be read, [From, To).
	From, To time.Time
	// LeadIn is how long before From history is read, for the previous values of counters.
	LeadIn time.Duration
	// AllowCoarse reads a history whose scrape interval is longer than the slot.
	AllowCoarse bool
	// Rules determine what rows mean; its targets, timeout and body_limit_bytes are not used.
	Rules exporter.Config

	// FirstWindow is the first window's length, MaxWindow bounds all.
	FirstWindow, MaxWindow time.Duration
	PointsPerQuery         int           // number of samples for which a window is planned
	BodyLimitBytes         int64         // of one answer, uncompressed
	Timeout                time.Duration // of one query
	// Attempts is how often a failing query is sent, RetryMin the first pause between two attempts.
	Attempts int
	RetryMin time.Duration
}

// DefaultConfig sets all but URL, From and To.
func DefaultConfig() Config {
	return Config{
		LeadIn: time.Hour, Rules: exporter.DefaultConfig(),
		FirstWindow: 10 * time.Minute, MaxWindow: 6 * time.Hour,
		PointsPerQuery: 500_000, BodyLimitBytes: 64 << 20, Timeout: 2 * time.Minute,
		Attempts: 4, RetryMin: time.Second,
	}
}

// Validate returns an error for each invalid value.
func (c Config) Validate() error {
	var p config.Problems
	p.Add(c.validateURL())
	p.Want(c.From.Before(c.To), "from %s: is not before to %s", c.From.Format(time.RFC3339), c.To.Format(time.RFC3339))
	m := strings.TrimSpace(c.Match)
	p.Want(m == "" || strings.HasPrefix(m, "{") && strings.HasSuffix(m, "}"),
		`match %q: must be a selector such as {cluster="a"}`, c.Match)
	config.Positive(&p, "first_window", c.FirstWindow)
	config.Positive(&p, "max_window", c.MaxWindow)
	config.Positive(&p, "points_per_query", c.PointsPerQuery)
	config.Positive(&p, "body_limit_bytes", c.BodyLimitBytes)
	config.Positive(&p, "timeout", c.Timeout)
	config.Positive(&p, "attempts", c.Attempts)
	config.Positive(&p, "retry_min", c.RetryMin)
	return p.Err()
}

func (c Config) validateURL() error {
	u, err := config.HTTPURL(c.URL)
	switch {
	case err != nil:
		return fmt.Errorf("url %q: %w, as in http://prometheus:9090", config.Redacted(c.URL), err)
	case u.User != nil:
		return errors.New("--url: has a user or a password in it; remove it, and give a token by --bearer-token-file")
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("url %q: must end with the path before /api/v1", u.Redacted())
	case c.BearerToken != "" && u.Scheme == "http" && !trust.Loopback(u.Hostname()):
		return fmt.Errorf("url %q: a bearer token is sent with TLS only: use https", u.Redacted())
	}
	return nil
}
