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

// Sources of pods and namespaces.
const (
	FromKubelet = "kubelet" // GET /pods of the node's kubelet
	FromAPI     = "api"     // the API server
	FromNowhere = "none"
)

const (
	serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount/"
	// socketPathMax is the length of sockaddr_un's sun_path without the final NUL.
	socketPathMax = 107
	// namespacesStale is for how many times namespaces_every labels remain valid if the API server doesn't answer.
	namespacesStale = 10
)

// Config has the kubelet's addresses and the rules for its answers.
type Config struct {
	// Socket is the kubelet's pod-resources socket. Mount its directory, not the socket: the kubelet creates a new
	// one at each start.
	Socket string `yaml:"socket"`
	// Node is Kubernetes' name of the node; empty: the collector's name of the node.
	Node string `yaml:"node"`
	// Resources are globs (path.Match) of the device plugins' resource names.
	Resources []string `yaml:"resources"`
	// DRADrivers are the drivers whose claims hold GPUs; empty: DRA is not read.
	DRADrivers []string `yaml:"dra_drivers"`
	// DRACheckpoint is the file in which NVIDIA's driver lists the MIG devices that it created on demand. It is read
	// when such devices are held; if it is not set, they are an error.
	DRACheckpoint string `yaml:"dra_checkpoint"`
	// Timeout bounds each request; two should fit into a poll's timeout.
	Timeout time.Duration `yaml:"timeout"`
	// AllocatableEvery is how often the replicas of shared devices are counted.
	AllocatableEvery time.Duration `yaml:"allocatable_every"`

	// Pods is the source of UIDs and finished pods: kubelet, api or none. kubelet requires the permission to get
	// nodes/pods (nodes/proxy before 1.33), api to list pods.
	Pods string `yaml:"pods"`
	// PodsEvery is the interval at which known pods are queried again.
	PodsEvery time.Duration `yaml:"pods_every"`
	// PodsStaleAfter is how long the last list of pods is valid if later requests fail.
	PodsStaleAfter time.Duration `yaml:"pods_stale_after"`

	// Namespaces is the source of namespaces' labels: api or none. It is queried only if labels below are configured.
	Namespaces      string        `yaml:"namespaces"`
	NamespacesEvery time.Duration `yaml:"namespaces_every"`
	// TenantLabels and ProjectLabels are label keys; the first that exists and is not empty is used, from the
	// namespace before the pod.
	TenantLabels  []string `yaml:"tenant_labels"`
	ProjectLabels []string `yaml:"project_labels"`
	// TrustPodLabels also uses labels of pods, which tenants can set themselves.
	TrustPodLabels bool `yaml:"trust_pod_labels"`

	Kubelet Endpoint `yaml:"kubelet"`
	API     Endpoint `yaml:"api"`
}

// Endpoint is an HTTPS server of Kubernetes.
type Endpoint struct {
	// URL is empty for https://NODE:10250, and for the API server in the pod's environment. Over http:// no token is
	// sent.
	URL string `yaml:"url"`
	// TokenFile contains the bearer token, read at each request; empty: no token.
	TokenFile string `yaml:"token_file"`
	// CAFile verifies the server, read at each request; empty: the system's certificate authorities.
	CAFile string `yaml:"ca_file"`
	// InsecureSkipVerify accepts any certificate, such as a kubelet's self-signed one. The token is then sent to
	// loopback addresses only, since an impostor could read it: rather set CAFile to the certificate.
	InsecureSkipVerify bool `yaml:"insecure_skip_verify"`
}

// DefaultConfig is for a pod on the node, whose service account may list pods and, where needed, get namespaces, list
// resourceslices and get resourceclaims.
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

// Validate returns an error for each invalid value.
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
		"resources and dra_drivers: both are empty, so no GPU could be held; set one of them")
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
	p.Want(!c.TrustPodLabels || c.Pods != FromNowhere, "trust_pod_labels true: requires pods: kubelet or api")
	p.Want(!c.labelled() || c.Namespaces != FromNowhere || c.TrustPodLabels,
		"namespaces none: no source for tenant_labels and project_labels")
}

// labelled returns whether labels determine tenants or projects.
func (c Config) labelled() bool { return len(c.TenantLabels)+len(c.ProjectLabels) > 0 }

// configured returns those labels that may determine a tenant or project: tenants can set any number of others.
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

// needsNamespaces returns whether the API server is queried for namespaces.
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

// exposesToken returns whether a request could send the token to an unverified server.
func (e Endpoint) exposesToken() bool {
	if e.TokenFile == "" || !e.InsecureSkipVerify {
		return false
	}
	u, err := url.Parse(e.URL)
	return err != nil || !trust.Loopback(u.Hostname())
}
