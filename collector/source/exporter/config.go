package exporter

import (
	"fmt"
	"slices"
	"time"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/internal/config"
)

// Sources of owners.
const (
	AttributionLabels = "labels" // the exporter's labels are complete (R4)
	AttributionNone   = "none"   // owners are unknown: attribution failed
)

// Whether an exporter lists every GPU of its node (R2).
const (
	EnumerationComplete = "complete"
	EnumerationPartial  = "partial"
)

// Config has the exporters to scrape and the rules for their rows.
type Config struct {
	Targets []Target `yaml:"targets"`
	// Timeout bounds one scrape; four fifths of the slot bound it too.
	Timeout time.Duration `yaml:"timeout"`
	// BodyLimitBytes bounds an exposition (uncompressed); at most MaxBodyLimitBytes.
	BodyLimitBytes int64       `yaml:"body_limit_bytes"`
	Attribution    string      `yaml:"attribution"`
	Enumeration    string      `yaml:"enumeration"`
	OwnerLabels    OwnerLabels `yaml:"owner_labels"`
	// NotOwners are containers that never own a GPU, such as the exporter itself: a Prometheus adds its labels to
	// rows of free GPUs.
	NotOwners []string `yaml:"not_owners"`
	// FatalXIDs mark a GPU as unhealthy (R9).
	FatalXIDs []int64 `yaml:"fatal_xids"`
	// InferMIG recognises MIG GPUs without instances by missing rows (see doc.go).
	InferMIG bool          `yaml:"infer_mig"`
	Models   source.Models `yaml:"models"`
}

// Target is one exporter.
type Target struct {
	URL string `yaml:"url"`
	// Node is the node of the exporter's rows, whatever their Hostname label says; empty: the URL's host.
	Node string `yaml:"node"`
	// TrustHostname takes the node from the rows' Hostname label, for an endpoint of several nodes. The endpoint can
	// then report about any node.
	TrustHostname bool `yaml:"trust_hostname"`
	// MaxNodes and MaxGPUs bound what one exposition may list; 0: the default.
	MaxNodes int `yaml:"max_nodes"`
	MaxGPUs  int `yaml:"max_gpus"`
}

// Limits of one target and of all.
const (
	DefaultMaxNodes   = 1
	DefaultMaxGPUs    = 64
	MaxBodyLimitBytes = 64 << 20
	maxLineBytes      = 64 << 10 // of an exposition: some 60 labels of a KiB each
	// heldBytes bounds the memory of all targets' series, and leastHeldBytes is the minimum for each target, however
	// many there are: 64 GPUs with 40 fields take 0.2 MiB.
	heldBytes      = 256 << 20
	mostHeldBytes  = 32 << 20
	leastHeldBytes = 1 << 20
)

// OwnerLabels lists, for each owner fact, the labels that may contain it; the first that is not empty is used.
type OwnerLabels struct {
	Namespace []string `yaml:"namespace"`
	Pod       []string `yaml:"pod"`
	Container []string `yaml:"container"`
	UID       []string `yaml:"uid"`
	Job       []string `yaml:"job"`
	User      []string `yaml:"user"`
	Account   []string `yaml:"account"`
	Tenant    []string `yaml:"tenant"`
	Project   []string `yaml:"project"`
}

// DefaultConfig has no targets. Prometheus' own label "job" is not an owner, so it isn't among the defaults.
func DefaultConfig() Config {
	return Config{
		Timeout:        5 * time.Second,
		BodyLimitBytes: 4 << 20,
		Attribution:    AttributionLabels,
		Enumeration:    EnumerationComplete,
		OwnerLabels: OwnerLabels{
			Namespace: []string{"exported_namespace", "namespace", "pod_namespace"},
			Pod:       []string{"exported_pod", "pod", "pod_name"},
			Container: []string{"exported_container", "container", "container_name"},
			UID:       []string{"exported_pod_uid", "pod_uid"},
			Job:       []string{"hpc_job"},
		},
		NotOwners: []string{"nvidia-dcgm-exporter", "dcgm-exporter"},
		FatalXIDs: slices.Clone(source.DefaultFatalXIDs),
		InferMIG:  true,
	}
}

// Validate returns an error for each invalid value.
func (c Config) Validate() error {
	var p config.Problems
	p.Want(len(c.Targets) > 0, "targets: is empty, want at least one exporter URL")
	seen := make(map[string]bool)
	for i, t := range c.Targets {
		name := fmt.Sprintf("targets[%d].url %q", i, config.Redacted(t.URL))
		_, err := config.HTTPURL(t.URL)
		p.Want(err == nil, "%s: %w, as in http://node:9400/metrics", name, err)
		p.Want(!seen[t.URL], "%s: listed twice", name)
		p.Want(t.MaxNodes >= 0 && t.MaxGPUs >= 0,
			"targets[%d]: max_nodes %d and max_gpus %d: must not be negative", i, t.MaxNodes, t.MaxGPUs)
		p.Want(t.MaxNodes <= 1 || t.TrustHostname,
			"targets[%d]: max_nodes %d: requires trust_hostname: true", i, t.MaxNodes)
		seen[t.URL] = true
	}
	config.Positive(&p, "timeout", c.Timeout)
	p.Want(c.BodyLimitBytes > 0 && c.BodyLimitBytes <= MaxBodyLimitBytes,
		"body_limit_bytes %d: must be 1 to %d", c.BodyLimitBytes, MaxBodyLimitBytes)
	p.Add(c.validateRules())
	return p.Err()
}

// validateRules validates how rows are interpreted, whatever their source.
func (c Config) validateRules() error {
	var p config.Problems
	p.OneOf("attribution", c.Attribution, AttributionLabels, AttributionNone)
	p.OneOf("enumeration", c.Enumeration, EnumerationComplete, EnumerationPartial)
	p.Add(c.Models.Validate())
	return p.Err()
}
