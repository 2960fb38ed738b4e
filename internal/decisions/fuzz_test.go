package decisions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/costtest"
)

// hostile are records that cost much who looks at them, by what is wrong.
func hostile() map[string]wireMessage {
	list := func(n int, of string) string { return strings.TrimSuffix(strings.Repeat(of+",", n), ",") }
	body := func(kind Kind, text string) wireMessage {
		return wireMessage{[]byte(kind), fmt.Appendf(nil,
			`{"format":1,"kind":%q,"id":"i","key":"k","request":%q,"who":"w","at":"2026-10-01T00:00:00Z","body":%s}`, kind, Digest(nil), text)}
	}
	const limit, great = maxRecordBytes - 4096, maxFileBytes - 4096
	freeze := `{"from":"2026-10-01T00:00:00Z","to":"2026-10-02T00:00:00Z","price_book":"","copy":{"sha256":"","bytes":0,"parts":[%s]}}`
	return map[string]wireMessage{
		"parts without end":   body(KindFreeze, fmt.Sprintf(freeze, list(limit/5, `"x"`))),
		"as many parts as go": body(KindFreeze, fmt.Sprintf(freeze, list(maxParts, `"`+strings.Repeat("x", 240)+`"`))),
		"a field's name":      body(KindAudit, `{"`+strings.Repeat("x", limit)+`":1}`),
		"a value":             body(KindAudit, `{"action":"`+strings.Repeat("x", limit)+`"}`),
		"escapes":             body(KindAudit, `{"action":"`+strings.Repeat(`\u003c`, limit/6)+`"}`),
		"a time":              body(KindRun, `{"id":"i","from":"`+strings.Repeat("9", limit)+`"}`),
		"a number":            body(KindMapping, `{"epoch":`+strings.Repeat("9", great)+`}`),
		"lists in lists":      body(KindAudit, strings.Repeat("[", limit/2)+strings.Repeat("]", limit/2)),
		"objects in objects":  body(KindAudit, strings.Repeat(`{"a":`, limit/6)+"1"+strings.Repeat("}", limit/6)),
		"one field for ever":  body(KindAudit, `{`+list(limit/14, `"action":"aa"`)+`}`),
		"names without end":   body(KindPolicy, `{"revision":0,"approvals":true,"approvers":[`+list(limit/5, `"x"`)+`]}`),
		"marks":               body(KindPolicy, `{"revision":0,"approvals":false,"approvers":["a`+strings.Repeat("\u0301", limit/2)+`"]}`),
		"a great book":        body(KindPriceBook, `{"sha256":"","name":"n","text":"`+strings.Repeat("x", great)+`"}`),
		"a book of escapes":   body(KindPriceBook, `{"sha256":"","name":"n","text":"`+strings.Repeat(`\u003c`, great/6)+`"}`),
		"a book's field":      body(KindPriceBook, `{"`+strings.Repeat("x", great)+`":1}`),
		"a long reason":       body(KindFinding, `{"action":"ack","id":"`+findingID32+`","reason":"`+strings.Repeat("x", limit)+`"}`),
		"a long workload":     body(KindFinding, `{"action":"clear","workload":"`+strings.Repeat("x", limit)+`"}`),
		"a mute for ever":     body(KindFinding, `{"action":"mute","kind":"k","owner":"o","reason":"r","until":"2100-01-01T00:00:00Z"}`),
		"a mute that is over": body(KindFinding, `{"action":"mute","kind":"k","owner":"o","reason":"r","until":"2026-10-01T00:00:00Z"}`),
		"an empty action":     body(KindFinding, `{"action":""}`),
		"over the limit":      {[]byte(KindAudit), bytes.Repeat([]byte("["), 12<<20)},
		"a long key":          {bytes.Repeat([]byte("k"), 8<<20), []byte("{}")},
	}
}

// Bounds of what one message may cost. The time is many times what it takes
// alone, for a machine that has other work.
const (
	messageTime  = 3 * time.Second
	messageAlloc = 32 // times its bytes
)

// fold applies a message and holds it to the bounds.
func fold(t *testing.T, f *folded, m wireMessage) Outcome {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	out := f.apply(m)
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	if alloc := after.TotalAlloc - before.TotalAlloc; took > messageTime || alloc > uint64(messageAlloc*max(len(m.value), maxRecordBytes)) {
		t.Errorf("%d bytes took %s and allocated %d bytes", len(m.value), took, alloc)
	}
	if n := len(out.Reason); n > 2*maxReasonBytes {
		t.Errorf("the reason has %d bytes: it is kept for each message", n)
	}
	return out
}

// TestHostileRecordsAreRefusedCheaply: a bad record in the topic is refused, in
// bounded time and memory, and keeps nothing but a short reason.
func TestHostileRecordsAreRefusedCheaply(t *testing.T) {
	for name, m := range hostile() {
		t.Run(name, func(t *testing.T) {
			f := prepared(t)
			before := view(f.state)
			began := time.Now()
			out := fold(t, f, m)
			t.Logf("%d bytes: %s: %.100q", len(m.value), time.Since(began), out.Reason)
			if out.Accepted {
				t.Errorf("accepted: %.200s", m.value)
			}
			if diff := cmp.Diff(before, view(f.state)); diff != "" {
				t.Errorf("was refused and changed the state (-before +after):\n%s", diff)
			}
		})
	}
}

// FuzzFold: whatever a message is, the fold goes on, what it refuses changes
// nothing but the chain, and what it accepts encodes as it came.
func FuzzFold(f *testing.F) {
	p := prepared(f)
	p.must(p.record(KindPolicy, "carol", policyOf(0, true, "", "alice", "bob")))
	first := invoiceOf("ml")
	first.Approval = p.approve("alice", first.Number, first.Content.SHA256)
	p.must(p.record(KindInvoice, "carol", first))
	p.record(KindNote, "carol", noteOf(first, "-1.00"))
	p.record(KindCluster, "carol", Cluster{Name: "prod", SlotMS: 10_000})
	p.record(KindMapping, "carol", Mapping{Epoch: 4, SHA256: Digest(nil), Effective: at(1)})
	for _, action := range []string{FindingAck, FindingMute, FindingJudge} {
		p.must(p.record(KindFinding, "ann", findingOf(action)))
	}
	for _, m := range p.msgs {
		f.Add(string(m.key), m.value)
	}
	for _, m := range hostile() {
		f.Add(string(m.key), m.value[:min(len(m.value), 4096)])
	}
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		s := &folded{tb: t, state: NewState()}
		for _, m := range p.msgs {
			s.apply(m)
		}
		before := view(s.state)
		var out Outcome
		costtest.Within(t, costtest.Time, 64<<20+256*uint64(len(value)), func() { out = fold(t, s, wireMessage{[]byte(key), value}) })
		if !out.Accepted {
			if diff := cmp.Diff(before, view(s.state)); diff != "" {
				t.Errorf("was refused and changed the state (-before +after):\n%s", diff)
			}
			return
		}
		if out.Kind != KindPart {
			r, _, err := decode(Kind(key), value)
			if again, encodeErr := json.Marshal(&r); err != nil || encodeErr != nil || !bytes.Equal(again, value) {
				t.Errorf("was accepted and reads back as %s, %v", again, err)
			}
		}
	})
}
