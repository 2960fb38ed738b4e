package decisions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/broker/brokertest"
)

func testContext(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	tb.Cleanup(cancel)
	return ctx
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// testBroker is a broker under test; restart ends it without a word, Apache Kafka
// by SIGKILL, and brings it back with what it has on disk.
type testBroker struct {
	addr     string
	restart  func()
	embedded func() *broker.Embedded // nil: it is Apache Kafka
}

// eachBroker runs a test on the embedded broker and on Apache Kafka.
func eachBroker(t *testing.T, test func(t *testing.T, b *testBroker)) {
	t.Run("embedded", func(t *testing.T) { test(t, embeddedBroker(t)) })
	t.Run("apache", func(t *testing.T) {
		k := brokertest.Kafka(t)
		test(t, &testBroker{addr: k.Addr(), restart: func() { k.Kill(); k.Restart(t) }})
	})
}

func embeddedBroker(tb testing.TB) *testBroker {
	tb.Helper()
	sockets, err := os.MkdirTemp("/tmp", "gputally-") // tb.TempDir may be too long for one
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(sockets) })
	dir, b := tb.TempDir(), &testBroker{addr: "unix:" + filepath.Join(sockets, "kafka.sock")}
	var e *broker.Embedded
	begin := func() {
		var err error
		if e, err = broker.StartEmbedded(broker.EmbeddedOptions{Dir: dir, Listen: b.addr, Log: quiet()}); err != nil {
			tb.Fatal(err)
		}
		b.addr = e.Addr()
	}
	begin()
	b.restart, b.embedded = func() { _ = e.Close(); begin() }, func() *broker.Embedded { return e }
	tb.Cleanup(func() { _ = e.Close() })
	return b
}

func newClient(tb testing.TB, addr string) *broker.Client {
	tb.Helper()
	cfg := broker.DefaultConfig()
	cfg.Brokers, cfg.RetryMin, cfg.RetryMax = []string{addr}, time.Millisecond, 20*time.Millisecond
	c := broker.NewClient(cfg, quiet())
	tb.Cleanup(c.Close)
	return c
}

func open(tb testing.TB, addr string) *Log {
	tb.Helper()
	l, err := Open(testContext(tb), newClient(tb, addr), Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func appendTo(tb testing.TB, l *Log, kind Kind, key, who string, b any) Outcome {
	tb.Helper()
	out, err := l.Append(testContext(tb), kind, key, recordOf(tb, kind, key, who, b).Request, who, b)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func put(tb testing.TB, l *Log, data []byte) Document {
	tb.Helper()
	d, err := l.Put(testContext(tb), data)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// prepareLog has a book, the parts of invoiceOf, and October frozen.
func prepareLog(tb testing.TB, l *Log) {
	tb.Helper()
	book, freeze := bookOf(bookText), freezeOf(0, 744)
	for _, data := range []string{"frozen", "content", "usage"} {
		put(tb, l, []byte(data))
	}
	for _, out := range []Outcome{appendTo(tb, l, KindPriceBook, "book", "alice", &book), appendTo(tb, l, KindFreeze, "freeze", "billing", &freeze)} {
		if !out.Accepted {
			tb.Fatal(out.Reason)
		}
	}
}

// stateOf is all that a log's state tells.
func stateOf(l *Log) (out map[string]any) {
	l.View(func(s *State) {
		out = view(s)
		out["chain"], out["next"] = s.Chain(), s.Next()
	})
	return out
}

// TestEveryProcessComesToTheSameState, now and after a restart, and Walk tells
// what was made of each message.
func TestEveryProcessComesToTheSameState(t *testing.T) {
	eachBroker(t, func(t *testing.T, b *testBroker) {
		l := open(t, b.addr)
		prepareLog(t, l)
		first := invoiceOf("ml")
		appendTo(t, l, KindInvoice, "order 7", "carol", &first)
		out := appendTo(t, l, KindInvoice, "order 8", "dave", &first)
		want := Outcome{Offset: 6, Reason: `number "2026-10-ml-r0" is taken, by carol at offset 5`, Repeats: -1, Kind: KindInvoice, Number: "2026-10-ml-r0"}
		if diff := cmp.Diff(want, out); diff != "" {
			t.Errorf("the number again (-want +got):\n%s", diff)
		}
		want = Outcome{Offset: 5, Accepted: true, Repeats: 5, Kind: KindInvoice, Number: "2026-10-ml-r0"}
		if diff := cmp.Diff(want, appendTo(t, l, KindInvoice, "order 7", "carol", &first)); diff != "" {
			t.Errorf("the request again (-want +got):\n%s", diff)
		}
		r, body, err := l.Record(testContext(t), 5)
		if diff := cmp.Diff(&first, body); err != nil || r.Who != "carol" || r.Key != "order 7" || diff != "" {
			t.Errorf("Record of offset 5: %+v, %v (-want +got):\n%s", r, err, diff)
		}
		told := stateOf(l)
		if diff := cmp.Diff(told, stateOf(open(t, b.addr))); diff != "" {
			t.Errorf("another client's state (-first +second):\n%s", diff)
		}
		b.restart()
		again := open(t, b.addr)
		if diff := cmp.Diff(told, stateOf(again)); diff != "" {
			t.Errorf("state after a restart (-before +after):\n%s", diff)
		}
		var kinds []string
		var link [32]byte
		err = again.Walk(testContext(t), 0, func(e Entry) error {
			kinds = append(kinds, fmt.Sprintf("%s %v %d", e.Kind, e.Accepted, e.Repeats))
			if (e.Body == nil) != (e.Kind == KindPart) || e.Appended.IsZero() || e.Bytes == 0 {
				t.Errorf("entry %+v", e)
			}
			_, link = again.links(e.Offset)
			if e.Chain != fmt.Sprintf("%x", link) {
				t.Errorf("offset %d: chain %s, want %x", e.Offset, e.Chain, link)
			}
			return nil
		})
		wantKinds := []string{"part true -1", "part true -1", "part true -1", "price_book true -1", "freeze true -1", "invoice true -1", "invoice false -1", "invoice false 5"}
		if diff := cmp.Diff(wantKinds, kinds); err != nil || diff != "" {
			t.Errorf("Walk: %v (-want +got):\n%s", err, diff)
		}
	})
}

// TestPickReadsWhatIsAskedFor: near and far, and nothing else.
func TestPickReadsWhatIsAskedFor(t *testing.T) {
	l := open(t, embeddedBroker(t).addr)
	for i := range 2*pickGap + 4 {
		appendTo(t, l, KindAudit, fmt.Sprint("key ", i), "carol", &Audit{Action: "look", Subject: fmt.Sprint(i)})
	}
	for _, want := range [][]int64{nil, {0}, {0, 1, 5}, {2, pickGap + 2}, {0, pickGap + 1, 2*pickGap + 3}, {2*pickGap + 3}} {
		var got []int64
		err := l.Pick(testContext(t), want, func(e Entry) error {
			if e.Body.(*Audit).Subject != fmt.Sprint(e.Offset) {
				t.Errorf("offset %d has %+v", e.Offset, e.Body)
			}
			got = append(got, e.Offset)
			return nil
		})
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("Pick %v: %v (-want +got):\n%s", want, err, diff)
		}
	}
	if err := l.Pick(testContext(t), []int64{2*pickGap + 4}, func(Entry) error { return nil }); err == nil {
		t.Error("an offset behind the end: no error")
	}
}

// TestOneOfManyWritersWins: eight clients finalise one tenant's month, each under
// the same key and under its own; exactly one wins of each, and all know who.
func TestOneOfManyWritersWins(t *testing.T) {
	eachBroker(t, func(t *testing.T, b *testBroker) {
		prepareLog(t, open(t, b.addr))
		outcomes := map[string][]Outcome{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for n := range 8 {
			l := open(t, b.addr)
			for _, try := range []struct{ tenant, key string }{{"ml", fmt.Sprintf("ml of writer %d", n)}, {"web", "web"}} {
				wg.Go(func() {
					body := invoiceOf(try.tenant)
					out, err := l.Append(testContext(t), KindInvoice, try.key, Digest([]byte(try.tenant)), fmt.Sprintf("writer %d", n), &body)
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					outcomes[try.tenant] = append(outcomes[try.tenant], out)
				})
			}
		}
		wg.Wait()
		l := open(t, b.addr)
		for _, tenant := range []string{"ml", "web"} {
			var winner Decided[Invoice]
			l.View(func(s *State) { winner, _ = s.Invoice(Number("2026-10", tenant, 0)) })
			won := 0
			for _, out := range outcomes[tenant] {
				switch {
				case out.Accepted && out.Repeats < 0 && out.Offset == winner.Offset:
					won++
				case tenant == "web" && out.Accepted && out.Repeats == winner.Offset && out.Offset == winner.Offset:
				case tenant == "ml" && strings.Contains(out.Reason, fmt.Sprintf("is taken, by %s at offset %d", winner.Who, winner.Offset)):
				default:
					t.Errorf("tenant %s: %+v, won was %d by %s", tenant, out, winner.Offset, winner.Who)
				}
			}
			if won != 1 || len(outcomes[tenant]) != 8 {
				t.Errorf("tenant %s: %d of %d writers won, want 1 of 8", tenant, won, len(outcomes[tenant]))
			}
		}
	})
}

// TestDocumentsAreCutAndComeBack: parts that are there already are not written
// again.
func TestDocumentsAreCutAndComeBack(t *testing.T) {
	eachBroker(t, func(t *testing.T, b *testBroker) {
		l := open(t, b.addr)
		large := make([]byte, 3*PartBytes+17)
		_, _ = rand.NewChaCha8([32]byte{}).Read(large)
		same := bytes.Repeat([]byte{7}, 2*PartBytes) // one part, twice
		for _, test := range []struct {
			data    []byte
			parts   int
			written int64
		}{{nil, 0, 0}, {[]byte("x"), 1, 1}, {large, 4, 4}, {large[:2*PartBytes], 2, 0}, {append(same, large...), 6, 1}, {large, 4, 0}} {
			before := l.next()
			d := put(t, l, test.data)
			if len(d.Parts) != test.parts || l.next()-before != test.written || d.Bytes != int64(len(test.data)) {
				t.Errorf("%d bytes: %d parts, %d written, want %d and %d", len(test.data), len(d.Parts), l.next()-before, test.parts, test.written)
			}
			got, err := open(t, b.addr).Read(testContext(t), d)
			if err != nil || !bytes.Equal(got, test.data) {
				t.Errorf("%d bytes came back as %d, %v", len(test.data), len(got), err)
			}
		}
		d := put(t, l, large)
		d.Parts[0], d.Parts[1] = d.Parts[1], d.Parts[0]
		if _, err := l.Read(testContext(t), d); !errors.Is(err, ErrDocument) {
			t.Errorf("parts in another order: %v", err)
		}
		if _, err := l.Read(testContext(t), documentOf("nowhere")); err == nil || !strings.Contains(err.Error(), "is missing from the topic") {
			t.Errorf("a part that isn't there: %v", err)
		}
	})
}

// TestWhatIsMalformedIsNotWritten: the caller hears the field.
func TestWhatIsMalformedIsNotWritten(t *testing.T) {
	l := open(t, embeddedBroker(t).addr)
	ctx := testContext(t)
	if _, err := l.Append(ctx, KindAudit, "", Digest(nil), "a", &Audit{Action: "read"}); err == nil || !strings.Contains(err.Error(), `append audit: record: key is ""`) {
		t.Errorf("no key: %v", err)
	}
	bad := invoiceOf("ml")
	bad.Total = "1.5e2"
	if _, err := l.Append(ctx, KindInvoice, "k", Digest(nil), "a", &bad); err == nil || !strings.Contains(err.Error(), `invoice: document: total is "1.5e2"`) {
		t.Errorf("a float: %v", err)
	}
	if _, err := l.Append(ctx, KindPart, "k", Digest(nil), "a", &Audit{Action: "read"}); err == nil {
		t.Error("a part was appended as a record")
	}
	if n := l.next(); n != 0 {
		t.Errorf("%d messages were written", n)
	}
}

// TestDeletedDecisionsAreTold, whether their beginning is gone, or the topic.
func TestDeletedDecisionsAreTold(t *testing.T) {
	eachBroker(t, func(t *testing.T, b *testBroker) {
		l := open(t, b.addr)
		prepareLog(t, l)
		b.deleteBefore(t, 1)
		if err := l.Refresh(testContext(t)); !errors.Is(err, ErrDeleted) {
			t.Errorf("Refresh of a topic without its first message: %v", err)
		}
		b.deleteBefore(t, 2)
		for name, err := range map[string]error{
			"Refresh": l.Refresh(testContext(t)),
			"Open":    second(Open(testContext(t), newClient(t, b.addr), Options{})),
			"Walk":    l.Walk(testContext(t), 0, func(Entry) error { return nil }),
			"Read":    second(l.Read(testContext(t), documentOf("frozen"))),
			"Append":  second(l.Append(testContext(t), KindAudit, "k", Digest(nil), "a", &Audit{Action: "read"})),
		} {
			if !errors.Is(err, ErrDeleted) {
				t.Errorf("%s of a topic without its beginning: %v", name, err)
			}
		}
		b.deleteTopic(t)
		var err error
		for ctx := testContext(t); err == nil && ctx.Err() == nil; {
			_, err = newClient(t, b.addr).Bounds(ctx, broker.TopicDecisions)
		}
		anew := open(t, b.addr)
		book := bookOf(bookText)
		appendTo(t, anew, KindPriceBook, "book", "alice", &book)
		if err := l.Refresh(testContext(t)); !errors.Is(err, ErrDeleted) {
			t.Errorf("Refresh of a topic made anew: %v", err)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// deleteBefore moves the first offset of the decisions.
func (b *testBroker) deleteBefore(t *testing.T, offset int64) {
	t.Helper()
	var err error
	if b.embedded != nil {
		err = b.embedded().Cluster().DeleteRecords(broker.TopicDecisions, 0, offset)
	} else {
		topic := kmsg.NewDeleteRecordsRequestTopic()
		topic.Topic = broker.TopicDecisions
		partition := kmsg.NewDeleteRecordsRequestTopicPartition()
		partition.Offset = offset
		topic.Partitions = append(topic.Partitions, partition)
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.Topics = append(req.Topics, topic)
		for _, shard := range b.foreign(t).RequestSharded(testContext(t), req) {
			if err = shard.Err; err == nil {
				err = kerr.ErrorForCode(shard.Resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode)
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (b *testBroker) deleteTopic(t *testing.T) {
	t.Helper()
	var err error
	if b.embedded != nil {
		err = b.embedded().Cluster().DeleteTopic(broker.TopicDecisions)
	} else {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = kmsg.StringPtr(broker.TopicDecisions)
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Topics, req.TopicNames = append(req.Topics, topic), []string{broker.TopicDecisions}
		_, err = req.RequestWith(testContext(t), b.foreign(t))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// foreign is a client for what ours can't do.
func (b *testBroker) foreign(t *testing.T) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// TestAlteredMessagesAreTold: a topic of the same length with another byte is
// not what was decided.
func TestAlteredMessagesAreTold(t *testing.T) {
	l := open(t, embeddedBroker(t).addr)
	prepareLog(t, l)
	l.state.past[1].chain[5] ^= 1 // as if the topic had been written anew
	if err := l.Walk(testContext(t), 0, func(Entry) error { return nil }); !errors.Is(err, errAltered) || !strings.Contains(err.Error(), "offset 1") {
		t.Errorf("Walk: %v", err)
	}
	if _, err := l.Read(testContext(t), documentOf("content")); !errors.Is(err, errAltered) {
		t.Errorf("Read: %v", err)
	}
}

// TestForeignMessagesAreRefusedAndCounted, and the log goes on.
func TestForeignMessagesAreRefusedAndCounted(t *testing.T) {
	eachBroker(t, func(t *testing.T, b *testBroker) {
		reg := prometheus.NewRegistry()
		client := newClient(t, b.addr)
		l, err := Open(testContext(t), client, Options{Registry: reg})
		if err != nil {
			t.Fatal(err)
		}
		junk := []broker.Message{{Topic: broker.TopicDecisions, Value: []byte("junk")}, {Topic: broker.TopicDecisions, Key: []byte("invoice"), Value: []byte("{}")}}
		if err := client.Producer().Produce(testContext(t), junk); err != nil {
			t.Fatal(err)
		}
		prepareLog(t, l)
		for labels, want := range map[[2]string]float64{{"unknown", "refused"}: 2, {"part", "accepted"}: 3, {"price_book", "accepted"}: 1} {
			if got := testutil.ToFloat64(l.metrics.folded.WithLabelValues(labels[0], labels[1])); got != want {
				t.Errorf("counter of %v is %v, want %v", labels, got, want)
			}
		}
		if got := testutil.ToFloat64(l.metrics.next); got != 7 {
			t.Errorf("next offset is %v, want 7", got)
		}
	})
}

func TestProgressIsTold(t *testing.T) {
	b := embeddedBroker(t)
	prepareLog(t, open(t, b.addr))
	var told [][2]int64
	_, err := Open(testContext(t), newClient(t, b.addr), Options{Progress: func(done, total int64) { told = append(told, [2]int64{done, total}) }})
	if diff := cmp.Diff([][2]int64{{1, 5}, {2, 5}, {3, 5}, {4, 5}, {5, 5}}, told); err != nil || diff != "" {
		t.Errorf("Open: %v, progress (-want +got):\n%s", err, diff)
	}
}
