package settings

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/gputally/gputally/collector/attribution"
	"github.com/gputally/gputally/collector/attribution/podresources"
	"github.com/gputally/gputally/collector/attribution/slurm"
	"github.com/gputally/gputally/collector/attribution/static"
	"github.com/gputally/gputally/collector/source/exporter"
	"github.com/gputally/gputally/internal/cli"
)

// Values of collector.source.
const (
	SourceExporter = "exporter"
	sourceDCGM     = "dcgm"
	SourceNVML     = "nvml"
)

// Values of attribution.readers.
const (
	ReaderKubelet = "kubelet"
	ReaderSlurm   = "slurm"
	ReaderStatic  = "static"
)

// attributionConfig has the sources of the owners of this node's GPUs.
type attributionConfig struct {
	// Readers are used in this order; the first that names an owner decides. Empty: only for the exporter source,
	// which has owners of its own.
	Readers            []string `yaml:"readers"`
	attribution.Config `yaml:",inline"`
	Kubelet            podresources.Config `yaml:"kubelet"`
	Slurm              slurm.Config        `yaml:"slurm"`
	Static             static.Config       `yaml:"static"`
}

func defaultAttribution() attributionConfig {
	return attributionConfig{
		Config: attribution.DefaultConfig(), Kubelet: podresources.DefaultConfig(),
		Slurm: slurm.DefaultConfig(), Static: static.DefaultConfig(),
	}
}

func (c attributionConfig) validate() error {
	errs := []error{c.Config.Validate(), c.validatePace()}
	for i, r := range c.Readers {
		var err error
		switch r {
		case ReaderKubelet:
			err = c.Kubelet.Validate()
		case ReaderSlurm:
			err = c.Slurm.Validate()
		case ReaderStatic:
			err = c.Static.Validate()
		default:
			err = fmt.Errorf("want %s, %s or %s", ReaderKubelet, ReaderSlurm, ReaderStatic)
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

// validatePace refuses a stale_after that would make answers too old at once.
func (c attributionConfig) validatePace() error {
	if slices.Contains(c.Readers,
		ReaderSlurm) && c.Slurm.From == slurm.FromScontrol && c.StaleAfter < 2*c.Slurm.ScontrolEvery {
		return fmt.Errorf("stale_after %s: slurm asks the controller every %s: want %s or more", c.StaleAfter,
			c.Slurm.ScontrolEvery, 2*c.Slurm.ScontrolEvery)
	}
	return nil
}

// SourceName is the source that the configuration selects; empty: none.
func (c Config) SourceName() string {
	if c.Collector.Source == "" && len(c.Exporter.Targets) > 0 {
		return SourceExporter
	}
	return c.Collector.Source
}

// ValidateSource refuses sources without which nothing could be billed.
func (c Config) ValidateSource() error {
	readers := len(c.Attribution.Readers)
	switch c.SourceName() {
	case "":
		return nil
	case SourceExporter:
		if len(c.Exporter.Targets) == 0 {
			return fmt.Errorf("collector: source %q: exporter.targets is empty: name the exporters", SourceExporter)
		}
		if readers > 0 && len(c.Exporter.Targets) > 1 {
			return fmt.Errorf(
				"exporter: targets: %d of them, and attribution.readers know one node's owners only: one collector per node, or "+
					"owners by labels", len(c.Exporter.Targets))
		}
		if readers > 0 && c.Exporter.Attribution != exporter.AttributionNone {
			return fmt.Errorf(
				"exporter: attribution %q: set it to %q, or leave attribution.readers empty: owners come from one of them",
				c.Exporter.Attribution, exporter.AttributionNone)
		}
		return nil
	case sourceDCGM, SourceNVML:
		if len(c.Exporter.Targets) > 0 {
			return fmt.Errorf("exporter: targets: collector.source is %q: remove one of them", c.Collector.Source)
		}
		if readers == 0 {
			return fmt.Errorf("attribution: readers: is empty: set %s, %s or %s: source %s doesn't know the owners of GPUs",
				ReaderKubelet, ReaderSlurm, ReaderStatic, c.Collector.Source)
		}
		return nil
	}
	return fmt.Errorf("collector: source %q: want %s, %s or %s", c.Collector.Source, SourceExporter, sourceDCGM,
		SourceNVML)
}

// NodeEnv is set by the downward API of a DaemonSet; PodEnv exists in every pod.
const (
	NodeEnv = "NODE_NAME"
	PodEnv  = "KUBERNETES_SERVICE_HOST"
)

// NodeName is the configured name, else the environment's, else the host's. In a pod the host's name is the pod's,
// which changes with the next rollout.
func (c CollectorConfig) NodeName() (string, error) {
	if name := cmp.Or(c.Node, os.Getenv(NodeEnv)); name != "" {
		return name, nil
	}
	if os.Getenv(PodEnv) != "" {
		return "", cli.UsageError(
			fmt.Errorf("collector.node: is empty, and this is a pod: set $%s to the node's name (downward API, spec.nodeName)",
				NodeEnv))
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name the node: %w", err)
	}
	return host, nil
}
