package broker

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go"
)

func TestProduceTellsWhichMessagesFailed(t *testing.T) {
	eachBroker(t, testProduceTellsWhichMessagesFailed)
}

func testProduceTellsWhichMessagesFailed(t *testing.T, b *testBroker) {
	ctx := testContext(t)
	c := newTestClient(t, b.addr, func(config *Config) {
		config.MaxMessageBytes, config.BatchBytes = 1000, 100_000
	})
	ensure(t, c)
	msgs := samples(0, 50)
	msgs[7].Value = make([]byte, 2000)
	msgs[9].Topic = ""
	err := c.Producer().Produce(ctx, msgs)
	var produce *ProduceError
	if !errors.As(err, &produce) || !errors.Is(err, ErrRefused) {
		t.Fatalf("Produce: %v, want a *ProduceError that is ErrRefused", err)
	}
	var failed []int
	for i, err := range produce.Errs {
		if err != nil {
			failed = append(failed, i)
		}
	}
	if diff := cmp.Diff([]int{7, 9}, failed); diff != "" {
		t.Errorf("failed messages (-want +got):\n%s", diff)
	}
	if !strings.Contains(err.Error(), `2 of 50 messages`) || !strings.Contains(err.Error(), "limit 1000") {
		t.Errorf("error %q does not say how many failed and why", err)
	}
	fetchCount(t, join(t, c, "ingest"), 48)
}

func TestProduceIsolatesWhatTheBrokerRefuses(t *testing.T) {
	eachBroker(t, testProduceIsolatesWhatTheBrokerRefuses)
}

func testProduceIsolatesWhatTheBrokerRefuses(t *testing.T, b *testBroker) {
	ctx := testContext(t)
	c := newTestClient(t, b.addr, func(config *Config) {
		config.MaxMessageBytes, config.BatchBytes, config.SamplesPartitions = 1000, 1000, 1
	})
	ensure(t, c)
	// A second client believes in a higher limit than the topic has.
	careless := newTestClient(t, c.config.Brokers[0], nil)
	msgs := samples(0, 40)
	msgs[21].Value = noise(batchOverheadBytes + 5000)
	err := careless.Producer().Produce(ctx, msgs)
	var produce *ProduceError
	if !errors.As(err, &produce) {
		t.Fatalf("Produce: %v, want *ProduceError", err)
	}
	if produce.Failed() != 1 || !errors.Is(produce.Errs[21], kafka.MessageSizeTooLarge) || !errors.Is(produce.Errs[21], ErrRefused) {
		t.Errorf("%d messages failed, message 21 with %v, want only it with MessageSizeTooLarge", produce.Failed(), produce.Errs[21])
	}
	fetchCount(t, join(t, c, "ingest"), 39)
}

// noise is bytes that zstd can't shrink.
func noise(n int) []byte {
	out := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1, 2}).Read(out) // never fails
	return out
}

func TestProduceRetriesUntilContextEnds(t *testing.T) {
	eachBroker(t, testProduceRetriesUntilContextEnds)
}

func testProduceRetriesUntilContextEnds(t *testing.T, b *testBroker) {
	c := newTestClient(t, b.addr, nil)
	ctx, cancel := context.WithTimeout(testContext(t), 100*time.Millisecond)
	defer cancel()
	err := c.Producer().Produce(ctx, samples(0, 3)) // the topic does not exist
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrRefused) {
		t.Errorf("Produce to a missing topic: %v, want the context's end, not a refusal", err)
	}
}
