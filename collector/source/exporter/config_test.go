package exporter

import (
	"strings"
	"testing"

	"github.com/gputally/gputally/collector/source"
)

func TestDefaultConfigNeedsTargetsOnly(t *testing.T) {
	cfg := DefaultConfig()
	if err := cfg.Validate(); err == nil || err.Error() != "targets: is empty, want at least one exporter URL" {
		t.Errorf("error %v, want the missing targets alone", err)
	}
	cfg.Targets = []Target{{URL: "http://node-1:9400/metrics"}}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidateNamesTheWrongValue(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Targets[0].URL = "node-1:9400" }, `targets[0].url "node-1:9400": scheme "node-1"`},
		{func(c *Config) { c.Targets[0].URL = "http:///metrics" }, "has no host"},
		{func(c *Config) { c.Targets[0].URL = "ftp://me:secret@h/" }, `"ftp://me:xxxxx@h/"`},
		{func(c *Config) { c.Targets = append(c.Targets, c.Targets[0]) }, "targets[1].url"},
		{func(c *Config) { c.Timeout = 0 }, "timeout 0s"},
		{func(c *Config) { c.BodyLimitBytes = -1 }, "body_limit_bytes -1"},
		{func(c *Config) { c.Attribution = "kubelet" }, `attribution "kubelet"`},
		{func(c *Config) { c.Enumeration = "some" }, `enumeration "some"`},
		{func(c *Config) { c.Models = source.Models{{Slices: 7}} }, "models[0].name"},
		{func(c *Config) { c.Models = source.Models{{Name: "X"}} }, "models[0].slices 0 (X)"},
		{func(c *Config) { c.Models = source.Models{{Name: "X", Slices: 7, IdleWatts: -1}} }, "models[0].idle_watts -1 (X)"},
		{func(c *Config) { c.Models = source.Models{{Name: "X", Slices: 2, Profiles: map[string]int{"3g": 3}}} }, "models[0].profiles[3g] 3 (X): must be 1 to 2"},
	} {
		cfg := DefaultConfig()
		cfg.Targets = []Target{{URL: "http://node-1:9400/metrics"}}
		c.change(&cfg)
		err := cfg.Validate()
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v, want one with %q and no password", err, c.want)
		}
	}
}
