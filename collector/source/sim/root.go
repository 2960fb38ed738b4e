package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
	_ "time/tzdata" // tenants' zones must not depend on the machine

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/internal/wire"
)

// Deps are a Source's dependencies; with a nil registerer the metrics are not exposed.
type Deps struct {
	Registerer prometheus.Registerer
}

// Source simulates the demo fleet. It is safe for concurrent use.
type Source struct {
	config    Config
	seed      uint64
	window    span
	fleet     *fleet
	tenants   map[string]*tenant
	units     []unit
	incidents []incident
	failures  []failure
	metrics   metrics

	mu    sync.Mutex
	plans map[int64]*plan // by the day's start
}

var _ source.Source = (*Source)(nil)

// New builds the fleet; it fails if Validate does.
func New(config Config, deps Deps) (*Source, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("validate simulator: %w", err)
	}
	d, err := describe()
	if err != nil {
		return nil, err
	}
	seed := deriveName(mix(uint64(config.Seed)), config.Cluster)
	s := &Source{
		config: config, seed: seed,
		window:   span{config.WindowFrom.UnixMilli(), config.WindowTo.UnixMilli()},
		fleet:    newFleet(seed, &d),
		tenants:  map[string]*tenant{},
		failures: d.Failures,
		metrics:  newMetrics(deps.Registerer),
		plans:    map[int64]*plan{},
	}
	for _, t := range d.Tenants {
		if err := t.resolve(); err != nil {
			return nil, err
		}
		s.tenants[t.Name] = t
	}
	for _, w := range d.Workloads {
		s.addWorkload(w)
	}
	for _, r := range d.Incidents {
		s.incidents = append(s.incidents, incident{r, s.fleet.lanesOf(r.Places)})
	}
	return s, nil
}

// addWorkload adds one unit for a gang, else one per lane.
func (s *Source) addWorkload(w workload) {
	lanes := s.fleet.lanesOf(w.Places)
	groups := [][]int{lanes}
	if !w.Gang {
		groups = slices.Collect(slices.Chunk(lanes, 1))
	}
	for _, g := range groups {
		s.units = append(s.units, unit{
			workload: w, tenant: s.tenants[w.Tenant], lanes: g,
			scheduler: s.fleet.nodes[s.fleet.homes[g[0]].node].Scheduler,
			seed:      derive(deriveName(s.seed, w.Name), int64(g[0])+1),
		})
	}
}

// Read returns the batches of one slot, at most one per node in the fleet's order, without identity. A node that is
// down throughout the slot has none; a slot outside the window or of a length that isn't whole seconds dividing the
// hour is an error. The caller may modify the messages.
func (s *Source) Read(ctx context.Context, slot source.Slot) ([]*wire.Batch, error) {
	at := span{slot.Start.UnixMilli(), slot.End().UnixMilli()}
	err := ctx.Err()
	if err == nil {
		err = s.checkSlot(slot, at)
	}
	if err != nil {
		return nil, fmt.Errorf("read simulated slot %s: %w", slot.Start.UTC().Format(time.RFC3339Nano), err)
	}
	p := s.plan(at.from)
	batches := make([]*wire.Batch, 0, len(s.fleet.nodes))
	for i := range s.fleet.nodes {
		if b := s.readNode(p, i, at); b != nil {
			batches = append(batches, b)
			s.metrics.batches.WithLabelValues(b.Node).Inc()
		}
	}
	return batches, nil
}

func (s *Source) checkSlot(slot source.Slot, at span) error {
	switch {
	case slot.Length < time.Second || time.Hour%slot.Length != 0 || slot.Length%time.Second != 0:
		return fmt.Errorf("length %s: must be whole seconds that divide the hour", slot.Length)
	case at.from%at.len() != 0 || slot.Start.Nanosecond() != 0:
		return fmt.Errorf("start: must be a multiple of %s", slot.Length)
	case at.from < s.window.from || at.to > s.window.to:
		return fmt.Errorf("outside the window %s to %s",
			s.config.WindowFrom.UTC().Format(time.RFC3339), s.config.WindowTo.UTC().Format(time.RFC3339))
	}
	return nil
}
