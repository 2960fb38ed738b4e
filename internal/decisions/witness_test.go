package decisions

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gputally/gputally/internal/clock"
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

// syslogLine is RFC 3164's, as a machine's own socket has it: notice of authpriv,
// local time, no host.
var syslogLine = regexp.MustCompile(`^<85>[A-Z][a-z]{2} [ 1-3]\d \d\d:\d\d:\d\d gputally\[\d+\]: decisions head \d+=[0-9a-f]{64} \w+\n$`)

// TestM2TheHeadGoesToEachWitness at each decision.
func TestM2TheHeadGoesToEachWitness(t *testing.T) {
	dir := t.TempDir()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "log"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	posted := make(chan sentHead, 10)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var s sentHead
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
	buffer, ctx := make([]byte, 4096), testContext(t)
	if err := socket.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for i, offset := range []int64{3, 4} {
		var head string
		l.View(func(s *State) { head = s.HeadAt(offset).String() })
		if !strings.Contains(lines[i], " "+head+" ") {
			t.Errorf("line %d is %q, want %s", i+1, lines[i], head)
		}
		if n, err := socket.Read(buffer); err != nil || !syslogLine.Match(buffer[:n]) || !strings.Contains(string(buffer[:n]), " "+head+" ") {
			t.Errorf("syslog got %q, %v, want %s", buffer[:n], err, head)
		}
		select {
		case s := <-posted:
			if !strings.HasPrefix(s.String(), head+" ") {
				t.Errorf("https got %s, want %s", s, head)
			}
		case <-ctx.Done():
			t.Fatal(ctx.Err())
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
	for addr, want := range map[string]string{edited.addr: "line 1 of " + file + " has 3=", embeddedBroker(t).addr: "has offset 3, but the log ends before it"} {
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
	if err := w.send(testContext(t), sentHead{}); err == nil {
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
	if err := w.send(testContext(t), sentHead{}); err == nil || asked != witnessTries {
		t.Errorf("a redirect counts as told: %v, after %d requests, want %d", err, asked, witnessTries)
	}
}

// TestAHungSyslogEndsWithItsTime: a daemon that takes nothing is a witness that is
// away, of datagrams as of a stream.
func TestAHungSyslogEndsWithItsTime(t *testing.T) {
	for _, network := range []string{"unixgram", "unix"} {
		t.Run(network, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			fillSocket(t, network, path)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			w := witness{config: WitnessConfig{Syslog: path}, metrics: newMetrics(nil), clock: clock.Real()}
			told := make(chan error, 1)
			go func() { told <- w.send(ctx, sentHead{}) }()
			select {
			case err := <-told:
				if err == nil {
					t.Error("a daemon that takes nothing counts as told")
				}
			case <-testContext(t).Done():
				t.Fatal("still telling")
			}
		})
	}
}

// fillSocket listens, reads nothing, and has no room left.
func fillSocket(t *testing.T, network, path string) {
	t.Helper()
	if network == "unix" {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0) // with a backlog of our own
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Close(fd) })
		if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Listen(fd, 0)); err != nil {
			t.Fatal(err)
		}
	} else {
		socket, err := net.ListenUnixgram(network, &net.UnixAddr{Name: path, Net: network})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = socket.Close() })
	}
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		conn, err := (&net.Dialer{}).DialContext(ctx, network, path)
		cancel()
		if err != nil {
			return // no room for one more connection
		}
		t.Cleanup(func() { _ = conn.Close() })
		if network == "unixgram" {
			for err == nil {
				if err = conn.SetDeadline(time.Now().Add(50 * time.Millisecond)); err == nil {
					_, err = conn.Write(make([]byte, 1024))
				}
			}
			return
		}
	}
}

// TestHeadsAreToldInOrder: of decisions at the same time, too, so that who was told
// last was told the newest.
func TestHeadsAreToldInOrder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "heads")
	l := openWitnessed(t, embeddedBroker(t).addr, WitnessConfig{File: file})
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			if _, err := l.Append(testContext(t), KindAudit, fmt.Sprint(n), Digest(nil), "carol", &Audit{Action: "look"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	last := int64(-1)
	for line := range strings.Lines(string(text)) {
		offset, err := strconv.ParseInt(strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '=' })[1], 10, 64)
		if err != nil || offset < last {
			t.Errorf("%d was told after %d, %v", offset, last, err)
		}
		last = offset
	}
	if last != 15 {
		t.Errorf("the last that was told is %d, want 15", last)
	}
}

// TestWhoWaitsForAnotherHeedsItsContext: while one decides, and while one reads.
func TestWhoWaitsForAnotherHeedsItsContext(t *testing.T) {
	asked, release := make(chan struct{}, witnessTries), make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{}; <-release }))
	defer server.Close()
	answer := sync.OnceFunc(func() { close(release) })
	defer answer()
	b := embeddedBroker(t)
	l := openWitnessed(t, b.addr, WitnessConfig{HTTPS: server.URL})
	l.witness.client = server.Client()
	look := func(ctx context.Context, key string) error {
		_, err := l.Append(ctx, KindAudit, key, Digest(nil), "carol", &Audit{Action: "look"})
		return err
	}
	first := make(chan error, 1)
	go func() { first <- look(testContext(t), "first") }()
	wait(t, asked)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended(t, "Append", func() error { return look(ctx, "second") })
	ended(t, "Remind", func() error { l.Remind(ctx); return ctx.Err() })
	answer()
	if err := wait(t, first); err != nil {
		t.Error(err)
	}
	other := open(t, b.addr)
	appendTo(t, other, KindAudit, "other", "carol", &Audit{Action: "look"})
	reads, goOn, read := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		read <- l.refresh(testContext(t), func(int64, int64) { close(reads); <-goOn })
	}()
	wait(t, reads)
	ended(t, "Refresh", func() error { return l.Refresh(ctx) })
	close(goOn)
	if err := wait(t, read); err != nil {
		t.Error(err)
	}
}

func wait[T any](t *testing.T, on <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-on:
	case <-testContext(t).Done():
		t.Fatal("waited for nothing")
	}
	return v
}

// ended fails unless do ends with its context's error while another holds the log.
func ended(t *testing.T, name string, do func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want context.Canceled", name, err)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("%s doesn't heed its context", name)
	}
}

// TestComparingHoldsNobodyUp: the witness's file may be on a slow disk.
func TestComparingHoldsNobodyUp(t *testing.T) {
	file := filepath.Join(t.TempDir(), "heads")
	l := openWitnessed(t, embeddedBroker(t).addr, WitnessConfig{File: file})
	appendTo(t, l, KindAudit, "a", "carol", &Audit{Action: "look"})
	line, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(file, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := pipe.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	lines := make(chan int, 1)
	go func() {
		_, n, err := l.Compare()
		if err != nil {
			t.Error(err)
		}
		lines <- n
	}()
	const many = 2000 // more than a pipe holds: written once somebody reads
	if _, err := pipe.Write(bytes.Repeat(line, many)); err != nil {
		t.Fatal(err)
	}
	if l.mu.TryLock() {
		l.mu.Unlock()
	} else {
		t.Error("the state is locked while the file is read")
	}
	if err := pipe.Close(); err != nil {
		t.Fatal(err)
	}
	if n := wait(t, lines); n != many {
		t.Errorf("%d lines, want %d", n, many)
	}
}

// TestAWitnessSurvivesATornLine: a crash or a full disk cuts the last line anywhere, and the next head follows it.
func TestAWitnessSurvivesATornLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "heads")
	l := openWitnessed(t, embeddedBroker(t).addr, WitnessConfig{File: file})
	prepareLog(t, l)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first := bytes.IndexByte(whole, '\n') + 1
	head := bytes.LastIndexByte(whole, ' ') // ends the last line's head
	write := func(text []byte) {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	compare := func() (lines, unfinished int, err error) {
		l.View(func(s *State) { lines, unfinished, err = l.opt.Witness.compare(s.HeadAt) })
		return lines, unfinished, err
	}
	for end := first; end <= len(whole); end++ {
		write(whole[:end])
		wantLines, wantUnfinished := 1, 1
		if end == first {
			wantUnfinished = 0
		} else if end >= head {
			wantLines, wantUnfinished = 2, 0
		}
		for more := range 3 {
			if lines, unfinished, err := compare(); lines != wantLines+more || unfinished != wantUnfinished || err != nil {
				t.Fatalf("cut to %q, and %d heads more: %d lines and %d unfinished, %v; want %d and %d",
					whole[first:end], more, lines, unfinished, err, wantLines+more, wantUnfinished)
			}
			if err := l.witness.write(t.Context(), l.sight()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, text := range map[string]string{
		"a head that differs, unfinished": strings.Replace(string(whole[first:head]), "=", "=0", 1)[:head-first],
		"the same, and one more after it": strings.Replace(string(whole[first:head]), "=", "=0", 1)[:head-first] + unfinishedMark + "\n",
		"a line that is only cut":         string(whole[first:head-1]) + "\n",
	} {
		write([]byte(string(whole[:first]) + text))
		if _, _, err := compare(); !errors.Is(err, ErrWitness) {
			t.Errorf("%s: %v, want a contradiction", name, err)
		}
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

// TestM6AQuotaHoldsAtTheSameTime: of many requests at once no more than the quota
// are written.
func TestM6AQuotaHoldsAtTheSameTime(t *testing.T) {
	const limit = 3
	l, err := Open(testContext(t), newClient(t, embeddedBroker(t).addr), Options{PriceBooksPerDay: limit})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for n := range 4 * limit {
		wg.Go(func() {
			book := bookOf(fmt.Sprint("# book ", n))
			var quota *QuotaError
			if _, err := l.Append(testContext(t), KindPriceBook, fmt.Sprint(n), book.SHA256, "mallory", &book); err != nil && !errors.As(err, &quota) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := l.next(); n != limit {
		t.Errorf("%d books were written, want %d", n, limit)
	}
}
