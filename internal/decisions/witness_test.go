package decisions

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gpuledger/gpuledger/internal/clock"
)

func openWitnessed(tb testing.TB, addr string, w WitnessConfig) *Log {
	tb.Helper()
	if err := w.Validate(); err != nil {
		tb.Fatal(err)
	}
	l, err := Open(testContext(tb), newClient(tb, addr), Options{Witness: w})
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// TestM2TheHeadGoesToEachWitness at each decision.
func TestM2TheHeadGoesToEachWitness(t *testing.T) {
	dir := t.TempDir()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "log"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	posted := make(chan sighting, 10)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var s sighting
		if r.Method == http.MethodPost && r.Header.Get("Authorization") == "Bearer secret" && json.NewDecoder(r.Body).Decode(&s) == nil {
			posted <- s
		}
	}))
	defer server.Close()
	config := WitnessConfig{
		File: filepath.Join(dir, "heads"), Syslog: filepath.Join(dir, "log"), HTTPS: server.URL,
		CAFile: filepath.Join(dir, "ca"), TokenFile: filepath.Join(dir, "token"),
	}
	for path, text := range map[string][]byte{
		config.CAFile: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), config.TokenFile: []byte("secret\n"),
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := openWitnessed(t, embeddedBroker(t).addr, config)
	prepareLog(t, l)
	text, err := os.ReadFile(config.File)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if err != nil || len(lines) != 2 {
		t.Fatalf("%d lines, %v, want 2: of the book and of the freeze:\n%s", len(lines), err, text)
	}
	buffer := make([]byte, 4096)
	for i, offset := range []int64{3, 4} {
		var head string
		l.View(func(s *State) { head = s.HeadAt(offset) })
		if !strings.Contains(lines[i], " "+head+" ") {
			t.Errorf("line %d is %q, want %s", i+1, lines[i], head)
		}
		if n, err := socket.Read(buffer); err != nil || !strings.Contains(string(buffer[:n]), head) {
			t.Errorf("syslog got %q, %v, want %s", buffer[:n], err, head)
		}
		if s := <-posted; !strings.HasPrefix(s.String(), head+" ") {
			t.Errorf("https got %s, want %s", s, head)
		}
	}
	if _, n, err := l.Compare(); n != 2 || err != nil {
		t.Errorf("Compare = %d lines, %v", n, err)
	}
}

// TestM2AWitnessNamesAnEditedLog, and one that ends too early.
func TestM2AWitnessNamesAnEditedLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "heads")
	prepareLog(t, openWitnessed(t, embeddedBroker(t).addr, WitnessConfig{File: file}))
	edited := embeddedBroker(t)
	prepareLog(t, open(t, edited.addr)) // other ids
	for addr, want := range map[string]string{edited.addr: "line 1 of " + file + " has 3=", embeddedBroker(t).addr: "knows offset 3, the log ends before it"} {
		_, _, err := openWitnessed(t, addr, WitnessConfig{File: file}).Compare()
		if !errors.Is(err, ErrWitness) || !strings.Contains(err.Error(), want) {
			t.Errorf("Compare = %v, want %q", err, want)
		}
	}
	for _, line := range []string{"x\n", "2026-10-01T00:00:00Z 3=xyz audit\n", "\n"} {
		if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := openWitnessed(t, edited.addr, WitnessConfig{File: file}).Compare(); !errors.Is(err, ErrWitness) {
			t.Errorf("line %q: %v", line, err)
		}
	}
}

// TestAWitnessThatIsAway: what was decided stands, and it is told later; where it
// is required, nothing is decided. It is not followed elsewhere.
func TestAWitnessThatIsAway(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "not there", "heads")
	l := openWitnessed(t, embeddedBroker(t).addr, WitnessConfig{File: missing})
	appendTo(t, l, KindAudit, "a", "carol", &Audit{Action: "look"})
	if owed, failed := testutil.ToFloat64(l.metrics.witnessOwed), testutil.ToFloat64(l.metrics.witnessed.WithLabelValues("file", "failed")); owed != 1 || failed != 1 {
		t.Errorf("owed %v, failed %v, want 1 and 1", owed, failed)
	}
	if err := os.MkdirAll(filepath.Dir(missing), 0o700); err != nil {
		t.Fatal(err)
	}
	l.Remind(testContext(t))
	if _, n, err := l.Compare(); n != 1 || err != nil || testutil.ToFloat64(l.metrics.witnessOwed) != 0 {
		t.Errorf("after it is back: %d lines, %v", n, err)
	}
	required := openWitnessed(t, embeddedBroker(t).addr, WitnessConfig{File: filepath.Join(dir, "nowhere", "heads"), Required: true})
	appendTo(t, required, KindAudit, "a", "carol", &Audit{Action: "look"}) // nothing to tell before it
	before := required.next()
	if _, err := required.Append(testContext(t), KindAudit, "b", Digest(nil), "carol", &Audit{Action: "look"}); err == nil || required.next() != before {
		t.Errorf("decided without its witness: %v, %d messages", err, required.next()-before)
	}
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	w := witness{config: WitnessConfig{File: filepath.Join(dir, "link")}, metrics: newMetrics(nil)}
	if err := w.tell(testContext(t), sighting{}); err == nil {
		t.Error("a link was followed")
	}
	asked := 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	client, err := WitnessConfig{}.client()
	if err != nil {
		t.Fatal(err)
	}
	trust := server.Client().Transport.(*http.Transport).TLSClientConfig
	client.Transport.(*http.Transport).TLSClientConfig = trust
	fake := clock.NewFake(time.Now())
	go func() {
		for fake.BlockUntil(t.Context(), 1) == nil {
			fake.Advance(time.Minute)
		}
	}()
	w = witness{config: WitnessConfig{HTTPS: server.URL}, metrics: newMetrics(nil), client: client, clock: fake}
	if err := w.tell(testContext(t), sighting{}); err == nil || asked != witnessTries {
		t.Errorf("a redirect counts as told: %v, after %d requests, want %d", err, asked, witnessTries)
	}
}

func TestWitnessConfig(t *testing.T) {
	for _, bad := range []WitnessConfig{
		{HTTPS: "http://h/"}, {HTTPS: "https://u:p@h/"}, {HTTPS: "https:///x"}, {CAFile: "x"}, {Required: true},
	} {
		if bad.Validate() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// TestM6QuotasByKind: the eleventh book of a day waits, and hears until when; a
// request that was decided is answered all the same.
func TestM6QuotasByKind(t *testing.T) {
	c := clock.NewFake(time.Now())
	client := newClient(t, embeddedBroker(t).addr)
	l, err := Open(testContext(t), client, Options{Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	publish := func(text, key string) (Outcome, error) {
		book := bookOf(text)
		return l.Append(testContext(t), KindPriceBook, key, Digest([]byte(text)), "mallory", &book)
	}
	for n := range dailyBooks {
		if _, err := publish("# book "+string(rune('a'+n)), string(rune('a'+n))); err != nil {
			t.Fatal(err)
		}
	}
	before := l.next()
	var quota *QuotaError
	if _, err := publish("# one more", "more"); !errors.As(err, &quota) || quota.Limit != dailyBooks || quota.Next.Before(c.Now()) || l.next() != before {
		t.Fatalf("one more: %v, %d messages were written", err, l.next()-before)
	}
	if out, err := publish("# book c", "c"); err != nil || !out.Accepted || out.Repeats < 0 {
		t.Errorf("a decided request again: %+v, %v", out, err)
	}
	if _, err := l.Append(testContext(t), KindAudit, "look", Digest(nil), "carol", &Audit{Action: "look"}); err != nil {
		t.Errorf("another kind: %v", err)
	}
	again, err := Open(testContext(t), client, Options{Clock: c}) // another process, too
	if err != nil {
		t.Fatal(err)
	}
	book := bookOf("# one more")
	if _, err := again.Append(testContext(t), KindPriceBook, "more", Digest(nil), "mallory", &book); !errors.As(err, &quota) {
		t.Errorf("after a restart: %v", err)
	}
	c.Advance(quotaSpan + time.Hour)
	if _, err := publish("# one more", "more"); err != nil {
		t.Errorf("a day later: %v", err)
	}
	if kept := testutil.ToFloat64(l.metrics.bytes.WithLabelValues(string(KindPriceBook))); kept == 0 {
		t.Error("growth is not counted")
	}
}
