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

// Options says where ClickHouse is and who asks.
type Options struct {
	Address      string        // "unix:///path/sock", "http://host:8123" or "https://host:8443"
	Database     string        // an identifier; Migrate makes it
	User         string        // empty: "default"
	PasswordFile string        // file with the password, one line; empty: none
	CAFile       string        // PEM file of the authorities for https; empty: the system's
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

// client makes clickhouse-go's options for the given database.
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
		return nil, fmt.Errorf("store address %q: want %s://host:port and nothing else", o.Address, address.Scheme)
	}
	c.Addr = []string{address.Host}
	c.Compression = &clickhouse.Compression{Method: clickhouse.CompressionLZ4}
	return c, nil
}

func settings() clickhouse.Settings {
	return clickhouse.Settings{
		// A batch that is queued on the server isn't durable when it answers.
		"async_insert": 0,
		// Rows that were deleted and come again are no duplicates: what makes a
		// repeated insert harmless is their keys, not that replicated tables
		// remember the blocks they had.
		"insert_deduplicate": 0,
		// On a cluster: neither is one durable that is queued for other shards.
		"distributed_foreground_insert": 1,
		// What was written can be read: all go to the first replica that lives,
		// whichever server they are connected to.
		"prefer_localhost_replica": 0,
		"load_balancing":           "in_order",
		// A subquery sees all shards, as it sees the whole table on one server.
		"distributed_product_mode": "global",
	}
}
