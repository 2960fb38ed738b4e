package broker

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gputally/gputally/internal/broker/brokertest"
)

func TestEnsureTopicsNamesWrongSettings(t *testing.T) {
	eachBroker(t, testEnsureTopicsNamesWrongSettings)
}

func testEnsureTopicsNamesWrongSettings(t *testing.T, b *testBroker) {
	ctx := testContext(t)
	c := newTestClient(t, b.addr, nil)
	res, err := c.kafka.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
		Topic: TopicSamples, NumPartitions: 1, ReplicationFactor: 1,
		ConfigEntries: []kafka.ConfigEntry{
			{ConfigName: "cleanup.policy", ConfigValue: "compact"},
			{ConfigName: "max.message.bytes", ConfigValue: "1000"},
		},
	}}})
	if err != nil || res.Errors[TopicSamples] != nil {
		t.Fatal(err, res.Errors)
	}
	err = c.EnsureTopics(ctx)
	if err == nil {
		t.Fatal("EnsureTopics accepted a compacted topic without retention")
	}
	for _, want := range []string{
		"topic gputally.samples.v1: cleanup.policy is compact, want delete",
		"topic gputally.samples.v1: retention.ms is 604800000 (inherited), want a value set on the topic",
		"topic gputally.samples.v1: max.message.bytes is 1000, want 10551296 or more",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error\n%v\ndoes not contain %q", err, want)
		}
	}
	var setting *SettingError
	if !errors.As(err, &setting) {
		t.Errorf("error %T is no *SettingError", err)
	}
}

// foreignBroker is a broker that is not the embedded one.
func foreignBroker(t *testing.T) (addr string) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1),
		kfake.BrokerConfigs(map[string]string{"default.replication.factor": "1"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()[0]
}

// TestTopicsAreDatedByTheBroker: they say so themselves, whatever the broker's
// default is.
func TestTopicsAreDatedByTheBroker(t *testing.T) { eachBroker(t, testTopicsAreDatedByTheBroker) }

func testTopicsAreDatedByTheBroker(t *testing.T, b *testBroker) {
	c := newTestClient(t, b.addr, nil)
	ensure(t, c)
	res, err := c.kafka.DescribeConfigs(testContext(t),
		&kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{
			{ResourceType: kafka.ResourceTypeTopic, ResourceName: TopicSamples, ConfigNames: []string{"message.timestamp.type"}},
		}})
	if err != nil {
		t.Fatal(err)
	}
	e := res.Resources[0].ConfigEntries[0]
	if e.ConfigValue != "LogAppendTime" || e.ConfigSource != configSourceTopic {
		t.Errorf("%s is %s from source %d, want LogAppendTime set on the topic", e.ConfigName, e.ConfigValue, e.ConfigSource)
	}
}

// TestTopicsDatedByTheirProducersAreRefused by all but the embedded broker,
// which dates them itself.
func TestTopicsDatedByTheirProducersAreRefused(t *testing.T) {
	t.Run("kfake", func(t *testing.T) { testTopicsDatedByTheirProducersAreRefused(t, foreignBroker(t)) })
	t.Run("apache", func(t *testing.T) { testTopicsDatedByTheirProducersAreRefused(t, brokertest.Kafka(t).Addr()) })
}

func testTopicsDatedByTheirProducersAreRefused(t *testing.T, addr string) {
	c := newTestClient(t, addr, nil)
	create(t, c)
	err := c.EnsureTopics(testContext(t))
	want := "topic gputally.samples.v1: message.timestamp.type is CreateTime, want LogAppendTime"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

// TestTopicsOfAnOlderDirectoryAreTaken: they have no message.timestamp.type of
// their own, but the embedded broker stamps them all the same.
func TestTopicsOfAnOlderDirectoryAreTaken(t *testing.T) {
	c := newTestClient(t, startBroker(t, t.TempDir()).Addr(), nil)
	create(t, c)
	ensure(t, c)
}

// create makes the topics with all settings but message.timestamp.type.
func create(t *testing.T, c *Client) {
	t.Helper()
	var topics []kafka.TopicConfig
	for _, w := range c.Topics() {
		topics = append(topics,
			kafka.TopicConfig{Topic: w.Name, NumPartitions: 1, ReplicationFactor: 1, ConfigEntries: []kafka.ConfigEntry{
				{ConfigName: "retention.ms", ConfigValue: "86400000"},
				{ConfigName: "max.message.bytes", ConfigValue: strconv.Itoa(w.MaxMessageBytes)},
			}})
	}
	res, err := c.kafka.CreateTopics(testContext(t), &kafka.CreateTopicsRequest{Topics: topics})
	if err != nil || res.Errors[TopicSamples] != nil {
		t.Fatal(err, res)
	}
}

func TestConfigValidateNamesFields(t *testing.T) {
	err := Config{
		Brokers: []string{"no-port"}, BatchBytes: -3, RetryMin: time.Second, RetryMax: time.Millisecond,
	}.Validate()
	for _, want := range []string{`brokers is "no-port"`, "batch_bytes is -3", "retry_max is 1ms"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, want %q in it", err, want)
		}
	}
	if err := (Config{Brokers: []string{"localhost:9092"}}).Validate(); err != nil {
		t.Errorf("Validate of defaults: %v", err)
	}
}

func TestClientsShareOneRegistry(t *testing.T) {
	reg := prometheus.NewRegistry()
	newMetrics(reg).errors.WithLabelValues("x").Inc()
	newMetrics(reg).errors.WithLabelValues("x").Inc()
	if got := testutil.ToFloat64(newMetrics(reg).errors.WithLabelValues("x")); got != 2 {
		t.Errorf("counter over two clients is %v, want 2", got)
	}
}

// TestOffsetsOfAGroupThatNeverWas: Kafka answers that nothing is committed, the
// embedded broker that there is no such group.
func TestOffsetsOfAGroupThatNeverWas(t *testing.T) { eachBroker(t, testOffsetsOfAGroupThatNeverWas) }

func testOffsetsOfAGroupThatNeverWas(t *testing.T, b *testBroker) {
	ctx := testContext(t)
	c := newTestClient(t, b.addr, func(config *Config) { config.SamplesPartitions = 1 })
	ensure(t, c)
	if err := c.Producer().Produce(ctx, samples(0, 3)); err != nil {
		t.Fatal(err)
	}
	got, err := c.Offsets(ctx, TopicSamples, "nobody")
	if err != nil {
		t.Fatal(err)
	}
	want := []PartitionOffsets{{Partition: 0, First: 0, Last: 3, Committed: NotCommitted}}
	if diff := cmp.Diff(want, got); diff != "" || got[0].Lag() != 3 {
		t.Errorf("offsets: lag %d, want 3 (-want +got):\n%s", got[0].Lag(), diff)
	}
}

// TestEnsureTopicsWaitsForTheBrokersToHear: in a cluster of several the one that
// is asked may not know yet what the controller has made.
func TestEnsureTopicsWaitsForTheBrokersToHear(t *testing.T) {
	for name, test := range map[string]struct {
		deaf int64 // requests answered with ignorance
		want error
	}{
		"soon":  {deaf: 3},
		"never": {deaf: 1 << 40, want: kafka.UnknownTopicOrPartition},
	} {
		t.Run(name, func(t *testing.T) {
			embedded := startBroker(t, t.TempDir())
			c := newTestClient(t, embedded.Addr(), func(config *Config) { config.RequestTimeout = 500 * time.Millisecond })
			var asked atomic.Int64
			embedded.cluster.ControlKey(int16(kmsg.DescribeConfigs), func(req kmsg.Request) (kmsg.Response, error, bool) {
				embedded.cluster.KeepControl()
				if asked.Add(1) > test.deaf {
					return nil, nil, false
				}
				res := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
				for _, r := range req.(*kmsg.DescribeConfigsRequest).Resources {
					answer := kmsg.NewDescribeConfigsResponseResource()
					answer.ResourceType, answer.ResourceName = r.ResourceType, r.ResourceName
					answer.ErrorCode = kerr.UnknownTopicOrPartition.Code
					res.Resources = append(res.Resources, answer)
				}
				return res, nil, true
			})
			if err := c.EnsureTopics(testContext(t)); !errors.Is(err, test.want) {
				t.Errorf("EnsureTopics: %v, want %v", err, test.want)
			}
			if n := asked.Load(); n < min(test.deaf+1, 5) {
				t.Errorf("settings asked for %d times, want %d or more", n, min(test.deaf+1, 5))
			}
		})
	}
}

// TestConsumerMayComeBeforeTheTopic: services start in any order.
func TestConsumerMayComeBeforeTheTopic(t *testing.T) {
	eachBroker(t, func(t *testing.T, b *testBroker) {
		c := newTestClient(t, b.addr, nil)
		consumer := join(t, c, "ingest")
		if msgs, err := consumer.Fetch(testContext(t), 1, 300*time.Millisecond); err != nil || len(msgs) != 0 {
			t.Errorf("Fetch without a topic = %q, %v, want none and no error", values(msgs), err)
		}
		ensure(t, c)
		if err := c.Producer().Produce(testContext(t), samples(0, 20)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(values(samples(0, 20)), values(fetchCount(t, consumer, 20)), anyOrder); diff != "" {
			t.Errorf("values (-want +got):\n%s", diff)
		}
	})
}

// TestNewPartitionsAreRead: an operator adds some while the group reads.
func TestNewPartitionsAreRead(t *testing.T) {
	ctx := testContext(t)
	b := embeddedBroker(t, EmbeddedOptions{listen: foreignDoor})
	c := newTestClient(t, b.addr, onePartition)
	ensure(t, c)
	consumer := join(t, c, "ingest")
	if err := c.Producer().Produce(ctx, samples(0, 20)); err != nil {
		t.Fatal(err)
	}
	if err := consumer.Commit(ctx, fetchCount(t, consumer, 20)); err != nil {
		t.Fatal(err)
	}
	res, err := c.kafka.CreatePartitions(ctx,
		&kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: TopicSamples, Count: 3}}})
	if err != nil || res.Errors[TopicSamples] != nil {
		t.Fatal(err, res)
	}
	// A client that has not heard of the topic before knows all its partitions.
	if err := newTestClient(t, b.addr, nil).Producer().Produce(ctx, samples(20, 60)); err != nil {
		t.Fatal(err)
	}
	read, partitions := map[string]bool{}, map[int]bool{}
	for len(read) < 40 {
		for _, m := range fetchCount(t, consumer, 1) { // again, what is not committed
			read[string(m.Value)], partitions[m.Partition] = true, true
		}
	}
	if len(partitions) != 3 {
		t.Errorf("messages came from %d partitions, want 3", len(partitions))
	}
}

// createRequest asks for one topic, as an old client does.
func createRequest(name string, partitions int32) *kmsg.CreateTopicsRequest {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.Topics = 4, []kmsg.CreateTopicsRequestTopic{topic}
	return req
}

// TestH2CreatedTopicsAreBounded: whoever has the password made 2^31 partitions, or
// as many topics as there are names. The house's own are still made.
func TestH2CreatedTopicsAreBounded(t *testing.T) {
	e := startProtected(t, t.TempDir())
	assigned := createRequest(TopicSamples, -1)
	assigned.Topics[0].ReplicationFactor = -1
	assigned.Topics[0].ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{
		{Replicas: make([]int32, 8_000)},
	}
	two := createRequest(TopicSamples, 1)
	two.Topics = append(two.Topics, createRequest("another", 1).Topics...)
	before := heapBytes()
	for name, req := range map[string]*kmsg.CreateTopicsRequest{
		"another name":           createRequest("another", 1),
		"another among ours":     two,
		"a partition too many":   createRequest(TopicSamples, maxPartitions+1),
		"2^31 partitions":        createRequest(TopicSamples, math.MaxInt32),
		"replicas of its choice": assigned,
	} {
		answer, err := enter(t, e).ask(req)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		res := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		if err := res.ReadFrom(answer); err != nil || len(res.Topics) != len(req.Topics) {
			t.Fatalf("%s: %+v, %v", name, res, err)
		}
		for _, topic := range res.Topics {
			if topic.ErrorCode != int16(kafka.PolicyViolation) {
				t.Errorf("%s: %s is answered with code %d, want a violated policy", name, topic.Topic, topic.ErrorCode)
			}
		}
	}
	if topics := e.Cluster().TopicInfo("another"); topics != nil {
		t.Errorf("made %+v", topics)
	}
	if grown := int64(heapBytes()) - int64(before); grown > 16<<20 {
		t.Errorf("%d bytes are held for topics that were refused", grown)
	}
	c := newTestClient(t, e.Addr(), func(cfg *Config) { cfg.SASL, cfg.SamplesPartitions = EmbeddedSASL(e.Password()), 64 })
	if err := c.EnsureTopics(testContext(t)); err != nil {
		t.Error(err)
	}
}
