package collector

import (
	"strings"
	"testing"
	"time"
)

func TestDefaultConfigLacksNamesOnly(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Cluster, cfg.Collector = "c", "col-1"
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidateNamesTheWrongValue(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Cluster = "" }, "cluster: is empty"},
		{func(c *Config) { c.Collector = "" }, "collector: is empty"},
		{func(c *Config) { c.Topic = "" }, "topic: is empty"},
		{func(c *Config) { c.Slot = 7 * time.Second }, "slot 7s: must be"},
		{func(c *Config) { c.Slot = 1500 * time.Millisecond }, "slot 1.5s: must be"},
		{func(c *Config) { c.Slot = 0 }, "slot 0s: must be"},
		{func(c *Config) { c.SpoolMaxBytes = 0 }, "spool_max_bytes 0"},
		{func(c *Config) { c.BackfillGroup = -1 }, "backfill_group -1"},
		{func(c *Config) { c.PublishBatch = 0 }, "publish_batch 0"},
		{func(c *Config) { c.RetryMax = time.Millisecond }, "retry_min 200ms, retry_max 1ms"},
	} {
		cfg := DefaultConfig()
		cfg.Cluster, cfg.Collector = "c", "col-1"
		c.change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}
