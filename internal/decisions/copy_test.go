package decisions

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
)

// openCopied opens a log that is copied to a folder.
func openCopied(tb testing.TB, addr, dir string) *Log {
	tb.Helper()
	l, err := Open(testContext(tb), newClient(tb, addr), Options{CopyDir: dir})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	return l
}

// fillLog has five decisions and a message that is none.
func fillLog(tb testing.TB, l *Log) {
	tb.Helper()
	prepareLog(tb, l)
	first := invoiceOf("ml")
	appendTo(tb, l, KindInvoice, "order 7", "carol", &first)
	junk := []broker.Message{{Topic: broker.TopicDecisions, Value: []byte("junk")}, {Topic: broker.TopicDecisions, Key: []byte("\xff")}}
	if err := l.producer.Produce(testContext(tb), junk); err != nil {
		tb.Fatal(err)
	}
	appendTo(tb, l, KindAudit, "look", "carol", &Audit{Action: "look"})
}

func copyFiles(tb testing.TB, dir string) (paths []string) {
	tb.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		tb.Fatal(err)
	}
	for _, e := range entries {
		paths = append(paths, filepath.Join(dir, e.Name()))
	}
	return paths
}

// TestTheLogIsCopiedAndRestored: into an empty topic, with the same state and
// chain, and on into the same copy.
func TestTheLogIsCopiedAndRestored(t *testing.T) {
	eachBroker(t, func(t *testing.T, b *testBroker) {
		dir := filepath.Join(t.TempDir(), "copy")
		l := openCopied(t, b.addr, dir)
		fillLog(t, l)
		if n, _, err := l.Compare(); n != l.next() || err != nil {
			t.Errorf("the copy has %d of %d messages, %v", n, l.next(), err)
		}
		if lag := testutil.ToFloat64(l.metrics.copyLag); lag != 0 {
			t.Errorf("the copy lags by %v", lag)
		}
		late := open(t, b.addr)
		appendTo(t, late, KindAudit, "look again", "carol", &Audit{Action: "look"})
		if err := l.Refresh(testContext(t)); err != nil {
			t.Fatal(err)
		}
		told := stateOf(late)
		fresh := embeddedBroker(t)
		empty := openCopied(t, fresh.addr, dir)
		if err := empty.Whole(); !errors.Is(err, ErrDeleted) || !strings.Contains(err.Error(), "audit restore --from "+dir) {
			t.Errorf("an empty topic beside its copy: %v", err)
		}
		if testutil.ToFloat64(empty.metrics.whole) != 0 || testutil.ToFloat64(l.metrics.whole) != 1 {
			t.Error("the metric doesn't tell which log is whole")
		}
		n, err := empty.Restore(testContext(t), dir, nil, nil)
		if err != nil || n != 10 {
			t.Fatalf("Restore = %d, %v, want 10", n, err)
		}
		if diff := cmp.Diff(told, stateOf(empty)); diff != "" {
			t.Errorf("state (-before +restored):\n%s", diff)
		}
		if err := empty.Whole(); err != nil {
			t.Errorf("after it was restored: %v", err)
		}
		appendTo(t, empty, KindAudit, "restored", "carol", &Audit{Action: "restore"})
		if n, _, err := empty.Compare(); n != 11 || err != nil {
			t.Errorf("the copy goes on to %d messages, want 11, %v", n, err)
		}
		if n, err := empty.Restore(testContext(t), dir, nil, nil); n != 0 || err != nil {
			t.Errorf("Restore of what is there = %d, %v", n, err)
		}
	})
}

// TestARestoreGoesOnWhereItWasKilled, at any message.
func TestARestoreGoesOnWhereItWasKilled(t *testing.T) {
	dir := t.TempDir()
	l := openCopied(t, embeddedBroker(t).addr, dir)
	fillLog(t, l)
	for stop := range 9 {
		fresh := open(t, embeddedBroker(t).addr)
		killed := errors.New("killed")
		_, err := scanCopy(dir, func(m *copied) error {
			if m.offset == int64(stop) {
				return killed
			}
			return fresh.producer.Produce(testContext(t), []broker.Message{m.message()})
		})
		if !errors.Is(err, killed) {
			t.Fatal(err)
		}
		if n, err := fresh.Restore(testContext(t), dir, nil, nil); err != nil || n != int64(9-stop) {
			t.Errorf("after %d messages: Restore = %d, %v", stop, n, err)
		}
		if diff := cmp.Diff(stateOf(l), stateOf(fresh)); diff != "" {
			t.Errorf("after %d messages (-before +restored):\n%s", stop, diff)
		}
	}
}

// TestM2AnEditedLogContradictsItsCopy: the first offset is named, nothing is
// restored over it, and the copy stays as it was.
func TestM2AnEditedLogContradictsItsCopy(t *testing.T) {
	dir := t.TempDir()
	fillLog(t, openCopied(t, embeddedBroker(t).addr, dir))
	before := filesOf(t, dir)
	edited := embeddedBroker(t)
	other := open(t, edited.addr)
	_, err := scanCopy(dir, func(m *copied) error { // as the insider does it
		value := strings.Replace(string(m.value), `"who":"carol"`, `"who":"mallo"`, 1)
		return other.producer.Produce(testContext(t), []broker.Message{message(Kind(m.key), string(m.key), []byte(value))})
	})
	if err != nil {
		t.Fatal(err)
	}
	l := openCopied(t, edited.addr, dir)
	if err := l.Whole(); !errors.Is(err, ErrCopy) || !strings.Contains(err.Error(), "from offset 5 on") {
		t.Errorf("Whole = %v, want offset 5", err)
	}
	if _, _, err := l.Compare(); !errors.Is(err, ErrCopy) || !strings.Contains(err.Error(), "offset 5") {
		t.Errorf("Compare = %v, want offset 5", err)
	}
	if n, err := l.Restore(testContext(t), dir, nil, nil); n != 0 || !errors.Is(err, ErrCopy) || !strings.Contains(err.Error(), "offset 5") {
		t.Errorf("Restore = %d, %v, want a refusal that names offset 5", n, err)
	}
	if _, err := l.Append(testContext(t), KindAudit, "more", Digest(nil), "carol", &Audit{Action: "look"}); !errors.Is(err, ErrCopy) {
		t.Errorf("Append = %v, want ErrCopy", err)
	}
	appendTo(t, other, KindAudit, "more", "carol", &Audit{Action: "look"}) // who has no copy can't know
	if err := l.Refresh(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, filesOf(t, dir)); diff != "" {
		t.Errorf("the copy was written to (-before +after):\n%s", diff)
	}
}

func filesOf(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	out := map[string]string{}
	for _, path := range copyFiles(tb, dir) {
		data, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		out[path] = string(data)
	}
	return out
}

// TestTornAndDamagedCopies: the copy's only file is cut at every byte, and each
// byte of it is changed. A cut is a crash, and the log mends it in a new file; a
// changed byte is named where the copy is all there is, and mended as well. What
// was written is never written again.
func TestTornAndDamagedCopies(t *testing.T) {
	b, dir := embeddedBroker(t), t.TempDir()
	first := openCopied(t, b.addr, dir)
	appendTo(t, first, KindAudit, "a", "carol", &Audit{Action: "look"})
	appendTo(t, first, KindAudit, "b", "carol", &Audit{Action: "look"})
	whole, err := os.ReadFile(copyFiles(t, dir)[0])
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(copyFiles(t, dir)[0])
	for at := range whole {
		for _, cut := range []bool{true, false} {
			if !cut && at%7 != 0 {
				continue
			}
			broken := append([]byte(nil), whole...)
			if broken[at] ^= 0x10; cut {
				broken = whole[:at]
			}
			mine := t.TempDir()
			path := filepath.Join(mine, name)
			if err := os.WriteFile(path, broken, 0o600); err != nil {
				t.Fatal(err)
			}
			chains, err := scanCopy(mine, func(*copied) error { return nil })
			if cut != (err == nil) || err != nil && !errors.Is(err, ErrCopy) {
				t.Fatalf("byte %d, cut %v: %d messages, %v", at, cut, len(chains), err)
			}
			if !cut && at < len(copyMagic) {
				continue // not a copy at all: a person has to look
			}
			l, err := Open(testContext(t), first.client, Options{CopyDir: mine})
			if err != nil {
				t.Fatal(err)
			}
			if n, _, err := l.Compare(); n != 2 || err != nil || l.Whole() != nil {
				t.Fatalf("byte %d, cut %v: mended to %d messages, %v, %v", at, cut, n, err, l.Whole())
			}
			_ = l.Close()
			if now, err := os.ReadFile(path); err != nil || string(now) != string(broken) {
				t.Fatalf("byte %d, cut %v: the old file was written to", at, cut)
			}
		}
	}
}

// TestALostLogIsNotDecidedOn: a log that its copy says more of takes nothing, read
// before or not, so that it can be restored.
func TestALostLogIsNotDecidedOn(t *testing.T) {
	dir := t.TempDir()
	fillLog(t, openCopied(t, embeddedBroker(t).addr, dir))
	lost := embeddedBroker(t)
	client := newClient(t, lost.addr)
	for name, decide := range map[string]func(*Log) error{
		"Append": func(l *Log) error {
			_, err := l.Append(testContext(t), KindAudit, "k", Digest(nil), "carol", &Audit{Action: "look"})
			return err
		},
		"Put": func(l *Log) error { return second(l.Put(testContext(t), []byte("new"))) },
	} {
		if err := decide(Follow(client, Options{CopyDir: dir, CopyReadOnly: true})); !errors.Is(err, ErrDeleted) {
			t.Errorf("%s: %v, want ErrDeleted", name, err)
		}
	}
	l := openCopied(t, lost.addr, dir)
	audit := recordOf(t, KindAudit, "k", "carol", Audit{Action: "look"})
	if err := l.Check(KindAudit, "k", audit.Request, "carol", &Audit{Action: "look"}); !errors.Is(err, ErrDeleted) {
		t.Errorf("Check = %v, want ErrDeleted", err)
	}
	if n, err := l.Restore(testContext(t), dir, nil, nil); n != 9 || err != nil {
		t.Fatalf("Restore = %d, %v, want 9", n, err)
	}
	if out := appendTo(t, l, KindAudit, "k", "carol", &Audit{Action: "look"}); !out.Accepted || out.Offset != 9 {
		t.Errorf("after the restore: %+v", out)
	}
}

// TestAContradictedCopyIsRestoredFromNowhere: while the configured copy can't be
// used nothing is written from another one either, since who did it couldn't be
// noted.
func TestAContradictedCopyIsRestoredFromNowhere(t *testing.T) {
	good, bad := t.TempDir(), t.TempDir()
	fillLog(t, openCopied(t, embeddedBroker(t).addr, good))
	if err := os.WriteFile(filepath.Join(bad, filepath.Base(copyFiles(t, good)[0])), []byte("not a copy"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := openCopied(t, embeddedBroker(t).addr, bad)
	if n, err := l.Restore(testContext(t), good, nil, nil); n != 0 || !errors.Is(err, ErrCopy) || l.next() != 0 {
		t.Errorf("Restore = %d, %v, %d messages; want none and ErrCopy", n, err, l.next())
	}
}

// TestADamagedFileAmongSeveralIsMended: every restart begins a file; a changed bit
// in any of them is mended from the log, and a copy alone names file and byte.
func TestADamagedFileAmongSeveralIsMended(t *testing.T) {
	b, dir := embeddedBroker(t), t.TempDir()
	client := newClient(t, b.addr)
	for n := range 4 {
		l := openCopied(t, b.addr, dir)
		appendTo(t, l, KindAudit, fmt.Sprint(n, "a"), "carol", &Audit{Action: "look"})
		appendTo(t, l, KindAudit, fmt.Sprint(n, "b"), "carol", &Audit{Action: "look"})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	whole := filesOf(t, dir)
	paths := copyFiles(t, dir)
	if len(paths) != 4 {
		t.Fatalf("%d files, want 4", len(paths))
	}
	for name, flipped := range map[string][]int{"first": {0}, "second": {1}, "last": {3}, "two": {0, 1}, "first and last": {0, 3}} {
		for _, at := range []int{len(copyMagic) + 3, len(copyMagic) + copyPrefix + 60, -1} {
			mine := t.TempDir()
			for i, path := range paths {
				data := []byte(whole[path])
				if slices.Contains(flipped, i) {
					data[(at+len(data))%len(data)] ^= 0x10
				}
				if err := os.WriteFile(filepath.Join(mine, filepath.Base(path)), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			first := filepath.Base(paths[flipped[0]])
			if _, err := scanCopy(mine, func(*copied) error { return nil }); !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), first) {
				t.Errorf("%s, byte %d: %v, want damage of %s", name, at, err, first)
			}
			l, err := Open(testContext(t), client, Options{CopyDir: mine})
			if err != nil {
				t.Fatal(err)
			}
			if n, _, err := l.Compare(); n != 8 || err != nil || l.Whole() != nil {
				t.Errorf("%s, byte %d: mended to %d messages, %v, %v", name, at, n, err, l.Whole())
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Remove(paths[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := scanCopy(dir, func(*copied) error { return nil }); !errors.Is(err, ErrCopy) || errors.Is(err, errDamaged) {
		t.Errorf("without the second file: %v, want ErrCopy", err)
	}
}

// TestACopyFailsNobody: what can't be copied now is copied later.
func TestACopyFailsNobody(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // a file in the folder's place
		t.Fatal(err)
	}
	c := clock.NewFake(time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC))
	l, err := Open(testContext(t), newClient(t, embeddedBroker(t).addr), Options{CopyDir: dir, Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Whole(); err == nil {
		t.Error("a copy that can't be read counts as whole")
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	l, err = Open(testContext(t), l.client, Options{CopyDir: dir, Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	appendTo(t, l, KindAudit, "a", "carol", &Audit{Action: "look"})
	_ = l.copy.file.Close() // as a disk that went away
	appendTo(t, l, KindAudit, "b", "carol", &Audit{Action: "look"})
	if errs, lag := testutil.ToFloat64(l.metrics.copyErrors), testutil.ToFloat64(l.metrics.copyLag); errs != 1 || lag != 1 {
		t.Errorf("%v errors, lag %v, want 1 and 1", errs, lag)
	}
	for n := range 3 {
		c.Advance(2 * copyFileAge)
		appendTo(t, l, KindAudit, fmt.Sprint(n), "carol", &Audit{Action: "look"})
	}
	if n, _, err := l.Compare(); n != 5 || err != nil || testutil.ToFloat64(l.metrics.copyLag) != 0 {
		t.Errorf("the copy has %d messages, %v", n, err)
	}
	if n := len(copyFiles(t, dir)); n != 4 { // one that failed, and one for each two hours
		t.Errorf("%d files, want 4: a file of an hour's age is closed", n)
	}
}
