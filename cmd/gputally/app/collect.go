package app

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/collector"
	"github.com/gputally/gputally/collector/attribution"
	"github.com/gputally/gputally/collector/attribution/podresources"
	"github.com/gputally/gputally/collector/attribution/slurm"
	"github.com/gputally/gputally/collector/attribution/static"
	"github.com/gputally/gputally/collector/devices"
	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/dcgm"
	"github.com/gputally/gputally/collector/source/exporter"
	"github.com/gputally/gputally/collector/source/local"
	"github.com/gputally/gputally/collector/source/nvml"
	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/tenants"
	"github.com/gputally/gputally/internal/wire"
)

// collecting is where a collector keeps its spool and its source's memory.
type collecting struct {
	spool string
	state func(name string) string // the file of that name
}

// startCollecting runs the configured source live, with its owners.
func (p *Pipeline) startCollecting(ctx context.Context, at collecting) error {
	id, err := p.collectorID()
	if err != nil {
		return err
	}
	node := ""
	if p.Config.SourceName() != settings.SourceExporter || len(p.Config.Attribution.Readers) > 0 {
		if node, err = p.Config.Collector.NodeName(); err != nil {
			return err
		}
	}
	src, err := p.newSource(node, at)
	if err != nil {
		return err
	}
	o := CollectorOptions{
		ID: id, Cluster: p.Config.Cluster.Name, Slot: p.Config.Cluster.Slot, Policy: spool.DropOldest, Source: src,
		Dir: at.spool,
	}
	info := func() source.Info { return source.Info{} }
	if informer, ok := src.(source.Informer); ok {
		info = informer.Info
	}
	tracker, err := p.newTracker(node, info)
	if err != nil {
		return err
	}
	if tracker != nil {
		o.attributor = tracker
	}
	shown, err := p.newDevices(info)
	if err != nil {
		return err
	}
	p.metering = &metering{observer: shown, clock: p.Session.Clock, bound: 3 * p.Config.Cluster.Slot}
	o.observer = p.metering
	c, _, err := p.NewCollector(o)
	if err != nil {
		return err
	}
	if tracker == nil {
		p.Group.Go("collector "+id, c.Live)
		return nil
	}
	// The first slot rests on owners, too.
	tracker.Poll(ctx)
	p.Group.Go("attribution", tracker.Run)
	p.Group.Go("collector "+id, c.Live)
	return nil
}

// metering shows batches on and remembers when the last good one was.
type metering struct {
	observer collector.Observer
	clock    clock.Clock
	bound    time.Duration

	mu     sync.Mutex
	last   time.Time // of a batch whose owners are known
	reason string    // why the last one was none
}

// Observe is the collector's.
func (m *metering) Observe(batches []*wire.Batch) {
	m.observer.Observe(batches)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reason = "the source gave no batch"
	for _, b := range batches {
		if b.Attribution == wire.Attribution_ATTRIBUTION_FAILED {
			m.reason = "owners can't be read"
			continue
		}
		m.last, m.reason = m.clock.Now(), ""
	}
}

// ready is an error while nothing is metered, for /-/ready.
func (m *metering) ready(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.last.IsZero():
		return fmt.Errorf("nothing was metered yet: %s", cmp.Or(m.reason, "the first slot is not over"))
	case m.clock.Since(m.last) > m.bound:
		return fmt.Errorf("nothing was metered since %s: %s", m.last.UTC().Format(time.RFC3339),
			cmp.Or(m.reason, "no slot was read"))
	}
	return nil
}

// newSource makes the configured source; what it holds is let go when the group
// stops.
func (p *Pipeline) newSource(node string, at collecting) (source.Source, error) {
	cfg, clk, log := p.Config, p.Session.Clock, p.Session.Log
	name := cfg.SourceName()
	if name == settings.SourceExporter {
		return exporter.New(cfg.Exporter, exporter.Deps{
			Cluster: cfg.Cluster.Name, StateFile: at.state(exporterState), Clock: clk, Log: log, Registry: p.Registry,
		})
	}
	builder, err := local.New(cfg.Device, local.Deps{
		Cluster: cfg.Cluster.Name, Node: node, StateFile: at.state(DeviceState), MachineBoot: machineBoot(),
		Clock: clk, Log: log, Registry: p.Registry,
	})
	if err != nil {
		return nil, err
	}
	if name == settings.SourceNVML {
		src, err := nvml.New(cfg.NVML, builder)
		if err != nil {
			return nil, err
		}
		p.Group.OnStop("NVML", func() error { src.Close(); return nil })
		return src, nil
	}
	src, err := dcgm.New(cfg.DCGM, builder)
	if err != nil {
		return nil, err
	}
	p.Group.OnStop("DCGM", func() error { src.Close(); return nil })
	return src, nil
}

// machineBoot is Linux' name of this boot of the machine; empty: unknown.
func machineBoot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// newTracker is nil where no readers are configured.
func (p *Pipeline) newTracker(node string, info func() source.Info) (*attribution.Tracker, error) {
	cfg := p.Config.Attribution
	if len(cfg.Readers) == 0 {
		return nil, nil
	}
	var readers []attribution.Reader
	for _, name := range cfg.Readers {
		r, err := p.newReader(name, node)
		if err != nil {
			return nil, err
		}
		readers = append(readers, r)
	}
	return attribution.New(cfg.Config, attribution.Deps{
		Node: node, Readers: readers, Info: info, Clock: p.Session.Clock, Log: p.Session.Log, Registry: p.Registry,
	})
}

func (p *Pipeline) newReader(name, node string) (attribution.Reader, error) {
	cfg, clk, log := p.Config.Attribution, p.Session.Clock, p.Session.Log
	switch name {
	case settings.ReaderKubelet:
		r, err := podresources.New(cfg.Kubelet,
			podresources.Deps{Node: node, Getenv: os.Getenv, Clock: clk, Log: log, Registry: p.Registry})
		if err != nil {
			return nil, err
		}
		p.Group.OnStop("kubelet", r.Close)
		return r, nil
	case settings.ReaderSlurm:
		return slurm.New(cfg.Slurm, slurm.Deps{Node: node, Clock: clk, Log: log, Registry: p.Registry})
	case settings.ReaderStatic:
		return static.New(cfg.Static, static.Deps{Node: node, Clock: clk, Log: log})
	}
	return nil, fmt.Errorf("attribution: reader %q is unknown", name)
}

// newDevices shows the node's devices in /metrics.
func (p *Pipeline) newDevices(info func() source.Info) (collector.Observer, error) {
	mapping, err := tenants.Load(p.Config.Ledger.TenantsFile)
	if err != nil {
		return nil, err
	}
	return devices.New(p.Config.DeviceMetrics, devices.Deps{
		Tenants: mapping, Info: info, FieldName: p.Config.DCGM.FieldName, Clock: p.Session.Clock, Log: p.Session.Log,
		Registry: p.Registry,
	})
}
