package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
)

// Topic names.
const (
	TopicSamples    = "gputally.samples.v1" // key: node; value: wire.Batch
	TopicDeadLetter = "gputally.dlq.v1"     // messages that could not be decoded
	// TopicDecisions has the decisions of users and billing (R6): one partition, kept for ever, the only source of
	// truth about invoices.
	TopicDecisions = "gputally.decisions.v1"
)

// forever is retention.ms = -1.
const forever = -time.Millisecond

// Topic has the settings with which a topic is created and against which an existing one is checked.
type Topic struct {
	Name            string
	Partitions      int
	Retention       time.Duration // retention.ms
	RetentionBytes  int64         // retention.bytes, per partition; -1: unlimited
	MaxMessageBytes int           // max.message.bytes
	// Everlasting requires an existing topic to have exactly these partitions, and both retention limits set to -1 on
	// the topic itself: a broker's default could delete decisions, and a second partition would break their order.
	Everlasting bool
}

// Topics returns the topics that this client's configuration defines.
func (c *Client) Topics() []Topic {
	most := max(c.config.MaxMessageBytes, c.config.BatchBytes) + batchOverheadBytes
	return []Topic{
		{
			Name: TopicSamples, Partitions: c.config.SamplesPartitions, Retention: c.config.SamplesRetention,
			RetentionBytes: c.config.SamplesRetentionBytes, MaxMessageBytes: most,
		},
		{
			Name: TopicDeadLetter, Partitions: 1, Retention: c.config.DeadLetterRetention, RetentionBytes: -1,
			MaxMessageBytes: most,
		},
		{
			Name: TopicDecisions, Partitions: 1, Retention: forever, RetentionBytes: -1, MaxMessageBytes: most,
			Everlasting: true,
		},
	}
}

// named returns the topics with these names; without names, samples and dead letters.
func (c *Client) named(names []string) ([]Topic, error) {
	if len(names) == 0 {
		names = []string{TopicSamples, TopicDeadLetter}
	}
	all := c.Topics()
	var out []Topic
	for _, name := range names {
		i := slices.IndexFunc(all, func(t Topic) bool { return t.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("ensure topics: unknown topic %q (known: %s, %s, %s)", name, TopicSamples, TopicDeadLetter,
				TopicDecisions)
		}
		out = append(out, all[i])
	}
	return out, nil
}

// SettingError means that an existing topic has a setting that would lose, refuse or misdate data.
type SettingError struct {
	Topic   string
	Setting string
	Value   string
	Wanted  string
}

func (e *SettingError) Error() string {
	return fmt.Sprintf("topic %s: %s is %s, want %s", e.Topic, e.Setting, e.Value, e.Wanted)
}

// EnsureTopics creates missing topics and checks existing ones: retention.ms set on the topic itself (the embedded
// broker applies no other), cleanup.policy exactly "delete", max.message.bytes large enough, and
// message.timestamp.type LogAppendTime, so that R11 uses the broker's clock and no producer's clock affects
// retention. The error joins a *SettingError per finding. Partition counts and the length of an explicit retention
// are the operator's choice, except for everlasting topics.
//
// names are the topics that the caller uses; it needs no permissions on others. Without names: TopicSamples and
// TopicDeadLetter.
func (c *Client) EnsureTopics(ctx context.Context, names ...string) error {
	wanted, err := c.named(names)
	if err != nil {
		return err
	}
	err = c.createTopics(ctx, wanted)
	if err == nil {
		err = c.awaitTopics(ctx, wanted)
	}
	if err != nil {
		c.metrics.errors.WithLabelValues("ensure_topics").Inc()
	}
	return err
}

// awaitTopics checks the topics, and retries until RequestTimeout: the controller creates a topic before every broker
// has its metadata.
func (c *Client) awaitTopics(ctx context.Context, wanted []Topic) error {
	limit, cancel := c.request(ctx)
	defer cancel()
	for attempt := 0; ; attempt++ {
		err := c.checkTopics(ctx, wanted)
		if !errors.Is(err, kafka.UnknownTopicOrPartition) || c.pause(limit, attempt, "check topics", err) != nil {
			return err
		}
	}
}

func (c *Client) createTopics(ctx context.Context, wanted []Topic) error {
	ctx, cancel := c.request(ctx)
	defer cancel()
	req := &kafka.CreateTopicsRequest{}
	for _, t := range wanted {
		topic := kafka.TopicConfig{Topic: t.Name, NumPartitions: t.Partitions, ReplicationFactor: c.config.ReplicationFactor}
		for _, s := range t.settings() {
			topic.ConfigEntries = append(topic.ConfigEntries, kafka.ConfigEntry{ConfigName: s.name, ConfigValue: s.value})
		}
		req.Topics = append(req.Topics, topic)
	}
	res, err := c.kafka.CreateTopics(ctx, req)
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	for _, t := range wanted {
		switch err := res.Errors[t.Name]; {
		case err == nil:
			retention := "unlimited"
			if t.Retention >= 0 {
				retention = t.Retention.String()
			}
			c.log.Info("topic created", "topic", t.Name, "partitions", t.Partitions, "retention", retention)
		case !errors.Is(err, kafka.TopicAlreadyExists):
			return fmt.Errorf("create topic %s: %w", t.Name, err)
		}
	}
	return nil
}

func (c *Client) checkTopics(ctx context.Context, wanted []Topic) error {
	ctx, cancel := c.request(ctx)
	defer cancel()
	req := &kafka.DescribeConfigsRequest{}
	for _, t := range wanted {
		topic := kafka.DescribeConfigRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: t.Name}
		for _, s := range t.settings() {
			topic.ConfigNames = append(topic.ConfigNames, s.name)
		}
		req.Resources = append(req.Resources, topic)
	}
	res, err := c.kafka.DescribeConfigs(ctx, req)
	if err != nil {
		return fmt.Errorf("describe topic settings: %w", err)
	}
	meta, err := c.kafka.Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return fmt.Errorf("read cluster id: %w", err)
	}
	partitions := map[string]int{}
	for _, t := range meta.Topics {
		partitions[t.Name] = len(t.Partitions)
	}
	var errs []error
	for _, t := range wanted {
		i := slices.IndexFunc(res.Resources, func(r kafka.DescribeConfigResponseResource) bool {
			return r.ResourceName == t.Name
		})
		if i < 0 {
			errs = append(errs, fmt.Errorf("describe settings of topic %s: not in the broker's answer", t.Name))
			continue
		}
		if err := res.Resources[i].Error; err != nil {
			errs = append(errs, fmt.Errorf("describe settings of topic %s: %w", t.Name, err))
			continue
		}
		errs = append(errs, checkSettings(t, res.Resources[i].ConfigEntries, meta.ClusterID == embeddedID),
			checkPartitions(t, partitions[t.Name]))
	}
	return errors.Join(errs...)
}

// appendTime is the message.timestamp.type with which the broker sets the time of messages.
const appendTime = "LogAppendTime"

// configSourceTopic is Kafka's ConfigSource DYNAMIC_TOPIC_CONFIG: set on the topic, not inherited (KIP-226).
const configSourceTopic = 1

// setting is a topic's setting: its value on creation, and which values are accepted.
type setting struct {
	name, value string
	own         bool // must be set on the topic itself
	ok          func(value string) bool
	wanted      string // for the error
}

func (t Topic) settings() []setting {
	is := func(want string) func(string) bool { return func(value string) bool { return value == want } }
	anything := func(string) bool { return true }
	ms, bytes := strconv.FormatInt(t.Retention.Milliseconds(), 10), strconv.FormatInt(t.RetentionBytes, 10)
	retention := []setting{
		{"retention.ms", ms, true, anything, "a value set on the topic, such as " + ms},
		{"retention.bytes", bytes, false, anything, ""},
	}
	if t.Everlasting {
		const wanted = "-1, set on the topic, since decisions are kept for ever"
		retention = []setting{
			{"retention.ms", ms, true, is("-1"), wanted},
			{"retention.bytes", bytes, true, is("-1"), wanted},
		}
	}
	largeEnough := func(value string) bool {
		n, err := strconv.Atoi(value)
		return err == nil && n >= t.MaxMessageBytes
	}
	most := strconv.Itoa(t.MaxMessageBytes)
	return append(retention,
		setting{"cleanup.policy", "delete", false, is("delete"), "delete"},
		setting{"max.message.bytes", most, false, largeEnough, most + " or more"},
		setting{"message.timestamp.type", appendTime, false, is(appendTime), appendTime})
}

// checkSettings checks a topic's settings. If the broker always sets the time of messages itself (stamps), any
// message.timestamp.type is accepted.
func checkSettings(t Topic, entries []kafka.DescribeConfigResponseConfigEntry, stamps bool) error {
	values := map[string]kafka.DescribeConfigResponseConfigEntry{}
	for _, e := range entries {
		values[e.ConfigName] = e
	}
	var errs []error
	for _, s := range t.settings() {
		e := values[s.name]
		inherited := s.own && e.ConfigSource != configSourceTopic
		if s.ok(e.ConfigValue) && !inherited || stamps && s.value == appendTime {
			continue
		}
		value := cmp.Or(e.ConfigValue, "not set")
		if inherited {
			value += " (inherited)"
		}
		errs = append(errs, &SettingError{Topic: t.Name, Setting: s.name, Value: value, Wanted: s.wanted})
	}
	return errors.Join(errs...)
}

// checkPartitions checks the partition count of an everlasting topic; 0 means that the answering broker doesn't have
// the topic's metadata yet.
func checkPartitions(t Topic, n int) error {
	switch {
	case !t.Everlasting || n == t.Partitions:
		return nil
	case n == 0:
		return fmt.Errorf("count partitions of topic %s: %w", t.Name, kafka.UnknownTopicOrPartition)
	}
	return &SettingError{Topic: t.Name, Setting: "partitions", Value: strconv.Itoa(n), Wanted: strconv.Itoa(t.Partitions)}
}
