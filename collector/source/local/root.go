package local

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/gpustate"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/config"
	"github.com/gputally/gputally/internal/wire"
)

// Config of what GPUs mean, whoever reads them.
type Config struct {
	// FatalXIDs flag a GPU as unhealthy until it is reset (R9).
	FatalXIDs []int64       `yaml:"fatal_xids"`
	Models    source.Models `yaml:"models"`
}

// DefaultConfig has the XIDs that R9 names.
func DefaultConfig() Config { return Config{FatalXIDs: slices.Clone(source.DefaultFatalXIDs)} }

// Validate names every wrong value.
func (c Config) Validate() error {
	var p config.Problems
	for i, x := range c.FatalXIDs {
		p.Want(x > 0, "fatal_xids[%d] %d: must be positive", i, x)
	}
	p.Add(c.Models.Validate())
	return p.Err()
}

// Deps are what a Builder works with.
type Deps struct {
	Cluster, Node string
	// StateFile keeps counters and health flags over restarts (R9, R16); empty:
	// they end with the process. Its folder must be there.
	StateFile string
	// MachineBoot tells one boot of the machine from another; empty: unknown.
	MachineBoot string
	Clock       clock.Clock
	Log         *slog.Logger
	Registry    prometheus.Registerer
}

// Builder makes a node's batches; for one goroutine.
type Builder struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	memory  *gpustate.Keeper
	layouts map[string]*layout
	known   map[string]*wire.Gpu // as last read, for GPUs that are lost
	keys    []Key                // scratch
	blind   blindness
}

// Deps are what the Builder was made with, for the source that feeds it.
func (b *Builder) Deps() Deps { return b.deps }

// New reads and writes nothing before the first Batch.
func New(cfg Config, deps Deps) (*Builder, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure local GPUs: %w", err)
	}
	if deps.Cluster == "" || deps.Node == "" {
		return nil, fmt.Errorf("configure local GPUs: cluster %q and node %q: both are needed", deps.Cluster, deps.Node)
	}
	m := newMetrics(deps.Registry)
	return &Builder{
		cfg: cfg, deps: deps, metrics: m,
		memory: &gpustate.Keeper{
			GPUs: gpustate.New(deps.Log), File: gpustate.File{Path: deps.StateFile, Kind: stateKind},
			Cluster: deps.Cluster, Log: deps.Log, Failed: m.stateFails,
		},
		layouts: map[string]*layout{}, known: map[string]*wire.Gpu{},
	}, nil
}

// Look takes up which instances the GPUs have at an instant; values aren't
// needed. A GPU that doesn't answer keeps what it had.
func (b *Builder) Look(at time.Time, boards []GPU) {
	b.blind.looked(at)
	for i := range boards {
		gpu := &boards[i]
		if gpu.Lost {
			continue
		}
		l := b.layouts[gpu.UUID]
		if l == nil {
			l = &layout{}
			b.layouts[gpu.UUID] = l
		}
		b.keys = gpu.keys(b.keys[:0])
		l.look(at, b.keys)
	}
}

// Blind says that at an instant nothing could be seen of the node. Nobody watched
// it from the last good look to the next (R1, R10).
func (b *Builder) Blind(at time.Time) { b.blind.failed(at) }

// Commit says that the last batch is spooled.
func (b *Builder) Commit() { b.memory.Commit() }

const stateKind = "gputally device state"

// state is what is in Deps.StateFile.
type state struct {
	gpustate.State
	Node        string `json:"node"`
	MachineBoot string `json:"machine_boot,omitempty"`
}

// restore takes up the memory of the process before, once.
func (b *Builder) restore() {
	var st state
	if b.memory.RestoreOnce(&st, &st.State, b.deps.Clock.Now()) &&
		b.deps.MachineBoot != "" && st.MachineBoot != "" && st.MachineBoot != b.deps.MachineBoot {
		b.deps.Log.Info("the machine was started anew: health flags are cleared")
		b.memory.HealAll()
	}
}

func (b *Builder) save() {
	b.memory.Save(state{State: b.memory.State(), Node: b.deps.Node, MachineBoot: b.deps.MachineBoot})
}
