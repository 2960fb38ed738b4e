package podresources

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/gputally/gputally/internal/config"
	"github.com/gputally/gputally/internal/trust"
)

// Where pods and namespaces are asked for.
const (
	FromKubelet = "kubelet" // GET /pods of the node's kubelet
	FromAPI     = "api"     // the API server
	FromNowhere = "none"
)

const (
	serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount/"
	// socketPathMax is what fits into sockaddr_un's sun_path, with its NUL.
	socketPathMax = 107
	// namespacesStale is how many times namespaces_every labels answer for when
	// the API server does not.
	namespacesStale = 10
)

// Config says which kubelet to ask and what to make of its answers.
type Config struct {
	// Socket is the kubelet's pod-resources socket. Mount its folder, not the
	// socket: the kubelet makes a new one at each start.
	Socket string `yaml:"socket"`
	// Node is Kubernetes' name of the node; empty: the collector's name of it.
	Node string `yaml:"node"`
	// Resources are globs (path.Match) of the device plugins' resource names.
	Resources []string `yaml:"resources"`
	// DRADrivers are the drivers whose claims hold GPUs; none: no DRA.
	DRADrivers []string `yaml:"dra_drivers"`
	// DRACheckpoint is the file in which NVIDIA's driver names the MIG devices that
	// it made on demand, read when there are such; empty: they are an error.
	DRACheckpoint string `yaml:"dra_checkpoint"`
	// Timeout bounds each question; two of them should fit into a poll's timeout.
	Timeout time.Duration `yaml:"timeout"`
	// AllocatableEvery is how often the replicas of shared devices are counted.
	AllocatableEvery time.Duration `yaml:"allocatable_every"`

	// Pods says who knows UIDs and finished pods: kubelet, api or none. The
	// kubelet's answer needs the right to get nodes/pods (nodes/proxy before 1.33),
	// the API's to list pods.
	Pods string `yaml:"pods"`
	// PodsEvery is how often known pods are asked about again.
	PodsEvery time.Duration `yaml:"pods_every"`
	// PodsStaleAfter is how long the last list of pods answers when the next fail.
	PodsStaleAfter time.Duration `yaml:"pods_stale_after"`

	// Namespaces says who knows the namespaces' labels: api or none. They are
	// asked for only where labels below are configured.
	Namespaces      string        `yaml:"namespaces"`
	NamespacesEvery time.Duration `yaml:"namespaces_every"`
	// TenantLabels and ProjectLabels are label keys; the first that is there and
	// not empty decides, on the namespace before the pod.
	TenantLabels  []string `yaml:"tenant_labels"`
	ProjectLabels []string `yaml:"project_labels"`
	// TrustPodLabels takes labels from pods too, which tenants write themselves.
	TrustPodLabels bool `yaml:"trust_pod_labels"`

	Kubelet Endpoint `yaml:"kubelet"`
	API     Endpoint `yaml:"api"`
}

// Endpoint is an HTTPS server of Kubernetes.
type Endpoint struct {
	// URL is empty for https://NODE:10250, and for the API server that the pod's
	// environment names. Over http:// no token is sent.
	URL string `yaml:"url"`
	// TokenFile holds the bearer token, read at each request; empty: no token.
	TokenFile string `yaml:"token_file"`
	// CAFile verifies the server, read at each request; empty: the system's roots.
	CAFile string `yaml:"ca_file"`
	// InsecureSkipVerify takes any certificate, such as a kubelet's self-signed
	// one. With it no token is sent but to a loopback address, since whoever
	// answers in the server's place would get it: name the certificate as CAFile.
	InsecureSkipVerify bool `yaml:"insecure_skip_verify"`
}

// DefaultConfig is for a pod on the node, whose service account may list pods,
// and where they are needed get namespaces, list resourceslices and get
// resourceclaims.
func DefaultConfig() Config {
	inCluster := Endpoint{TokenFile: serviceAccount + "token", CAFile: serviceAccount + "ca.crt"}
	return Config{
		Socket:           "/var/lib/kubelet/pod-resources/kubelet.sock",
		Resources:        []string{"nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-*"},
		DRADrivers:       []string{"gpu.nvidia.com"},
		DRACheckpoint:    "/var/lib/kubelet/plugins/gpu.nvidia.com/checkpoint.json",
		Timeout:          2 * time.Second,
		AllocatableEvery: time.Minute,
		Pods:             FromAPI,
		PodsEvery:        10 * time.Second,
		PodsStaleAfter:   time.Minute,
		Namespaces:       FromAPI,
		NamespacesEvery:  time.Minute,
		Kubelet:          inCluster,
		API:              inCluster,
	}
}

// Validate names every wrong value.
func (c Config) Validate() error {
	var p config.Problems
	p.Want(filepath.IsAbs(c.Socket), "socket %q: must be an absolute path", c.Socket)
	p.Want(len(c.Socket) <= socketPathMax,
		"socket %q: is %d bytes long, a socket's path has at most %d", c.Socket, len(c.Socket), socketPathMax)
	p.Want(c.DRACheckpoint == "" || filepath.IsAbs(c.DRACheckpoint),
		"dra_checkpoint %q: must be an absolute path", c.DRACheckpoint)
	p.Add(c.Kubelet.validate("kubelet"))
	p.Add(c.API.validate("api"))
	p.Want(len(c.Resources)+len(c.DRADrivers) > 0,
		"resources and dra_drivers: both are empty, nothing could hold a GPU")
	for i, glob := range c.Resources {
		_, err := path.Match(glob, "")
		p.Want(err == nil && glob != "", "resources[%d] %q: is not a glob such as nvidia.com/mig-*", i, glob)
	}
	for _, d := range []struct {
		key          string
		value, least time.Duration
	}{
		{"timeout", c.Timeout, time.Millisecond},
		{"allocatable_every", c.AllocatableEvery, time.Second},
		{"pods_every", c.PodsEvery, time.Second},
		{"pods_stale_after", c.PodsStaleAfter, c.PodsEvery},
		{"namespaces_every", c.NamespacesEvery, time.Second},
	} {
		p.Want(d.value >= d.least, "%s %s: must be at least %s", d.key, d.value, d.least)
	}
	p.OneOf("pods", c.Pods, FromKubelet, FromAPI, FromNowhere)
	p.OneOf("namespaces", c.Namespaces, FromAPI, FromNowhere)
	c.validateLabels(&p)
	return p.Err()
}

func (c Config) validateLabels(p *config.Problems) {
	for key, list := range map[string][]string{
		"dra_drivers": c.DRADrivers, "tenant_labels": c.TenantLabels, "project_labels": c.ProjectLabels,
	} {
		i := slices.Index(list, "")
		p.Want(i < 0, "%s[%d]: is empty", key, i)
	}
	p.Want(!c.TrustPodLabels || c.Pods != FromNowhere, "trust_pod_labels true: needs pods: kubelet or api")
	p.Want(!c.labelled() || c.Namespaces != FromNowhere || c.TrustPodLabels,
		"namespaces none: tenant_labels and project_labels have nowhere to be looked up")
}

// labelled reports whether labels name tenants or projects.
func (c Config) labelled() bool { return len(c.TenantLabels)+len(c.ProjectLabels) > 0 }

// configured are those of the labels that may name a tenant or a project: tenants
// write as many others as they like.
func (c Config) configured(labels map[string]string) map[string]string {
	kept := map[string]string{}
	for _, keys := range [][]string{c.TenantLabels, c.ProjectLabels} {
		for _, key := range keys {
			if v, ok := labels[key]; ok {
				kept[key] = v
			}
		}
	}
	return kept
}

// needsNamespaces reports whether the API server is asked for namespaces.
func (c Config) needsNamespaces() bool { return c.labelled() && c.Namespaces == FromAPI }

func (e Endpoint) validate(name string) error {
	if e.exposesToken() {
		return fmt.Errorf("%s.insecure_skip_verify: would send the token of %q to whoever answers: "+
			"set ca_file to the server's own certificate, or token_file to \"\"", name, e.TokenFile)
	}
	if e.URL == "" {
		return nil
	}
	u, err := config.HTTPURL(e.URL)
	switch {
	case err != nil:
		return fmt.Errorf("%s.url %q: %w", name, config.Redacted(e.URL), err)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%s.url %q: must not have a user, a query or a fragment", name, u.Redacted())
	}
	return nil
}

// exposesToken says whether a request could give the token to a server that
// nobody has identified.
func (e Endpoint) exposesToken() bool {
	if e.TokenFile == "" || !e.InsecureSkipVerify {
		return false
	}
	u, err := url.Parse(e.URL)
	return err != nil || !trust.Loopback(u.Hostname())
}
