package podresources

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/clock"
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
		`pods "yes": must be kubelet, api or`:     func(c *Config) { c.Pods = "yes" },
		`namespaces "kubelet": must be api or`:    func(c *Config) { c.Namespaces = FromKubelet },
		"dra_drivers[1]: is empty":                func(c *Config) { c.DRADrivers = []string{"a", ""} },
		"tenant_labels[0]: is empty":              func(c *Config) { c.TenantLabels = []string{""} },
		"project_labels[0]: is empty":             func(c *Config) { c.ProjectLabels = []string{""} },
		"trust_pod_labels true: needs pods":       func(c *Config) { c.TrustPodLabels, c.Pods = true, FromNowhere },
		"nowhere to be looked up":                 func(c *Config) { c.TenantLabels, c.Namespaces = []string{"a"}, FromNowhere },
		`kubelet.url "node:10250": must begin`:    func(c *Config) { c.Kubelet.URL = "node:10250" },
		`api.url "https:": has no host`:           func(c *Config) { c.API.URL = "https://" },
		`api.url: is not a URL`:                   func(c *Config) { c.API.URL = "https://a b\x7f" },
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
