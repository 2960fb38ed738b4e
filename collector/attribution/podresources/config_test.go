package podresources

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/config"
)

func TestDefaultConfigIsValid(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidateNamesEveryWrongValue(t *testing.T) {
	for want, change := range map[string]func(*Config){
		`socket "kubelet.sock": must be an absolute path`: func(c *Config) { c.Socket = "kubelet.sock" },
		"is 201 bytes long":                       func(c *Config) { c.Socket = "/" + strings.Repeat("x", 200) },
		`dra_checkpoint "checkpoint.json": must`:  func(c *Config) { c.DRACheckpoint = "checkpoint.json" },
		"resources and dra_drivers: both":         func(c *Config) { c.Resources, c.DRADrivers = nil, nil },
		`resources[1] "nvidia.com/[": is not`:     func(c *Config) { c.Resources[1] = "nvidia.com/[" },
		`resources[0] "": is not`:                 func(c *Config) { c.Resources[0] = "" },
		"timeout 0s: must be at least 1ms":        func(c *Config) { c.Timeout = 0 },
		"allocatable_every 0s: must be at least":  func(c *Config) { c.AllocatableEvery = 0 },
		"pods_every 10ns: must be at least 1s":    func(c *Config) { c.PodsEvery = 10 },
		"pods_stale_after 0s: must be at least":   func(c *Config) { c.PodsStaleAfter = 0 },
		"namespaces_every -1ns: must be at least": func(c *Config) { c.NamespacesEvery = -1 },
		`pods "yes": must be "kubelet", "api" or`: func(c *Config) { c.Pods = "yes" },
		`namespaces "kubelet": must be "api" or`:  func(c *Config) { c.Namespaces = FromKubelet },
		"dra_drivers[1]: is empty":                func(c *Config) { c.DRADrivers = []string{"a", ""} },
		"tenant_labels[0]: is empty":              func(c *Config) { c.TenantLabels = []string{""} },
		"project_labels[0]: is empty":             func(c *Config) { c.ProjectLabels = []string{""} },
		"trust_pod_labels true: requires pods":    func(c *Config) { c.TrustPodLabels, c.Pods = true, FromNowhere },
		"no source for tenant_labels":             func(c *Config) { c.TenantLabels, c.Namespaces = []string{"a"}, FromNowhere },
		`kubelet.url "node:10250": scheme "node"`: func(c *Config) { c.Kubelet.URL = "node:10250" },
		`api.url "https://": has no host`:         func(c *Config) { c.API.URL = "https://" },
		`is not a URL`:                            func(c *Config) { c.API.URL = "https://a b\x7f" },
		`api.url "https://u:xxxxx@h": must not`:   func(c *Config) { c.API.URL = "https://u:p@h" },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		err := cfg.Validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if _, err := New(cfg, deps(clock.NewFake(time.Time{}))); err == nil {
			t.Errorf("New took a configuration whose fault is %q", want)
		}
	}
}

func TestConfigFromYAML(t *testing.T) {
	const text = `
socket: /run/kubelet.sock
node: worker-1
resources: ["nvidia.com/*"]
dra_drivers: []
dra_checkpoint: ""
timeout: 1s
allocatable_every: 2s
pods: kubelet
pods_every: 3s
pods_stale_after: 30s
namespaces: none
namespaces_every: 4s
tenant_labels: [tenant]
project_labels: [project]
trust_pod_labels: true
kubelet: {url: "https://127.0.0.1:10250", token_file: /t, ca_file: "", insecure_skip_verify: true}
api: {url: "https://api:6443"}
`
	want := Config{
		Socket: "/run/kubelet.sock", Node: "worker-1", Resources: []string{"nvidia.com/*"}, DRADrivers: []string{},
		Timeout: time.Second, AllocatableEvery: 2 * time.Second,
		Pods: FromKubelet, PodsEvery: 3 * time.Second, PodsStaleAfter: 30 * time.Second,
		Namespaces: FromNowhere, NamespacesEvery: 4 * time.Second,
		TenantLabels: []string{"tenant"}, ProjectLabels: []string{"project"}, TrustPodLabels: true,
		Kubelet: Endpoint{URL: "https://127.0.0.1:10250", TokenFile: "/t", InsecureSkipVerify: true},
		API:     Endpoint{URL: "https://api:6443", TokenFile: serviceAccount + "token", CAFile: serviceAccount + "ca.crt"},
	}
	got := DefaultConfig()
	if err := config.Decode("test.yaml", []byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
}

func TestL8NoTokenIsSentToAServerThatNobodyIdentified(t *testing.T) {
	for url, refused := range map[string]bool{
		"":                        true,
		"https://10.0.0.1:10250":  true,
		"https://node-7:10250":    true,
		"https://127.0.0.1:10250": false,
	} {
		cfg := DefaultConfig()
		cfg.Kubelet.URL, cfg.Kubelet.InsecureSkipVerify = url, true
		if err := cfg.Kubelet.validate("kubelet"); (err != nil) != refused {
			t.Errorf("kubelet.url %q: %v, want refused %v", url, err, refused)
		}
		cfg.Kubelet.TokenFile = ""
		if err := cfg.Kubelet.validate("kubelet"); err != nil {
			t.Errorf("kubelet.url %q without a token: %v", url, err)
		}
	}
}
