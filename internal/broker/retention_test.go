package broker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gputally/gputally/internal/clock"
)

var (
	switchedOn = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	expiry     = DefaultConfig().SamplesRetention + 24*time.Hour
)

// startAged starts a broker that stands at an instant; it ages by Advance.
func startAged(tb testing.TB, dir string, at time.Time) (*Embedded, *clock.Fake) {
	tb.Helper()
	clk := clock.NewFake(at)
	return startWith(tb, EmbeddedOptions{Dir: dir, Clock: clk, RetentionCheck: time.Hour}), clk
}

// standing is where partition 0 of the samples and the group are.
func standing(tb testing.TB, c *Client) PartitionOffsets {
	tb.Helper()
	offsets, err := c.Offsets(testContext(tb), TopicSamples, "ingest")
	if err != nil {
		tb.Fatal(err)
	}
	return offsets[0]
}

func expectStanding(tb testing.TB, when string, c *Client, first, last, committed int64) {
	tb.Helper()
	want := PartitionOffsets{First: first, Last: last, Committed: committed}
	if diff := cmp.Diff(want, standing(tb, c)); diff != "" {
		tb.Errorf("offsets %s (-want +got):\n%s", when, diff)
	}
}

// produceRead produces samples, and the group reads and commits them all.
func produceRead(ctx context.Context, c *Client, from, to int) error {
	if err := c.Producer().Produce(ctx, samples(from, to)); err != nil {
		return fmt.Errorf("produce samples: %w", err)
	}
	return readSamples(ctx, c, from, to)
}

func readSamples(ctx context.Context, c *Client, from, to int) error {
	consumer, err := c.Consumer("ingest", TopicSamples,
		ConsumerOptions{SessionTimeout: 6 * time.Second, MaxWait: 20 * time.Millisecond})
	if err != nil {
		return err
	}
	for n := 0; n < to-from; {
		msgs, err := consumer.Fetch(ctx, to-from-n, time.Second)
		if err == nil {
			err = consumer.Commit(ctx, msgs)
		}
		if err != nil {
			return fmt.Errorf("read samples: %w", err)
		}
		for _, m := range msgs {
			if want := fmt.Sprintf("value-%d", from+n); string(m.Value) != want || m.Hole != nil {
				return fmt.Errorf("read samples: %q with hole %v at offset %d, want %q and none", m.Value, m.Hole, m.Offset, want)
			}
			n++
		}
	}
	return consumer.Close()
}

func mustProduceRead(t *testing.T, c *Client, from, to int) {
	t.Helper()
	if err := produceRead(testContext(t), c, from, to); err != nil {
		t.Fatal(err)
	}
}

// TestRetentionGoesOnAfterARestart, with the clock's ticks; kfake's own would
// begin with the next topic that is made. What was not read is read first.
func TestRetentionGoesOnAfterARestart(t *testing.T) {
	dir := t.TempDir()
	e, _ := startAged(t, dir, switchedOn)
	c := newTestClient(t, e.Addr(), onePartition)
	ensure(t, c)
	mustProduceRead(t, c, 0, 20)
	if err := c.Producer().Produce(testContext(t), samples(20, 30)); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}

	e, clk := startAged(t, dir, switchedOn.Add(expiry))
	c = newTestClient(t, e.Addr(), onePartition)
	expectStanding(t, "right after the start", c, 0, 30, 20)
	if err := readSamples(testContext(t), c, 20, 30); err != nil {
		t.Fatal(err)
	}
	clk.Advance(time.Hour)
	awaitFirst(t, c, 29)
	expectStanding(t, "an hour later", c, 29, 30, 30)
	mustProduceRead(t, c, 30, 40)
	clk.Advance(time.Hour)
	awaitFirst(t, c, 30)
	expectStanding(t, "two hours later", c, 30, 40, 40)
	clk.Advance(expiry)
	awaitFirst(t, c, 39)
	expectStanding(t, "when all has expired", c, 39, 40, 40)
}

// TestOffsetsNeverBeginAnew: nothing is produced while retention has passed,
// start after start; the group goes on where it was.
func TestOffsetsNeverBeginAnew(t *testing.T) {
	dir, at := t.TempDir(), switchedOn
	for start := range 3 {
		e, clk := startAged(t, dir, at)
		c := newTestClient(t, e.Addr(), onePartition)
		ensure(t, c)
		n := 20 * start
		mustProduceRead(t, c, n, n+20)
		clk.Advance(expiry)
		at = clk.Now()
		awaitFirst(t, c, int64(n+19))
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		e, _ = startAged(t, dir, at)
		expectStanding(t, "after a restart", newTestClient(t, e.Addr(), onePartition), int64(n+19), int64(n+20), int64(n+20))
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// agedDirVar makes the test binary the child of TestKilledAfterRetention.
const agedDirVar = "GPUTALLY_TEST_AGED_BROKER_DIR"

// ageAndHang lets retention pass over samples that were read, says so, and waits
// to be killed.
func ageAndHang(dir string) error {
	clk := clock.NewFake(switchedOn)
	e, err := StartEmbedded(EmbeddedOptions{Dir: dir, Log: quiet(), Clock: clk, RetentionCheck: time.Hour})
	if err != nil {
		return err
	}
	config := DefaultConfig()
	config.Brokers, config.SamplesPartitions = []string{e.Addr()}, 1
	c := NewClient(config, quiet())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.EnsureTopics(ctx); err != nil {
		return err
	}
	if err := produceRead(ctx, c, 0, 50); err != nil {
		return err
	}
	clk.Advance(expiry)
	for {
		bounds, err := c.Bounds(ctx, TopicSamples)
		if err != nil {
			return err
		}
		if bounds[0].First == 49 {
			break
		}
	}
	fmt.Println("aged")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// TestKilledAfterRetention: what SIGKILL brings back goes again, and no offset
// moves.
func TestKilledAfterRetention(t *testing.T) {
	dir := t.TempDir()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), agedDirVar+"="+dir)
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	if line != "aged\n" {
		t.Fatalf("child said %q, want that its samples aged", line)
	}

	e, clk := startAged(t, dir, switchedOn.Add(expiry))
	c := newTestClient(t, e.Addr(), onePartition)
	expectStanding(t, "after SIGKILL", c, 0, 50, 50) // kfake has forgotten the first offset, and no other
	clk.Advance(time.Hour)
	awaitFirst(t, c, 49)
	expectStanding(t, "after the next retention", c, 49, 50, 50)
	mustProduceRead(t, c, 50, 60)
	expectStanding(t, "with ten more", c, 49, 60, 60)
}

// TestRetentionLeavesDecisionsAlone, even where someone bounded their topic:
// EnsureTopics can't say so before the broker has started.
func TestRetentionLeavesDecisionsAlone(t *testing.T) {
	dir := t.TempDir()
	e, clk := startAged(t, dir, switchedOn)
	c := newTestClient(t, e.Addr(), onePartition)
	ensure(t, c)
	makeDecisions(t, c, 1, map[string]string{"retention.ms": "1000", "retention.bytes": "1"})
	msgs := samples(0, 10)
	for i := range msgs {
		msgs[i].Topic = TopicDecisions
	}
	if err := c.Producer().Produce(testContext(t), msgs); err != nil {
		t.Fatal(err)
	}
	mustProduceRead(t, c, 0, 10)
	clk.Advance(expiry)
	awaitFirst(t, c, 9) // samples
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e, _ = startAged(t, dir, clk.Now())
	e.aging.apply(testContext(t))
	if diff := cmp.Diff(values(msgs),
		wholeTopic(t, newTestClient(t, e.Addr(), onePartition), TopicDecisions)); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

// TestRetentionBySizeOfTheEmbeddedBroker: whole batches go, and retention.bytes
// or more stay; the hole is told.
func TestRetentionBySizeOfTheEmbeddedBroker(t *testing.T) {
	const messages, each = 40, 100_000
	clk := clock.NewFake(switchedOn)
	e := startWith(t, EmbeddedOptions{Dir: t.TempDir(), Clock: clk, RetentionCheck: time.Hour, listen: foreignDoor})
	c := newTestClient(t, e.Addr(), onePartition)
	ensure(t, c)
	mustProduceRead(t, c, 0, 1)
	msgs := samples(0, messages)
	for i := range msgs { // one a batch
		msgs[i].Value = append(fmt.Appendf(nil, "%03d", i), noise(each)...)
		if err := c.Producer().Produce(testContext(t), msgs[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	setTopic(t, e.Addr(), "retention.bytes", "1500000")
	clk.Advance(time.Hour)
	const first = 1 + messages - 15 // fifteen batches of a little over 100,000 bytes
	awaitFirst(t, c, first)
	expectStanding(t, "at 1.5 MB", c, first, 1+messages, 1)
	if n := e.cluster.PartitionInfo(TopicSamples, 0).NumBytes; n < 1_500_000 || n > 1_500_000+each {
		t.Errorf("%d bytes are left, want 1500000 and less than a batch more", n)
	}
	expectHole(t, fetchCount(t, join(t, c, "ingest"), 15), &Hole{Partition: 0, From: 1, To: first}, msgs[first-1:])
	setTopic(t, e.Addr(), "retention.bytes", "0")
	clk.Advance(time.Hour)
	awaitFirst(t, c, messages)
	expectStanding(t, "at none", c, messages, 1+messages, 1)
}

// TestRetentionIsTheTopicsOwn: what a broker's default says deletes nothing, nor
// does what is no number.
func TestRetentionIsTheTopicsOwn(t *testing.T) {
	text := func(s string) *string { return &s }
	for name, test := range map[string]struct {
		configs map[string]*string
		want    limits
		err     string
	}{
		"inherited": {want: limits{ms: -1, bytes: -1}},
		"reset":     {configs: map[string]*string{"retention.ms": nil}, want: limits{ms: -1, bytes: -1}},
		"set": {
			configs: map[string]*string{"retention.ms": text("5"), "retention.bytes": text("7")},
			want:    limits{ms: 5, bytes: 7},
		},
		"unlimited": {
			configs: map[string]*string{"retention.ms": text("-1"), "retention.bytes": text("-1")},
			want:    limits{ms: -1, bytes: -1},
		},
		"a word": {
			configs: map[string]*string{"retention.ms": text("week")}, want: limits{ms: -1, bytes: -1},
			err: `read setting retention.ms: strconv.ParseInt: parsing "week": invalid syntax`,
		},
	} {
		got, err := limitsOf(test.configs)
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(limits{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
			t.Errorf("%s: error %v, want %q", name, err, test.err)
		}
	}
}

// TestExpiredWantsMoreThanAnAnswer: where the broker finds no message so late,
// though it has one, nothing is deleted by age; nor for a clock at the epoch,
// whose times ask for a partition's end.
func TestExpiredWantsMoreThanAnAnswer(t *testing.T) {
	e, _ := startAged(t, t.TempDir(), switchedOn)
	c := newTestClient(t, e.Addr(), onePartition)
	ensure(t, c)
	mustProduceRead(t, c, 0, 20)
	clk := clock.NewFake(switchedOn.Add(expiry))
	later := *e.aging
	later.clock = clk
	for name, test := range map[string]struct {
		latest time.Time
		ms     int64
		want   map[int32]int64
	}{
		"all expired":     {latest: switchedOn, ms: 1000, want: map[int32]int64{0: 20}},
		"one is later":    {latest: clk.Now(), ms: 1000, want: map[int32]int64{}},
		"none expired":    {latest: switchedOn, ms: 100 * expiry.Milliseconds(), want: map[int32]int64{0: 0}},
		"at the epoch":    {latest: switchedOn, ms: clk.Now().UnixMilli() + 1, want: map[int32]int64{}},
		"without a bound": {latest: switchedOn, ms: -1, want: map[int32]int64{}},
	} {
		partitions := []*kfake.PartitionInfo{{HighWatermark: 20, MaxTimestamp: test.latest.UnixMilli()}}
		got, err := later.expired(testContext(t), TopicSamples, test.ms, partitions)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
