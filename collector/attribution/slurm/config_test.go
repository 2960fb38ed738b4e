package slurm

import (
	"strings"
	"testing"
	"time"
)

func TestDefaultConfigNeedsTheDirectoryOnly(t *testing.T) {
	cfg := DefaultConfig()
	if err := cfg.Validate(); err == nil || err.Error() != `mapping_dir "": must be the absolute path of the directory that prolog and epilog write` {
		t.Errorf("error %v, want the missing directory alone", err)
	}
	cfg.MappingDir = "/run/gputally/slurm"
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	cfg.From, cfg.MappingDir = FromScontrol, ""
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidateNamesTheWrongValue(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.From = "sacct" }, `from "sacct": must be "files" or "scontrol"`},
		{func(c *Config) { c.MappingDir = "jobs" }, `mapping_dir "jobs"`},
		{func(c *Config) { c.Node = "n[1-2]" }, `node "n[1-2]"`},
		{func(c *Config) { c.Node = "-n" }, `node "-n"`},
		{func(c *Config) { c.Gres, c.GresConf = []GresDevice{{UUID: "GPU-1"}}, "/x" }, `gres_conf "/x"`},
		{func(c *Config) { c.Gres = []GresDevice{{}} }, "gres[0]: requires uuid or minor"},
		{func(c *Config) { c.Gres = []GresDevice{{Minor: u32(1)}, {UUID: "GPU-1", Minor: u32(2)}} }, "gres[1].minor 2"},
		{func(c *Config) { c.Gres = []GresDevice{{UUID: "gpu-1"}} }, `gres[0].uuid "gpu-1"`},
		{func(c *Config) { c.Gres = []GresDevice{{UUID: "MIG-1", GI: u32(1)}} }, `gres[0].uuid "MIG-1"`},
		{func(c *Config) { c.Gres = []GresDevice{{Minor: u32(1), CI: u32(3)}} }, "gres[0].ci 3: requires gi"},
		{func(c *Config) { c.Squeue = "" }, `squeue ""`},
		{func(c *Config) { c.Scontrol = "bin/scontrol" }, `scontrol "bin/scontrol"`},
		{func(c *Config) { c.ScontrolEvery = 0 }, "scontrol_every 0s"},
		{func(c *Config) { c.ScontrolTimeout = -1 }, "scontrol_timeout -1ns"},
		{func(c *Config) { c.ScontrolMaxAge = time.Second }, "scontrol_max_age 1s: must be at least scontrol_every, 10s"},
	} {
		cfg := DefaultConfig()
		cfg.MappingDir = "/run/gputally/slurm"
		c.change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
	cfg := DefaultConfig()
	cfg.From = FromScontrol
	if _, err := New(cfg, Deps{Node: "cluster/n1"}); err == nil || !strings.Contains(err.Error(), `node "cluster/n1"`) {
		t.Errorf("a node name that Slurm can't have: got %v", err)
	}
}
