package collector

import (
	"time"

	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/config"
)

// Config of a collector.
type Config struct {
	Cluster string `yaml:"cluster"`
	// Collector is the stable id of this collector; each spool belongs to one collector.
	Collector string        `yaml:"collector"`
	Topic     string        `yaml:"topic"`
	Slot      time.Duration `yaml:"slot"`
	SpoolDir  string        `yaml:"spool_dir"`
	// SpoolMaxBytes bounds the spool; beyond it Live drops the oldest batches.
	SpoolMaxBytes int64 `yaml:"spool_max_bytes"`
	// BackfillGroup is the number of slots per fsync in a backfill.
	BackfillGroup int `yaml:"backfill_group"`
	// PublishBatch is the maximum number of messages per produce call.
	PublishBatch int `yaml:"publish_batch"`
	// RetryMin and RetryMax bound the back-off after a failed append or produce.
	RetryMin time.Duration `yaml:"retry_min"`
	RetryMax time.Duration `yaml:"retry_max"`
}

// DefaultConfig sets all but the cluster, the collector's id and the spool's directory.
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

// Validate returns an error for each invalid value.
func (c Config) Validate() error {
	var p config.Problems
	p.Want(c.Cluster != "", "cluster: is empty")
	p.Want(c.Collector != "", "collector: is empty")
	p.Want(c.Topic != "", "topic: is empty")
	p.Want(c.Slot >= time.Second && c.Slot%time.Second == 0 && time.Hour%c.Slot == 0,
		"slot %s: must be whole seconds that divide the hour", c.Slot)
	config.Positive(&p, "spool_max_bytes", c.SpoolMaxBytes)
	config.Positive(&p, "backfill_group", c.BackfillGroup)
	config.Positive(&p, "publish_batch", c.PublishBatch)
	p.Want(c.RetryMin > 0 && c.RetryMax >= c.RetryMin,
		"retry_min %s, retry_max %s: must be positive and ascending", c.RetryMin, c.RetryMax)
	return p.Err()
}
