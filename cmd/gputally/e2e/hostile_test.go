package e2e

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/gputally/gputally/cmd/gputally/demo"
	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/hostiletest"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

const (
	// hostileEnv sets how long hostile messages are sent, seedEnv makes them again.
	hostileEnv = "GPUTALLY_HOSTILE"
	seedEnv    = "GPUTALLY_HOSTILE_SEED"
	// hostileMemory bounds the service's process; ClickHouse's helper has
	// clickhouse.memory_bytes.
	hostileMemory = 1 << 30
	// hostilePause is between two rounds of messages: a sender who is faster than
	// ingest fills the disk, which retention bounds.
	hostilePause = 50 * time.Millisecond
	hostileRound = 20
)

// honest are the names of the fleet, which a hostile message may bear only where
// it can't be used: without signatures, a sound batch of a node is that node's (R1).
var honest = struct{ clusters, tenants, gpus []string }{
	[]string{"fleet"}, []string{"team-a", "team-b"}, []string{"GPU-n1-0", "GPU-n1-1", "GPU-n2-0", "GPU-n2-1"},
}

func newHostile(seed uint64) *hostiletest.Generator {
	return hostiletest.New(seed, clock.Real().Now(),
		slices.Concat(honest.clusters, honest.tenants, honest.gpus, []string{"n1", "c1"})...)
}

// speaksForTheHonest says that a value would count as what an honest node said, or
// as an honest tenant's use.
func speaksForTheHonest(value []byte) bool {
	b, _, err := wire.Decode(value)
	if err != nil {
		return false
	}
	for _, g := range b.Gpus {
		if slices.Contains(honest.gpus, g.Uuid) {
			return true
		}
		for _, h := range g.Holds {
			for _, name := range []string{h.Owner.Tenant, h.Owner.Namespace, h.Owner.Account} {
				if slices.Contains(honest.tenants, wire.Name(name)) {
					return true
				}
			}
		}
	}
	return slices.Contains(honest.clusters, b.Cluster)
}

// hostileValue is the next value that doesn't speak for the honest.
func hostileValue(g *hostiletest.Generator) []byte {
	for {
		if value := g.Value(); !speaksForTheHonest(value) {
			return value
		}
	}
}

// TestHostileMessagesSettleWithinATenthOfASecond: whatever the generator makes is
// refused with a reason or settled.
func TestHostileMessagesSettleWithinATenthOfASecond(t *testing.T) {
	const tries = 5
	messages := 1000
	if testing.Short() {
		messages = 200
	}
	g := newHostile(hostileSeed(t))
	var longest time.Duration
	refused, settled := map[string]int{}, 0
	for range messages {
		value := g.Value()
		took := time.Hour
		for range tries { // what else the machine does only makes one slower
			began := clock.Real().Now()
			b, _, err := wire.Decode(value)
			if err == nil {
				meter.Classify(b, meter.NewIdentities())
			}
			if took = min(took, clock.Real().Since(began)); took > hostileMost {
				continue
			}
			if bad := (*wire.Error)(nil); errors.As(err, &bad) {
				refused[bad.Reason]++
			} else if err != nil {
				t.Errorf("refused without a reason: %.200v", err)
			} else {
				settled++
			}
			break
		}
		if longest = max(longest, took); took > hostileMost {
			t.Errorf("a message of %d bytes took %s, want at most %s: %.100x", len(value), took, hostileMost, value)
		}
	}
	t.Logf("%d settled, refused %v; the longest took %s", settled, refused, longest)
	if settled < messages/20 || refused["limits"] == 0 || refused["garbage"] == 0 || refused["invalid"] == 0 {
		t.Errorf("%d of %d are settled, refused %v: the generator tries too little", settled, messages, refused)
	}
}

// TestHostileMessages runs a standalone with an honest fleet and its bill twice,
// the second time while hostile messages come in: what people are told of the
// fleet is the same, byte for byte.
func TestHostileMessages(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv(hostileEnv))
	if err != nil {
		length = 20 * time.Second
		if testing.Short() {
			length = 2 * time.Second
		}
	}
	seed := hostileSeed(t)
	t.Setenv("GOMEMLIMIT", strconv.Itoa(hostileMemory*3/4))
	want := runHonest(t, func(*programtest.Process, datadir.Run) {})
	got := runHonest(t, func(p *programtest.Process, run datadir.Run) { attack(t, p, run, seed, length) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the honest fleet (-undisturbed +attacked):\n%s", diff)
	}
}

// runHonest brings half a fleet's data in, has something happen, and brings in the
// rest: it returns what is told of the fleet then.
func runHonest(t *testing.T, between func(*programtest.Process, datadir.Run)) (told map[string]string) {
	t.Helper()
	data, lines := programtest.NewDataDir(t), programtest.FleetLines(t)
	p := programtest.Spawn(t, data, "standalone", "--listen", "127.0.0.1:0")
	p.Reaches(t, "gputally_ledger_last_pass_timestamp_seconds", 1)
	run, err := datadir.ReadRun(data)
	if err != nil {
		t.Fatal(err)
	}
	programtest.MustImport(t, data, programtest.WriteLines(t, lines[:len(lines)/2]))
	between(p, run)
	programtest.MustImport(t, data, programtest.WriteLines(t, lines))
	told = map[string]string{}
	ask := func(args ...string) string {
		t.Helper()
		got := programtest.Invoke(t, append(args, "--data", data)...)
		if got.Code != cli.ExitOK {
			t.Fatalf("gputally %s: got %+v", strings.Join(args, " "), got)
		}
		return got.Stdout
	}
	for line := range strings.Lines(ask("usage", "--by", "hour,gpu,leaf,tenant,project,workload", "--output", "csv")) {
		if cells := strings.Split(line, ","); slices.Contains(honest.gpus, cells[1]) {
			told["usage"] += line
		}
	}
	for _, tenant := range honest.tenants {
		of := []string{"--period", "2026-03", "--tenant", tenant}
		told["draft of "+tenant] = ask(append([]string{"invoice", "show", "--output", "json"}, of...)...)
	}
	if len(told["usage"]) == 0 {
		t.Error("usage tells nothing of the fleet")
	}
	wantHonestVerified(t, data)
	if peak := demo.PeakOf(strconv.Itoa(p.Pid)); peak > hostileMemory {
		t.Errorf("the process took %d MiB of memory, want at most %d", peak>>20, hostileMemory>>20)
	} else {
		t.Logf("the process took %d MiB of memory at most", peak>>20)
	}
	if code := p.Interrupt(t); code != cli.ExitOK {
		t.Errorf("standalone ended with %d", code)
	}
	return told
}

// wantHonestVerified: what the ledger does itself holds for all, and what
// collectors say of themselves contradicts itself only where the hostile did.
func wantHonestVerified(t *testing.T, data string) {
	t.Helper()
	r := programtest.VerifyLedger(t, data)
	for _, name := range r.Failed() {
		c := r.Checks[name]
		t.Logf("verify: %s fails: %s: %d findings", name, c.Figures, len(c.Findings))
		// C7 proves nothing of hours without a rate, which hostile models have; the
		// caller compares the honest month's invoices byte by byte.
		if !slices.Contains([]string{"C1", "C2", "C4", "C5"}, name) && (name != "C7" || !c.NotProven) {
			t.Errorf("verify: %s fails: %.2000q", name, c.Findings)
		}
		for _, finding := range c.Findings {
			for _, name := range slices.Concat(honest.clusters, honest.gpus) {
				if strings.Contains(finding, name+" ") || strings.Contains(finding, `"`+name+`"`) {
					t.Errorf("verify: %s has a finding of the honest: %.500s", name, finding)
				}
			}
		}
	}
}

// assault is what is sent in an attack, and what was seen meanwhile.
type assault struct {
	t      *testing.T
	run    datadir.Run
	client *broker.Client
	before []broker.Message   // the decisions before the attack
	sound  []decisions.Record // to make hostile ones of

	mu     sync.Mutex
	counts map[string]int
	sent   map[[sha256.Size]byte]bool // hostile decisions
	asked  int
	slow   time.Duration // the slowest answer
}

func (a *assault) count(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts[what]++
}

// attack sends hostile messages of all sorts at once, until they are all behind
// ingest and fold.
func attack(t *testing.T, p *programtest.Process, run datadir.Run, seed uint64, length time.Duration) {
	t.Helper()
	a := &assault{t: t, run: run, counts: map[string]int{}, sent: map[[sha256.Size]byte]bool{}}
	cfg := broker.DefaultConfig()
	cfg.Brokers, cfg.SASL = []string{run.BrokerAddress}, broker.EmbeddedSASL(run.BrokerPassword)
	a.client = broker.NewClient(cfg, quietLog())
	defer a.client.Close()
	for _, cluster := range []string{"hostile-0", "hostile-1"} { // what is sent of others is refused
		day, now := 24*time.Hour, clock.Real().Now().UTC()
		programtest.MustInvoke(t, "import", "runs", "open", "--data", p.Data, "--cluster", cluster, "--sends", "simulated",
			"--collector", "*", "--slot", "10s",
			"--from", now.Add(-2*day).Format(time.DateOnly), "--to", now.Add(2*day).Format(time.DateOnly))
	}
	a.begin(p.Data)
	refused, _ := p.Metric(t, "gputally_decisions_folded_total")
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var all sync.WaitGroup
	for i, send := range []func(context.Context, *hostiletest.Generator) error{
		a.sendSamples, a.sendRaw,
		a.sendDecisions, a.knock,
	} {
		g := newHostile(seed + uint64(i))
		all.Go(func() {
			for clock.Sleep(ctx, clock.Real(), hostilePause) == nil {
				if err := send(t.Context(), g); err != nil {
					t.Errorf("send: %v", err)
					return
				}
			}
		})
	}
	all.Go(func() { a.askReady(ctx) })
	all.Wait()
	a.awaitIngest(p)
	folded, _ := p.Metric(t, "gputally_decisions_folded_total")
	t.Logf("sent in %s: %v; decisions folded %v, were %v; /-/ready answered %d times, the slowest in %s", length,
		a.counts, folded, refused, a.asked, a.slow)
	for _, what := range []string{"samples", "decisions", "raw"} {
		if a.counts[what] == 0 {
			t.Errorf("no %s were sent", what)
		}
	}
	a.wantRefused()
	a.tellMetrics()
}

func (a *assault) sendSamples(ctx context.Context, g *hostiletest.Generator) error {
	var msgs []broker.Message
	for range hostileRound {
		value := hostileValue(g)
		msgs = append(msgs,
			broker.Message{
				Topic: broker.TopicSamples, Key: g.Key(), Value: value,
				Headers: []broker.Header{{Key: string(g.Key()), Value: g.Key()}},
			})
		a.count("samples")
	}
	if err := a.client.Producer().Produce(ctx, msgs); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	return nil
}

// sendRaw sends record batches past any client library. The broker may refuse
// them, and must answer the next one.
func (a *assault) sendRaw(ctx context.Context, g *hostiletest.Generator) error {
	client, err := kgo.NewClient(kgo.SeedBrokers("embedded:9092"), kgo.MaxVersions(kversion.V2_8_0()),
		kgo.SASL(scram.Auth{User: "gputally", Pass: a.run.BrokerPassword}.AsSha256Mechanism()), kgo.Dialer(a.dial))
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	for range 5 {
		for _, topic := range []string{broker.TopicSamples, broker.TopicDecisions} {
			value := hostileValue(g)
			if topic == broker.TopicDecisions {
				_, value = a.hostileDecision(g)
			}
			set := g.RecordBatch(value, value[:len(value)/2])
			if len(set) > 9<<20 {
				continue
			}
			a.count("raw")
			a.request(ctx, client, topic, set)
		}
	}
	return nil
}

func (a *assault) request(ctx context.Context, client *kgo.Client, topic string, set []byte) {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	part := kmsg.NewProduceRequestTopicPartition()
	part.Records = set
	req.Topics = append(req.Topics,
		kmsg.ProduceRequestTopic{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{part}})
	res, err := client.DiscoveredBrokers()[0].Request(ctx, req)
	switch {
	case err != nil:
		a.count("raw: connection closed")
	case res.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode != 0:
		a.count("raw: refused")
	default:
		a.count("raw: taken")
	}
}

func (a *assault) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(a.run.BrokerAddress, "unix:"))
}

// knock sends bytes that are no request, before any log-in.
func (a *assault) knock(ctx context.Context, g *hostiletest.Generator) error {
	conn, err := a.dial(ctx, "", "")
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	defer conn.Close()
	_, _ = conn.Write(g.Key()) // the broker may close it at once
	a.count("knocks")
	return nil
}

// askReady asks whether the process is ready, again and again.
func (a *assault) askReady(ctx context.Context) {
	client := &http.Client{Timeout: programtest.Patience}
	defer client.CloseIdleConnections()
	for clock.Sleep(ctx, clock.Real(), 4*hostilePause) == nil {
		began := clock.Real().Now()
		resp, err := client.Get("http://" + a.run.HTTPAddress + "/-/ready")
		if err != nil {
			a.t.Errorf("ask whether it is ready: %v", err)
			return
		}
		_ = resp.Body.Close()
		a.asked++
		if a.slow = max(a.slow, clock.Real().Since(began)); resp.StatusCode != http.StatusOK {
			a.t.Errorf("/-/ready answered %d", resp.StatusCode)
		}
	}
}

// awaitIngest waits until every message is journalled and the ledger has passed
// over all of it.
func (a *assault) awaitIngest(p *programtest.Process) {
	began := clock.Real().Now()
	for last, since := int64(-1), began; ; {
		offsets, err := a.client.Offsets(a.t.Context(), broker.TopicSamples, ingest.DefaultConfig().Group)
		lag := int64(0)
		for _, o := range offsets {
			lag += o.Lag()
		}
		now := clock.Real().Now()
		if err == nil && lag == 0 {
			a.t.Logf("ingest was done %s after the last message", now.Sub(began).Round(time.Millisecond))
			return
		}
		if lag != last {
			last, since = lag, now
		}
		if !p.Running() || now.Sub(since) > standstill {
			a.t.Fatalf("ingest stands still, %d messages behind: %v", lag, err)
		}
		if clock.Sleep(a.t.Context(), clock.Real(), hostilePause) != nil {
			return
		}
	}
}
