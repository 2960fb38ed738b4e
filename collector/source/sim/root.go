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

// Deps are what a Source is given; a nil registerer keeps the metrics private.
type Deps struct {
	Registerer prometheus.Registerer
}

// Source simulates the fleet of its configuration. It is safe for concurrent
// use.
type Source struct {
	config        Config
	seed          uint64
	window        span
	fleet         *fleet
	tenants       map[string]*tenant
	units         []unit
	incidentLanes [][]int // by rule
	counters      []prometheus.Counter
	metrics       metrics

	mu    sync.Mutex
	plans map[int64]*plan // by the day's start
}

var _ source.Source = (*Source)(nil)

// New builds the fleet; it fails on a configuration that Validate refuses,
// and where two incidents of the window claim a leaf at the same time.
func New(config Config, deps Deps) (*Source, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("validate simulator: %w", err)
	}
	s := &Source{
		config:  config,
		seed:    deriveName(mix(uint64(config.Seed)), config.Cluster),
		window:  span{config.WindowFrom.UnixMilli(), config.WindowTo.UnixMilli()},
		fleet:   newFleet(config),
		tenants: map[string]*tenant{},
		metrics: newMetrics(deps.Registerer),
		plans:   map[int64]*plan{},
	}
	for _, t := range config.Tenants {
		resolved, err := newTenant(t)
		if err != nil {
			return nil, err
		}
		s.tenants[t.Name] = resolved
	}
	for i := range s.config.Workloads {
		if err := s.addWorkload(i); err != nil {
			return nil, err
		}
	}
	for _, r := range config.Incidents {
		lanes, err := s.lanesOf(r.Places)
		if err != nil {
			return nil, err
		}
		s.incidentLanes = append(s.incidentLanes, lanes)
	}
	for _, n := range config.Nodes {
		s.counters = append(s.counters, s.metrics.batches.WithLabelValues(n.Name))
	}
	if err := s.checkIncidents(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Source) lanesOf(places []Place) ([]int, error) {
	keys, err := s.config.laneKeys(places)
	if err != nil {
		return nil, err
	}
	lanes := make([]int, len(keys))
	for i, k := range keys {
		lanes[i] = s.fleet.lanes[k]
	}
	return lanes, nil
}

// addWorkload makes one unit of a gang, else one per lane.
func (s *Source) addWorkload(i int) error {
	w := &s.config.Workloads[i]
	lanes, err := s.lanesOf(w.Places)
	if err != nil {
		return err
	}
	groups := [][]int{lanes}
	if !w.Gang {
		groups = slices.Collect(slices.Chunk(lanes, 1))
	}
	for _, g := range groups {
		n := s.fleet.nodes[s.fleet.homes[g[0]].node]
		s.units = append(s.units, unit{
			Workload: w, tenant: s.tenants[w.Tenant], scheduler: n.Scheduler, lanes: g,
			seed: derive(deriveName(s.seed, w.Name), int64(g[0])+1),
		})
	}
	return nil
}

// Read answers the batches of one slot, at most one per node in the
// configuration's order, without identity. A node that is down throughout the
// slot has none; a slot outside the declared window or of a length that isn't
// whole seconds dividing the hour is an error. All messages are the caller's.
func (s *Source) Read(ctx context.Context, slot source.Slot) ([]*wire.Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("read simulated slot %s: %w", slot.Start.UTC().Format(time.RFC3339), err)
	}
	at := span{slot.Start.UnixMilli(), slot.End().UnixMilli()}
	if err := s.checkSlot(slot, at); err != nil {
		return nil, err
	}
	p := s.plan(at.from)
	arena := newArena(s.fleet)
	batches := make([]*wire.Batch, 0, len(s.fleet.nodes))
	for i := range s.fleet.nodes {
		if b := s.readNode(arena, p, i, at); b != nil {
			batches = append(batches, b)
			s.counters[i].Inc()
		}
	}
	return batches, nil
}

func (s *Source) checkSlot(slot source.Slot, at span) error {
	switch {
	case slot.Length < time.Second || time.Hour%slot.Length != 0 || slot.Length%time.Second != 0:
		return fmt.Errorf("read simulated slot: length %s: must be whole seconds that divide the hour", slot.Length)
	case at.from%at.len() != 0 || slot.Start.Nanosecond() != 0:
		return fmt.Errorf("read simulated slot: start %s: must be a multiple of %s", slot.Start.UTC().Format(time.RFC3339Nano), slot.Length)
	case at.from < s.window.from || at.to > s.window.to:
		return fmt.Errorf("read simulated slot: start %s: outside the window %s to %s", slot.Start.UTC().Format(time.RFC3339),
			s.config.WindowFrom.UTC().Format(time.RFC3339), s.config.WindowTo.UTC().Format(time.RFC3339))
	}
	return nil
}
