package store

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/trust"
	"github.com/gputally/gputally/internal/unixsock"
)

const (
	defaultUser         = "default"
	defaultDialTimeout  = 10 * time.Second
	defaultMaxOpenConns = 16
)

// Options has ClickHouse's address, the user and the connection limits.
type Options struct {
	Address      string        // "unix:///path/sock", "http://host:8123" or "https://host:8443"
	Database     string        // an identifier; Migrate creates it
	User         string        // empty: "default"
	PasswordFile string        // file with the password, one line; empty: none
	CAFile       string        // PEM file of the certificate authorities for https; empty: the system's
	MaxOpenConns int           // 0: 16
	DialTimeout  time.Duration // 0: 10 s
	Log          *slog.Logger  // nil: nothing is logged
	Clock        clock.Clock   // nil: the real one
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (o *Options) normalize() error {
	if !identifier.MatchString(o.Database) {
		return fmt.Errorf("store options: database %q is not an identifier (letters, digits, underscore)", o.Database)
	}
	if o.MaxOpenConns < 0 {
		return fmt.Errorf("store options: max open connections is %d, need 0 or more", o.MaxOpenConns)
	}
	if o.User == "" {
		o.User = defaultUser
	}
	if o.MaxOpenConns == 0 {
		o.MaxOpenConns = defaultMaxOpenConns
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = defaultDialTimeout
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.Real()
	}
	return nil
}

// client returns clickhouse-go's options for the given database.
func (o Options) client(database string) (*clickhouse.Options, error) {
	password := ""
	if o.PasswordFile != "" {
		var err error
		if password, err = trust.ReadSecret(o.PasswordFile); err != nil {
			return nil, fmt.Errorf("read store password: %w", err)
		}
	}
	c := &clickhouse.Options{
		Protocol:            clickhouse.HTTP,
		Auth:                clickhouse.Auth{Database: database, Username: o.User, Password: password},
		DialTimeout:         o.DialTimeout,
		MaxOpenConns:        o.MaxOpenConns,
		MaxIdleConns:        o.MaxOpenConns,
		HttpMaxConnsPerHost: o.MaxOpenConns,
		Settings:            settings(),
		TransportFunc: func(next *http.Transport) (http.RoundTripper, error) {
			return revisionTransport{next}, nil
		},
	}
	address, err := url.Parse(o.Address)
	if err != nil {
		return nil, fmt.Errorf("parse store address %q: %w", o.Address, err)
	}
	switch address.Scheme {
	case "unix":
		if address.Path == "" || address.Host != "" {
			return nil, fmt.Errorf("store address %q: want unix:///absolute/path", o.Address)
		}
		c.Addr = []string{"engine"}
		c.DialContext = func(ctx context.Context, _ string) (net.Conn, error) { return unixsock.Dial(ctx, address.Path) }
		return c, nil
	case "https":
		if c.TLS, err = trust.Client(o.CAFile); err != nil {
			return nil, fmt.Errorf("read store CA file: %w", err)
		}
	case "http":
		if password != "" && !trust.Loopback(address.Hostname()) {
			return nil, fmt.Errorf(
				"store address %q: a password is not sent without TLS to another machine: use https", o.Address)
		}
	default:
		return nil, fmt.Errorf("store address %q: scheme %q is not one of unix, http, https", o.Address, address.Scheme)
	}
	if address.Port() == "" || strings.Trim(address.Path, "/") != "" || address.User != nil {
		return nil, fmt.Errorf("store address %q: want %s://host:port without path, user or query", o.Address, address.Scheme)
	}
	c.Addr = []string{address.Host}
	c.Compression = &clickhouse.Compression{Method: clickhouse.CompressionLZ4}
	return c, nil
}

func settings() clickhouse.Settings {
	return clickhouse.Settings{
		// A batch that is only queued on the server isn't durable when the server answers.
		"async_insert": 0,
		// Rows that were deleted and inserted again must not be dropped as duplicates: repeated inserts are
		// idempotent because of the rows' keys, not because replicated tables remember recent blocks.
		"insert_deduplicate": 0,
		// On a cluster a batch that is only queued for other shards isn't durable either.
		"distributed_foreground_insert": 1,
		// Reads see earlier writes: every connection uses the first available replica, whichever server it is
		// connected to.
		"prefer_localhost_replica": 0,
		"load_balancing":           "in_order",
		// A subquery reads all shards, like the whole table on a single server.
		"distributed_product_mode": "global",
	}
}
