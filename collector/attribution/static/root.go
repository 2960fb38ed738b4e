package static

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/gputally/gputally/collector/attribution"
	"github.com/gputally/gputally/internal/clock"
)

// maxFileBytes bounds an owners file: some ten thousand entries.
const maxFileBytes = 1 << 20

// Deps are what a Reader works with.
type Deps struct {
	Clock clock.Clock
	Log   *slog.Logger
	Node  string // the collector's name of this node; only for the log
}

// Reader is an attribution.Reader.
type Reader struct {
	cfg    Config
	deps   Deps
	read   os.FileInfo // of the version below; nil: none yet
	owners []entry
	err    error // what is wrong with that version
}

// New reads nothing yet.
func New(cfg Config, deps Deps) (*Reader, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure static owners: %w", err)
	}
	return &Reader{cfg: cfg, deps: deps}, nil
}

// Name is "static".
func (r *Reader) Name() string { return "static" }

// Read tells whose each device is now, by the file as it is now.
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

// refresh reads the file if it is another, and answers what is wrong with it.
func (r *Reader) refresh() error {
	info, err := os.Stat(r.cfg.File)
	if err != nil {
		r.read = nil
		return fmt.Errorf("read owners: %w", err)
	}
	if r.read != nil && same(r.read, info) {
		return r.err
	}
	if !info.Mode().IsRegular() { // a pipe would never end
		r.read = nil
		return fmt.Errorf("read owners: %s is no regular file but %s", r.cfg.File, info.Mode())
	}
	text, info, err := readWhole(r.cfg.File)
	if err != nil {
		r.read = nil
		return fmt.Errorf("read owners: %w", err)
	}
	r.read = info
	r.owners, r.err = decode(r.cfg.File, text)
	if r.err == nil {
		r.deps.Log.Info("owners were read", "node", r.deps.Node, "file", r.cfg.File, "entries", len(r.owners))
	}
	return r.err
}

// readWhole is a file's content and what it was like before and after reading.
func readWhole(name string) ([]byte, os.FileInfo, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, nil, err
	}
	if len(text) > maxFileBytes {
		return nil, nil, fmt.Errorf("%s: has more than %d bytes", name, maxFileBytes)
	}
	after, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !same(before, after) {
		return nil, nil, fmt.Errorf("%s: changed while it was read", name)
	}
	return text, after, nil
}

func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
