package prometheus

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/gputally/gputally/collector/source/exporter"
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
	var errs []error
	if err := c.validateURL(); err != nil {
		errs = append(errs, err)
	}
	if !c.From.Before(c.To) {
		errs = append(errs, fmt.Errorf("from %s: is not before to %s", c.From.Format(time.RFC3339), c.To.Format(time.RFC3339)))
	}
	if m := strings.TrimSpace(c.Match); m != "" && (!strings.HasPrefix(m, "{") || !strings.HasSuffix(m, "}")) {
		errs = append(errs, fmt.Errorf(`match %q: must be a selector such as {cluster="a"}`, c.Match))
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"first_window", int64(c.FirstWindow)},
		{"max_window", int64(c.MaxWindow)},
		{"points_per_query", int64(c.PointsPerQuery)},
		{"body_limit_bytes", c.BodyLimitBytes},
		{"timeout", int64(c.Timeout)},
		{"attempts", int64(c.Attempts)},
		{"retry_min", int64(c.RetryMin)},
	} {
		if f.value <= 0 {
			errs = append(errs, fmt.Errorf("%s %d: must be positive", f.name, f.value))
		}
	}
	return errors.Join(errs...)
}

func (c Config) validateURL() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return errors.New("url: is not a URL") // the text may hold a password
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("url %q: scheme %q must be http or https, as in http://prometheus:9090", u.Redacted(), u.Scheme)
	case u.Host == "":
		return fmt.Errorf("url %q: has no host", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("url %q: must end with the path in front of /api/v1", u.Redacted())
	case c.BearerToken != "" && u.Scheme == "http" && !trust.Loopback(u.Hostname()):
		return fmt.Errorf("url %q: a bearer token is not sent without TLS: use https", u.Redacted())
	}
	return nil
}
