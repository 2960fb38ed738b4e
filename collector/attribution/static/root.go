package static

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/gputally/gputally/collector/attribution"
	"github.com/gputally/gputally/internal/clock"
)

// maxFileBytes bounds an owners file: some ten thousand entries.
const maxFileBytes = 1 << 20

// Deps are a Reader's dependencies.
type Deps struct {
	Clock clock.Clock
	Log   *slog.Logger
	Node  string // the collector's name of this node; only for the log
}

// Reader implements attribution.Reader.
type Reader struct {
	cfg    Config
	deps   Deps
	file   attribution.File
	owners []entry
	err    error // error of that version
}

// New returns a Reader that has read nothing yet.
func New(cfg Config, deps Deps) (*Reader, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure static owners: %w", err)
	}
	return &Reader{cfg: cfg, deps: deps, file: attribution.File{Path: cfg.File, Most: maxFileBytes}}, nil
}

// Name is "static".
func (r *Reader) Name() string { return "static" }

// Read returns the current owner of each device, according to the current file.
func (r *Reader) Read(context.Context) (attribution.Snapshot, error) {
	if err := r.refresh(); err != nil {
		return attribution.Snapshot{}, err
	}
	now := r.deps.Clock.Now()
	var snap attribution.Snapshot
	for _, e := range r.owners {
		if e.at(now) {
			snap.Holdings = append(snap.Holdings, attribution.Holding{Device: e.device(), Owner: e.owner()})
		}
	}
	return snap, nil
}

// refresh reads the file if it has changed, and returns its error.
func (r *Reader) refresh() error {
	text, changed, err := r.file.Read()
	if err != nil {
		return fmt.Errorf("read owners: %w", err)
	}
	if !changed {
		return r.err
	}
	if r.owners, r.err = decode(r.cfg.File, text); r.err == nil {
		r.deps.Log.Info("owners loaded", "node", r.deps.Node, "file", r.cfg.File, "entries", len(r.owners))
	}
	return r.err
}
