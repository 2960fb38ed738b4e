package dcgm

import (
	"fmt"
	"time"

	"github.com/gputally/gputally/collector/source/local"
)

// Source reads the GPUs of its own node from DCGM. Without a connection there is no batch; while the driver is
// unloaded the batch lists nothing.
type Source struct {
	*local.Source
	cfg     Config
	deps    local.Deps
	metrics *metrics
	extra   []uint16          // configured fields
	told    map[string]string // last logged error of each watch

	session  *session
	slot     time.Duration // of the last Read; 0: none yet
	dialled  int           // number of connections
	failures int           // consecutive failures to connect and watch
	retryAt  time.Time
	lastErr  error
	known    map[uint32]identity // identified GPUs, by DCGM's id
	history  history
	pending  pending
}

// session is a connection with its layout and watches.
type session struct {
	link    *link
	layout  *layout
	watches *watches
	remake  bool // create groups and watches again, even if the inventory is unchanged
	ready   bool // watches were created at least once
}

// New returns a source; it loads and connects nothing before the first Read or Watch.
func New(cfg Config, b *local.Builder) (*Source, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure DCGM source: %w", err)
	}
	extra, err := extraFields(cfg.Fields)
	if err != nil {
		return nil, fmt.Errorf("configure DCGM source: %w", err)
	}
	s := &Source{
		cfg: cfg, deps: b.Deps(), metrics: newMetrics(b.Deps().Registry), extra: extra,
		told: map[string]string{}, known: map[uint32]identity{}, history: newHistory(),
	}
	s.Source = local.NewSource(local.Library{
		Name: "DCGM", Read: s.read, Look: s.look, Deliver: s.pending.deliver, Close: s.hangUp, Blocked: s.metrics.blocked,
	}, b)
	return s, nil
}
