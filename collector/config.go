package collector

import (
	"errors"
	"fmt"
	"time"

	"github.com/gputally/gputally/internal/broker"
)

// Config of a collector.
type Config struct {
	Cluster string `yaml:"cluster"`
	// Collector is the stable id of this collector; one spool belongs to it.
	Collector string        `yaml:"collector"`
	Topic     string        `yaml:"topic"`
	Slot      time.Duration `yaml:"slot"`
	SpoolDir  string        `yaml:"spool_dir"`
	// SpoolMaxBytes bounds the spool; live, the oldest batches are dropped.
	SpoolMaxBytes int64 `yaml:"spool_max_bytes"`
	// BackfillGroup is how many slots share one fsync in a backfill.
	BackfillGroup int `yaml:"backfill_group"`
	// PublishBatch is the greatest number of messages per produce call.
	PublishBatch int `yaml:"publish_batch"`
	// RetryMin and RetryMax bound the back-off after a failed append or produce.
	RetryMin time.Duration `yaml:"retry_min"`
	RetryMax time.Duration `yaml:"retry_max"`
}

// DefaultConfig lacks the cluster, the collector's id and the spool's directory.
func DefaultConfig() Config {
	return Config{
		Topic:         broker.TopicSamples,
		Slot:          10 * time.Second,
		SpoolMaxBytes: 1 << 30,
		BackfillGroup: 50,
		PublishBatch:  500,
		RetryMin:      200 * time.Millisecond,
		RetryMax:      10 * time.Second,
	}
}

// Validate names every wrong value.
func (c Config) Validate() error {
	var errs []error
	for _, f := range []struct{ name, value string }{
		{"cluster", c.Cluster}, {"collector", c.Collector}, {"topic", c.Topic},
	} {
		if f.value == "" {
			errs = append(errs, fmt.Errorf("%s: is empty", f.name))
		}
	}
	if c.Slot < time.Second || c.Slot%time.Second != 0 || time.Hour%c.Slot != 0 {
		errs = append(errs, fmt.Errorf("slot %s: must be whole seconds that divide the hour", c.Slot))
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"spool_max_bytes", c.SpoolMaxBytes}, {"backfill_group", int64(c.BackfillGroup)}, {"publish_batch", int64(c.PublishBatch)},
	} {
		if f.value <= 0 {
			errs = append(errs, fmt.Errorf("%s %d: must be positive", f.name, f.value))
		}
	}
	if c.RetryMin <= 0 || c.RetryMax < c.RetryMin {
		errs = append(errs, fmt.Errorf("retry_min %s, retry_max %s: must be positive and ascending", c.RetryMin, c.RetryMax))
	}
	return errors.Join(errs...)
}
