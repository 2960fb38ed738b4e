package exporter

import (
	"fmt"
	"slices"
	"time"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/internal/config"
)

// Where owners come from.
const (
	AttributionLabels = "labels" // the exporter's labels are the whole truth (R4)
	AttributionNone   = "none"   // nothing here knows owners: attribution failed
)

// Whether an exporter lists every GPU of its node (R2).
const (
	EnumerationComplete = "complete"
	EnumerationPartial  = "partial"
)

// Config says which exporters to scrape and how to read them.
type Config struct {
	Targets []Target `yaml:"targets"`
	// Timeout bounds one scrape; four fifths of the slot bound it too.
	Timeout time.Duration `yaml:"timeout"`
	// BodyLimitBytes refuses a larger exposition (uncompressed); at most
	// MaxBodyLimitBytes.
	BodyLimitBytes int64       `yaml:"body_limit_bytes"`
	Attribution    string      `yaml:"attribution"`
	Enumeration    string      `yaml:"enumeration"`
	OwnerLabels    OwnerLabels `yaml:"owner_labels"`
	// NotOwners are containers that never own a GPU: the exporter itself, whose
	// labels a Prometheus puts on every row of a GPU that nobody holds.
	NotOwners []string `yaml:"not_owners"`
	// FatalXIDs flag a GPU as unhealthy (R9).
	FatalXIDs []int64 `yaml:"fatal_xids"`
	// InferMIG tells MIG GPUs without instances by what is missing (see doc.go).
	InferMIG bool          `yaml:"infer_mig"`
	Models   source.Models `yaml:"models"`
}

// Target is one exporter.
type Target struct {
	URL string `yaml:"url"`
	// Node is the node that the exporter speaks for; empty: the URL's host. Rows
	// count for no other, whatever their Hostname label says.
	Node string `yaml:"node"`
	// TrustHostname lets the Hostname label of rows name the node: for an endpoint
	// that serves several nodes. Whoever answers there can then speak for any node.
	TrustHostname bool `yaml:"trust_hostname"`
	// MaxNodes and MaxGPUs bound what one exposition may list; 0 is the default.
	MaxNodes int `yaml:"max_nodes"`
	MaxGPUs  int `yaml:"max_gpus"`
}

// Limits of one target and of all.
const (
	DefaultMaxNodes   = 1
	DefaultMaxGPUs    = 64
	MaxBodyLimitBytes = 64 << 20
	maxLineBytes      = 64 << 10 // of an exposition: some 60 labels of a KiB each
	// heldBytes bounds what is held of all targets' series at once, and
	// leastHeldBytes is what a target may hold however many there are: 64 GPUs
	// with 40 fields take 0.2 MiB.
	heldBytes      = 256 << 20
	mostHeldBytes  = 32 << 20
	leastHeldBytes = 1 << 20
)

// OwnerLabels lists, for each owner fact, the labels that may hold it; the
// first that is there and not empty does.
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

// DefaultConfig has no targets. Prometheus' own label "job" is no owner, so it
// isn't among the defaults.
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

// Validate names every wrong value.
func (c Config) Validate() error {
	var p config.Problems
	p.Want(len(c.Targets) > 0, "targets: at least one exporter URL is needed")
	seen := make(map[string]bool)
	for i, t := range c.Targets {
		name := fmt.Sprintf("targets[%d].url %q", i, config.Redacted(t.URL))
		_, err := config.HTTPURL(t.URL)
		p.Want(err == nil, "%s: %w, as in http://node:9400/metrics", name, err)
		p.Want(!seen[t.URL], "%s: listed twice", name)
		p.Want(t.MaxNodes >= 0 && t.MaxGPUs >= 0,
			"targets[%d]: max_nodes %d and max_gpus %d: must not be negative", i, t.MaxNodes, t.MaxGPUs)
		p.Want(t.MaxNodes <= 1 || t.TrustHostname,
			"targets[%d]: max_nodes %d: needs trust_hostname: true, which lets rows name their node", i, t.MaxNodes)
		seen[t.URL] = true
	}
	config.Positive(&p, "timeout", c.Timeout)
	p.Want(c.BodyLimitBytes > 0 && c.BodyLimitBytes <= MaxBodyLimitBytes,
		"body_limit_bytes %d: must be 1 to %d", c.BodyLimitBytes, MaxBodyLimitBytes)
	p.Add(c.validateRules())
	return p.Err()
}

// validateRules is about what rows mean, wherever they come from.
func (c Config) validateRules() error {
	var p config.Problems
	p.OneOf("attribution", c.Attribution, AttributionLabels, AttributionNone)
	p.OneOf("enumeration", c.Enumeration, EnumerationComplete, EnumerationPartial)
	p.Add(c.Models.Validate())
	return p.Err()
}
