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

// Config has the rules for readings of any library.
type Config struct {
	// FatalXIDs mark a GPU as unhealthy until it is reset (R9).
	FatalXIDs []int64       `yaml:"fatal_xids"`
	Models    source.Models `yaml:"models"`
}

// DefaultConfig has the default fatal XIDs.
func DefaultConfig() Config { return Config{FatalXIDs: slices.Clone(source.DefaultFatalXIDs)} }

// Validate returns an error for each invalid value.
func (c Config) Validate() error {
	var p config.Problems
	for i, x := range c.FatalXIDs {
		p.Want(x > 0, "fatal_xids[%d] %d: must be positive", i, x)
	}
	p.Add(c.Models.Validate())
	return p.Err()
}

// Deps are a Builder's dependencies.
type Deps struct {
	Cluster, Node string
	// StateFile stores counters and health flags across restarts (R9, R16); empty: they are lost when the process
	// ends. Its directory must exist.
	StateFile string
	// MachineBoot identifies a boot of the machine; empty: unknown.
	MachineBoot string
	Clock       clock.Clock
	Log         *slog.Logger
	Registry    prometheus.Registerer
}

// Builder makes a node's batches; not safe for concurrent use.
type Builder struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	memory  *gpustate.Keeper
	layouts map[string]*layout
	known   map[string]*wire.Gpu // as last read, for GPUs that are lost
	keys    []Key                // reused
	blind   blindness
}

// Deps are the Builder's dependencies, for the source that uses it.
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

// Look sets the GPUs' instances at an instant; values aren't needed. A GPU that doesn't answer keeps its instances.
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

// Blind records that the node could not be observed at an instant: the time from the last successful look to the next
// is unobserved (R1, R10).
func (b *Builder) Blind(at time.Time) { b.blind.failed(at) }

// Commit records that the last batch is spooled.
func (b *Builder) Commit() { b.memory.Commit() }

const stateKind = "gputally device state"

// state is the content of Deps.StateFile.
type state struct {
	gpustate.State
	Node        string `json:"node"`
	MachineBoot string `json:"machine_boot,omitempty"`
}

// restore restores the previous process's state, once.
func (b *Builder) restore() {
	var st state
	if b.memory.RestoreOnce(&st, &st.State, b.deps.Clock.Now()) &&
		b.deps.MachineBoot != "" && st.MachineBoot != "" && st.MachineBoot != b.deps.MachineBoot {
		b.deps.Log.Info("the machine was rebooted: health flags are cleared")
		b.memory.HealAll()
	}
}

func (b *Builder) save() {
	b.memory.Save(state{State: b.memory.State(), Node: b.deps.Node, MachineBoot: b.deps.MachineBoot})
}
