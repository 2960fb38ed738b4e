package prometheus

import (
	"fmt"
	"strings"
	"time"

	"github.com/gputally/gputally/collector/source/exporter"
	"github.com/gputally/gputally/internal/config"
	"github.com/gputally/gputally/internal/trust"
)

// Config says which history is read.
type Config struct {
	// URL is that of the server, with the path in front of /api/v1 if there is any.
	URL string
	// Match is a selector that the series must match too: {cluster="a"}.
	Match string
	// BearerToken authorises each request; empty: none. It is sent over TLS, or to
	// this machine.
	BearerToken string
	// From and To are the slots that will be read, [From, To).
	From, To time.Time
	// LeadIn is what is read before From, for what counters were then.
	LeadIn time.Duration
	// AllowCoarse reads a history whose scrape interval is longer than the slot.
	AllowCoarse bool
	// Rules say what rows mean; targets, timeout and body_limit_bytes of it have no
	// meaning here.
	Rules exporter.Config

	// FirstWindow is the first window's length, MaxWindow bounds all.
	FirstWindow, MaxWindow time.Duration
	PointsPerQuery         int           // samples that a window is planned for
	BodyLimitBytes         int64         // of one answer, uncompressed
	Timeout                time.Duration // of one query
	// Attempts is how often a query is asked that gets no answer, RetryMin the
	// first pause between two.
	Attempts int
	RetryMin time.Duration
}

// DefaultConfig lacks URL, From and To.
func DefaultConfig() Config {
	return Config{
		LeadIn: time.Hour, Rules: exporter.DefaultConfig(),
		FirstWindow: 10 * time.Minute, MaxWindow: 6 * time.Hour,
		PointsPerQuery: 500_000, BodyLimitBytes: 64 << 20, Timeout: 2 * time.Minute,
		Attempts: 4, RetryMin: time.Second,
	}
}

// Validate names every wrong value.
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
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("url %q: must end with the path in front of /api/v1", u.Redacted())
	case c.BearerToken != "" && u.Scheme == "http" && !trust.Loopback(u.Hostname()):
		return fmt.Errorf("url %q: a bearer token is not sent without TLS: use https", u.Redacted())
	}
	return nil
}
