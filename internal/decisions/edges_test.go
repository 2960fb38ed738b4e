package decisions

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
)

// Check says what Append would: it errs where the record would be refused, and
// writes nothing.
func TestCheckForeseesAppend(t *testing.T) {
	l := open(t, embeddedBroker(t).addr)
	prepareLog(t, l)
	first, run := invoiceOf("ml"), runOf("r1")
	appendTo(t, l, KindInvoice, "order", "carol", &first)
	appendTo(t, l, KindRun, "run", "alice", &run)
	appendTo(t, l, KindPolicy, "policy", "alice", &Policy{Approvers: []string{}})
	other, note, skipped, longer := invoiceOf("web"), noteOf(first, "-1.00"), noteOf(noteOf(first, "-1.00"), "-1.00"), runOf("r2")
	note.Content, skipped.Content, longer.SlotMS = documentOf("content"), documentOf("content"), 60_000
	wrongHours, web2 := invoiceOf("web"), invoiceOf("web")
	wrongHours.To = wrongHours.From
	web2.Currency = "USD"
	second, mute, over := runOf("r2"), findingOf(FindingMute), findingOf(FindingMute)
	mute.Until, over.Until = l.opt.Clock.Now().UTC().Add(time.Hour).Truncate(time.Second), start.AddDate(-10, 0, 0)
	for _, c := range []struct {
		name      string
		kind      Kind
		key, who  string
		body      any
		foreseen  bool // that it is refused
		malformed bool
	}{
		{"the number again", KindInvoice, "again", "carol", &first, true, false},
		{"the request again", KindInvoice, "order", "carol", &first, false, false},
		{"the key for another", KindInvoice, "order", "carol", &other, true, false},
		{"no hours", KindInvoice, "order 2", "carol", &wrongHours, true, true},
		{"nobody", KindInvoice, "order 2", "", &other, true, true},
		{"who can't be seen", KindInvoice, "order 2", "carol\u200b", &other, true, true},
		{"a note that skips one", KindNote, "note", "carol", &skipped, true, false},
		{"a note", KindNote, "note", "carol", &note, false, false},
		{"another tenant", KindInvoice, "order 2", "carol", &other, false, false},
		{"an id that is taken", KindRun, "run 2", "alice", &run, true, false},
		{"another slot length", KindRun, "run 2", "alice", &longer, true, false},
		{"another run", KindRun, "run 2", "alice", &second, false, false},
		{"an end of no run", KindRunEnd, "end", "alice", &RunEnd{ID: "r9"}, true, false},
		{"an end", KindRunEnd, "end", "alice", &RunEnd{ID: "r1"}, false, false},
		{"an end twice", KindRunEnd, "end 2", "alice", &RunEnd{ID: "r1"}, true, false},
		{"a cluster of another length", KindCluster, "cluster", "alice", &Cluster{Name: "lab", SlotMS: 60_000}, true, false},
		{"a mute that is over", KindFinding, "mute", "ann", &over, true, false},
		{"a mute", KindFinding, "mute", "ann", &mute, false, false},
		{"a policy twice", KindPolicy, "policy 2", "alice", &Policy{Approvers: []string{}}, true, false},
		{"a book that is in force is not foreseen", KindAudit, "look", "alice", &Audit{Action: "look"}, false, false},
	} {
		request := recordOf(t, c.kind, c.key, c.who, c.body).Request
		before := l.next()
		if err := l.Check(c.kind, c.key, request, c.who, c.body); (err != nil) != c.foreseen || l.next() != before {
			t.Errorf("%s: Check says %v, %d messages were written", c.name, err, l.next()-before)
		}
		out, err := l.Append(testContext(t), c.kind, c.key, request, c.who, c.body)
		if (err != nil) != c.malformed || err == nil && out.Accepted == c.foreseen {
			t.Errorf("%s: Append gives %+v, %v", c.name, out, err)
		}
	}
	sent := sentOf(start)
	l.View(func(s *State) {
		if diff := cmp.Diff(s.PermissionFor(sent), l.PermissionFor(sent)); diff != "" || l.PermissionFor(sent).SlotMS != 10_000 {
			t.Errorf("leave (-state +log):\n%s", diff)
		}
	})
}

// Subjects are what a table of the log shows beside the kind.
func TestSubjects(t *testing.T) {
	invoice, freeze, run, book := invoiceOf("ml"), freezeOf(0, 2), runOf("r1"), bookOf("x")
	for want, b := range map[string]body{
		book.SHA256: &book, "2026-10-ml-r0": &invoice, "2026-10-01T00:00:00Z/2026-10-01T02:00:00Z": &freeze,
		"s": &Approval{Subject: "s"}, "look at": &Audit{Action: "look", Subject: "at"}, "policy-r2": &Policy{Revision: 2},
		"c": &Cluster{Name: "c"}, "import lab r1": &run, "r3": &RunEnd{ID: "r3"}, "epoch 4": &Mapping{Epoch: 4},
		"judge x: false":          &Finding{Action: FindingJudge, Target: Target{ID: "x", Kind: "k"}, Verdict: VerdictFalse},
		"mute kind k, workload w": &Finding{Action: FindingMute, Target: Target{Kind: "k", Workload: "w"}},
	} {
		if got := (&Entry{Body: b}).Subject(); got != want {
			t.Errorf("%T is about %q, want %q", b, got, want)
		}
	}
	if got := (&Entry{Outcome: Outcome{Number: "n"}}).Subject(); got != "n" {
		t.Errorf("an entry without a body is about %q", got)
	}
}

// A restore of many messages reports how far it is, and ends where its context does.
func TestARestoreTellsHowFarItIs(t *testing.T) {
	const junk = restoreMessages + 1
	dir := t.TempDir()
	l := openCopied(t, embeddedBroker(t).addr, dir)
	msgs := make([]broker.Message, junk)
	for i := range msgs {
		msgs[i] = broker.Message{Topic: broker.TopicDecisions, Value: []byte(fmt.Sprint(i))}
	}
	if err := errors.Join(l.producer.Produce(testContext(t), msgs), l.Refresh(testContext(t))); err != nil {
		t.Fatal(err)
	}
	type step struct{ done, total int64 }
	ctx, cancel := context.WithCancel(testContext(t))
	fresh := open(t, embeddedBroker(t).addr)
	var told []step
	n, err := fresh.Restore(ctx, dir, nil, func(done, total int64) {
		told = append(told, step{done, total})
		cancel()
	})
	if !errors.Is(err, context.Canceled) || n != restoreMessages {
		t.Errorf("Restore whose context ends after a batch = %d, %v", n, err)
	}
	// What was on its way when the context ended may still arrive, so the whole restore goes
	// to another topic.
	told, fresh = nil, open(t, embeddedBroker(t).addr)
	n, err = fresh.Restore(testContext(t), dir, nil, func(done, total int64) { told = append(told, step{done, total}) })
	if err != nil || n != junk {
		t.Errorf("Restore of all = %d, %v", n, err)
	}
	if diff := cmp.Diff([]step{{restoreMessages, junk}, {junk, junk}}, told, cmp.AllowUnexported(step{})); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(stateOf(l), stateOf(fresh)); diff != "" {
		t.Errorf("state (-before +restored):\n%s", diff)
	}
	refused := errors.New("refused")
	other := open(t, embeddedBroker(t).addr)
	if n, err := other.Restore(testContext(t), dir, func(func(int64) Head) error { return refused }, nil); n != 0 || !errors.Is(err, refused) || other.next() != 0 {
		t.Errorf("Restore of what does not agree = %d, %v", n, err)
	}
	if n, err := other.Restore(testContext(t), t.TempDir(), nil, nil); n != 0 || !errors.Is(err, ErrCopy) {
		t.Errorf("Restore of an empty folder = %d, %v", n, err)
	}
	large := make([]broker.Message, 0, 9)
	for i := range cap(large) { // 9 × 512 KiB are more than one call takes
		data := make([]byte, PartBytes)
		data[0] = byte(i)
		large = append(large, message(KindPart, Digest(data), data))
	}
	if err := errors.Join(l.producer.Produce(testContext(t), large), l.Refresh(testContext(t))); err != nil {
		t.Fatal(err)
	}
	told = nil
	if _, err := other.Restore(testContext(t), dir, nil, func(done, total int64) { told = append(told, step{done, total}) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]step{{500, 510}, {501 + 8, 510}, {510, 510}}, told, cmp.AllowUnexported(step{})); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

func TestHeadsOfACopy(t *testing.T) {
	at := headsOf([][sha256.Size]byte{{1}, {2}})
	for offset, want := range map[int64]byte{-1: 0, 0: 1, 1: 2, 2: 0, 3: 0} {
		text := ""
		if want > 0 {
			text = fmt.Sprintf("%02x%062x", want, 0)
		}
		if got := at(offset); got != (Head{offset, text}) {
			t.Errorf("head at %d is %+v", offset, got)
		}
	}
}

// Compare reads the copy anew: it finds what became of it since the log was opened.
func TestCompareReadsTheCopyAnew(t *testing.T) {
	mine, theirs := t.TempDir(), t.TempDir()
	l, other := openCopied(t, embeddedBroker(t).addr, mine), openCopied(t, embeddedBroker(t).addr, theirs)
	appendTo(t, l, KindAudit, "a", "carol", &Audit{Action: "look"})
	appendTo(t, other, KindAudit, "b", "mallory", &Audit{Action: "look"})
	if n, _, err := l.Compare(); n != 1 || err != nil {
		t.Fatalf("Compare = %d, %v", n, err)
	}
	if err := errors.Join(os.RemoveAll(mine), os.Rename(theirs, mine)); err != nil {
		t.Fatal(err)
	}
	if n, _, err := l.Compare(); n != 1 || !errors.Is(err, ErrCopy) {
		t.Errorf("Compare with another log's copy = %d, %v", n, err)
	}
}

// A file of the copy ends at an hour's age, and not before.
func TestFilesOfTheCopyEndAtAnHour(t *testing.T) {
	c, dir := clock.NewFake(start), filepath.Join(t.TempDir(), "copy")
	l, err := Open(testContext(t), newClient(t, embeddedBroker(t).addr), Options{CopyDir: dir, Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // a file in the folder's place
		t.Fatal(err)
	}
	appendTo(t, l, KindAudit, "0", "carol", &Audit{Action: "look"})
	if errs, lag := testutil.ToFloat64(l.metrics.copyErrors), testutil.ToFloat64(l.metrics.copyLag); errs != 1 || lag != 1 || l.Whole() != nil {
		t.Errorf("%v errors, lag %v, want 1 and 1", errs, lag)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	for i, c2 := range []struct {
		later time.Duration
		files int
	}{{0, 1}, {time.Hour - 1, 1}, {1, 2}, {0, 2}, {time.Hour, 3}, {0, 3}} {
		c.Advance(c2.later)
		appendTo(t, l, KindAudit, fmt.Sprint("k", i), "carol", &Audit{Action: "look"})
		if n := len(copyFiles(t, dir)); n != c2.files {
			t.Errorf("record %d, after %s more: %d files, want %d", i, c2.later, n, c2.files)
		}
	}
	if n, _, err := l.Compare(); n != 7 || err != nil {
		t.Errorf("the copy has %d messages, %v", n, err)
	}
	last := l.copy.file
	if err := errors.Join(l.Close(), l.Close()); err != nil || !errors.Is(last.Close(), os.ErrClosed) {
		t.Errorf("Close twice: %v, and the copy's file is closed: %t", err, l.copy.file == nil)
	}
}

func TestDocumentsThatCantBeRead(t *testing.T) {
	l := open(t, embeddedBroker(t).addr)
	a, b := put(t, l, []byte("a")), put(t, l, []byte("b"))
	both := Document{SHA256: Digest([]byte("ba")), Bytes: 2, Parts: []string{b.SHA256, a.SHA256}}
	if data, err := l.Read(testContext(t), both); string(data) != "ba" || err != nil {
		t.Errorf("Read = %q, %v", data, err)
	}
	long, other := both, both
	long.Bytes = 3
	other.SHA256 = Digest(nil)
	for _, d := range []Document{long, other} {
		if _, err := l.Read(testContext(t), d); !errors.Is(err, ErrDocument) {
			t.Errorf("Read of %+v: %v, want ErrDocument", d, err)
		}
	}
	both.Parts = []string{b.SHA256, Digest(nil)}
	if data, err := l.Read(testContext(t), both); data != nil || err == nil {
		t.Errorf("Read of a part that is not there = %q, %v", data, err)
	}
	for _, offset := range []int64{-1, 2, 3} {
		if _, _, err := l.Record(testContext(t), offset); err == nil {
			t.Errorf("offset %d has a record", offset)
		}
	}
}

func TestFilesOfAWitness(t *testing.T) {
	dir := t.TempDir()
	token, readable := filepath.Join(dir, "token"), filepath.Join(dir, "readable")
	if err := errors.Join(os.WriteFile(token, []byte("secret\n"), 0o600), os.WriteFile(readable, []byte("secret"), 0o600), os.Chmod(readable, 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		witness WitnessConfig
		good    bool
	}{
		{WitnessConfig{}, true},
		{WitnessConfig{TokenFile: token}, true},
		{WitnessConfig{TokenFile: readable}, false},
		{WitnessConfig{TokenFile: filepath.Join(dir, "none")}, false},
		{WitnessConfig{TokenFile: token, CAFile: filepath.Join(dir, "none")}, false},
		{WitnessConfig{TokenFile: token, CAFile: token}, false},
	} {
		if err := c.witness.CheckFiles(); (err == nil) != c.good {
			t.Errorf("%+v: %v", c.witness, err)
		}
	}
	if got, err := (WitnessConfig{TokenFile: token}).token(); got != "secret" || err != nil {
		t.Errorf("the token is %q, %v", got, err)
	}
	l, err := Open(testContext(t), newClient(t, embeddedBroker(t).addr), Options{Witness: WitnessConfig{HTTPS: "https://127.0.0.1:1", CAFile: readable, Required: true}})
	if err != nil {
		t.Fatal(err)
	}
	appendTo(t, l, KindAudit, "a", "carol", &Audit{Action: "look"}) // of an empty log there is nothing to send
	if _, err := l.Append(testContext(t), KindAudit, "b", Digest(nil), "carol", &Audit{Action: "look"}); err == nil || l.next() != 1 {
		t.Errorf("decided without a witness that is required: %v", err)
	}
	if failed := testutil.ToFloat64(l.metrics.witnessed.WithLabelValues("https", "failed")); failed != 2 {
		t.Errorf("%v heads could not be sent, want 2", failed)
	}
}

// TestOutcomesAreCounted: the repetition of the very first record, too.
func TestOutcomesAreCounted(t *testing.T) {
	l := open(t, embeddedBroker(t).addr)
	for range 2 {
		appendTo(t, l, KindAudit, "a", "carol", &Audit{Action: "look"})
	}
	for outcome, want := range map[string]float64{"accepted": 1, "repeated": 1, "refused": 0} {
		if got := testutil.ToFloat64(l.metrics.folded.WithLabelValues(string(KindAudit), outcome)); got != want {
			t.Errorf("%v records were %s, want %v", got, outcome, want)
		}
	}
}
