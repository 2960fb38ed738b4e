package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

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

// Values of collector.source.
const (
	sourceExporter = "exporter"
	sourceDCGM     = "dcgm"
	sourceNVML     = "nvml"
)

// Values of attribution.readers.
const (
	readerKubelet = "kubelet"
	readerSlurm   = "slurm"
	readerStatic  = "static"
)

// AttributionConfig says who knows the owners of this node's GPUs.
type AttributionConfig struct {
	// Readers are asked in this order; the first that names an owner decides.
	// Empty: only the exporter source, which has owners of its own.
	Readers            []string `yaml:"readers"`
	attribution.Config `yaml:",inline"`
	Kubelet            podresources.Config `yaml:"kubelet"`
	Slurm              slurm.Config        `yaml:"slurm"`
	Static             static.Config       `yaml:"static"`
}

func defaultAttribution() AttributionConfig {
	return AttributionConfig{
		Config: attribution.DefaultConfig(), Kubelet: podresources.DefaultConfig(),
		Slurm: slurm.DefaultConfig(), Static: static.DefaultConfig(),
	}
}

func (c AttributionConfig) validate() error {
	errs := []error{c.Config.Validate(), c.validatePace()}
	for i, r := range c.Readers {
		var err error
		switch r {
		case readerKubelet:
			err = c.Kubelet.Validate()
		case readerSlurm:
			err = c.Slurm.Validate()
		case readerStatic:
			err = c.Static.Validate()
		default:
			err = fmt.Errorf("want %s, %s or %s", readerKubelet, readerSlurm, readerStatic)
		}
		if slices.Contains(c.Readers[:i], r) {
			err = errors.New("listed twice")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("readers[%d] %q: %w", i, r, err))
		}
	}
	return errors.Join(errs...)
}

// validatePace refuses answers that are too old as soon as they come.
func (c AttributionConfig) validatePace() error {
	if slices.Contains(c.Readers, readerSlurm) && c.Slurm.From == slurm.FromScontrol && c.StaleAfter < 2*c.Slurm.ScontrolEvery {
		return fmt.Errorf("stale_after %s: slurm asks the controller every %s: want %s or more", c.StaleAfter, c.Slurm.ScontrolEvery, 2*c.Slurm.ScontrolEvery)
	}
	return nil
}

// source is which one the configuration comes to; empty: none.
func (c Config) source() string {
	if c.Collector.Source == "" && len(c.Exporter.Targets) > 0 {
		return sourceExporter
	}
	return c.Collector.Source
}

// validateSource refuses a source that nobody could bill by.
func (c Config) validateSource() error {
	readers := len(c.Attribution.Readers)
	switch c.source() {
	case "":
		return nil
	case sourceExporter:
		if len(c.Exporter.Targets) == 0 {
			return fmt.Errorf("collector: source %q: exporter.targets is empty: name the exporters", sourceExporter)
		}
		if readers > 0 && len(c.Exporter.Targets) > 1 {
			return fmt.Errorf("exporter: targets: %d of them, and attribution.readers know one node's owners only: one collector per node, or owners by labels", len(c.Exporter.Targets))
		}
		if readers > 0 && c.Exporter.Attribution != exporter.AttributionNone {
			return fmt.Errorf("exporter: attribution %q: set it to %q, or leave attribution.readers empty: owners come from one of them",
				c.Exporter.Attribution, exporter.AttributionNone)
		}
		return nil
	case sourceDCGM, sourceNVML:
		if len(c.Exporter.Targets) > 0 {
			return fmt.Errorf("exporter: targets: collector.source is %q: take one of them out", c.Collector.Source)
		}
		if readers == 0 {
			return fmt.Errorf("attribution: readers: is empty: name %s, %s or %s, or nobody knows who holds a GPU that %s sees",
				readerKubelet, readerSlurm, readerStatic, c.Collector.Source)
		}
		return nil
	}
	return fmt.Errorf("collector: source %q: want %s, %s or %s", c.Collector.Source, sourceExporter, sourceDCGM, sourceNVML)
}

// nodeEnv is what a DaemonSet's downward API tells; podEnv is in every pod.
const (
	nodeEnv = "NODE_NAME"
	podEnv  = "KUBERNETES_SERVICE_HOST"
)

// nodeName is the configured one, else the environment's, else the host's. In a
// pod the host's name is the pod's, which the next rollout changes.
func (c CollectorConfig) nodeName() (string, error) {
	if name := cmp.Or(c.Node, os.Getenv(nodeEnv)); name != "" {
		return name, nil
	}
	if os.Getenv(podEnv) != "" {
		return "", usageError{fmt.Errorf("collector.node: is empty, and this is a pod: set $%s to the node's name (downward API, spec.nodeName)", nodeEnv)}
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name the node: %w", err)
	}
	return host, nil
}

// collecting is where a collector keeps its spool and its source's memory.
type collecting struct {
	spool string
	state func(name string) string // the file of that name
}

// startCollecting runs the configured source live, with its owners.
func (p *pipeline) startCollecting(ctx context.Context, at collecting) error {
	id, err := p.collectorID()
	if err != nil {
		return err
	}
	node := ""
	if p.cfg.source() != sourceExporter || len(p.cfg.Attribution.Readers) > 0 {
		if node, err = p.cfg.Collector.nodeName(); err != nil {
			return err
		}
	}
	src, err := p.newSource(node, at)
	if err != nil {
		return err
	}
	o := collectorOptions{
		id: id, cluster: p.cfg.Cluster.Name, slot: p.cfg.Cluster.Slot, policy: spool.DropOldest, source: src, dir: at.spool,
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
	p.metering = &metering{observer: shown, clock: p.s.clock, bound: 3 * p.cfg.Cluster.Slot}
	o.observer = p.metering
	c, _, err := p.newCollector(o)
	if err != nil {
		return err
	}
	if tracker == nil {
		p.group.Go("collector "+id, c.Live)
		return nil
	}
	// The first slot rests on owners, too.
	tracker.Poll(ctx)
	p.group.Go("attribution", tracker.Run)
	p.group.Go("collector "+id, c.Live)
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
		return fmt.Errorf("nothing was metered since %s: %s", m.last.UTC().Format(time.RFC3339), cmp.Or(m.reason, "no slot was read"))
	}
	return nil
}

// newSource makes the configured source; what it holds is let go when the group
// stops.
func (p *pipeline) newSource(node string, at collecting) (source.Source, error) {
	cfg, clk, log := p.cfg, p.s.clock, p.s.log
	name := cfg.source()
	if name == sourceExporter {
		return exporter.New(cfg.Exporter, exporter.Deps{
			Cluster: cfg.Cluster.Name, StateFile: at.state(exporterState), Clock: clk, Log: log, Registry: p.reg,
		})
	}
	builder, err := local.New(cfg.Device, local.Deps{
		Cluster: cfg.Cluster.Name, Node: node, StateFile: at.state(deviceState), MachineBoot: machineBoot(),
		Clock: clk, Log: log, Registry: p.reg,
	})
	if err != nil {
		return nil, err
	}
	if name == sourceNVML {
		src, err := nvml.New(cfg.NVML, nvml.Deps{Builder: builder, Clock: clk, Log: log, Registry: p.reg})
		if err != nil {
			return nil, err
		}
		p.group.OnStop("NVML", func() error { src.Close(); return nil })
		return src, nil
	}
	src, err := dcgm.New(cfg.DCGM, dcgm.Deps{Builder: builder, Clock: clk, Log: log, Registry: p.reg})
	if err != nil {
		return nil, err
	}
	p.group.OnStop("DCGM", func() error { src.Close(); return nil })
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
func (p *pipeline) newTracker(node string, info func() source.Info) (*attribution.Tracker, error) {
	cfg := p.cfg.Attribution
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
		Node: node, Readers: readers, Info: info, Clock: p.s.clock, Log: p.s.log, Registry: p.reg,
	})
}

func (p *pipeline) newReader(name, node string) (attribution.Reader, error) {
	cfg, clk, log := p.cfg.Attribution, p.s.clock, p.s.log
	switch name {
	case readerKubelet:
		r, err := podresources.New(cfg.Kubelet, podresources.Deps{Node: node, Getenv: os.Getenv, Clock: clk, Log: log, Registry: p.reg})
		if err != nil {
			return nil, err
		}
		p.group.OnStop("kubelet", r.Close)
		return r, nil
	case readerSlurm:
		return slurm.New(cfg.Slurm, slurm.Deps{Node: node, Clock: clk, Log: log, Registry: p.reg})
	case readerStatic:
		return static.New(cfg.Static, static.Deps{Node: node, Clock: clk, Log: log})
	}
	return nil, fmt.Errorf("attribution: reader %q is unknown", name)
}

// newDevices shows the node's devices in /metrics.
func (p *pipeline) newDevices(info func() source.Info) (collector.Observer, error) {
	mapping, err := tenants.Load(p.cfg.Ledger.TenantsFile)
	if err != nil {
		return nil, err
	}
	return devices.New(p.cfg.DeviceMetrics, devices.Deps{
		Tenants: mapping, Info: info, FieldName: p.cfg.DCGM.FieldName, Clock: p.s.clock, Log: p.s.log, Registry: p.reg,
	})
}
