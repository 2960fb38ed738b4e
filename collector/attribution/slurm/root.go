package slurm

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/collector/attribution"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

// Deps are a Reader's dependencies.
type Deps struct {
	Clock    clock.Clock
	Log      *slog.Logger
	Registry prometheus.Registerer
	Node     string // the collector's name of this node
}

// Reader implements attribution.Reader.
type Reader struct {
	cfg     Config
	deps    Deps
	client  *client
	layouts *layouts

	// from: files
	directory directory
	known     map[string]*fileJob // by job id, while a file names it
	stamps    map[string]stamp    // of the files when known was last brought up to date
	lookAt    time.Time           // when to query all known jobs again
	dropped   *prometheus.CounterVec
	retryAt   time.Time // when to query again after a failure
	lastFail  error

	// from: scontrol
	allocated map[string][]uint32  // positions by job and start
	answer    attribution.Snapshot // the last; At is zero if there is none
	askAt     time.Time
}

// New returns a Reader that has read nothing yet.
func New(cfg Config, deps Deps) (*Reader, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure Slurm: %w", err)
	}
	node := cfg.Node
	if node == "" {
		node = deps.Node
	}
	if err := validateNode(node); err != nil {
		return nil, fmt.Errorf("configure Slurm: %w", err)
	}
	run := counted(programs(cfg.ScontrolTimeout, cfg.SlurmConf), deps.Registry)
	return &Reader{
		cfg: cfg, deps: deps,
		client:    &client{run: run, squeue: cfg.Squeue, scontrol: cfg.Scontrol, node: node, nonce: newNonce},
		layouts:   &layouts{cfg: cfg, node: node, file: attribution.File{Path: cfg.GresConf, Most: maxGresConfBytes}},
		directory: directory{path: cfg.MappingDir},
		known:     map[string]*fileJob{}, dropped: countDropped(deps.Registry),
		allocated: map[string][]uint32{},
	}, nil
}

// Name is "slurm".
func (r *Reader) Name() string { return "slurm" }

// Read returns the current holdings; from: scontrol, those of the last query.
func (r *Reader) Read(ctx context.Context) (attribution.Snapshot, error) {
	if r.cfg.From == FromScontrol {
		return r.fromScontrol(ctx)
	}
	return r.fromFiles(ctx)
}

// owner returns the facts about a job.
func (j job) owner() *wire.Owner {
	return &wire.Owner{Job: j.id, User: fact(j.user), Account: fact(j.account)}
}

// fact converts a text to one that is valid on the wire; "(null)" is empty.
func fact(s string) string {
	if s == "(null)" {
		return ""
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
