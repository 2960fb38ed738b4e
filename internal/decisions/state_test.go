package decisions

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/costtest"
)

// TestEachRefusalOnce: what is refused changes nothing but the chain.
func TestEachRefusalOnce(t *testing.T) {
	first := invoiceOf("ml")
	note := noteOf(first, "-1.00")
	second := noteOf(note, "2.00")
	second.Kind = DebitNoteKind
	changed := func(i Invoice, change func(*Invoice)) Invoice { change(&i); return i }
	for _, test := range []struct {
		name string
		kind Kind
		who  string
		body any
		want string // of the reason; empty: accepted
	}{
		{"another book", KindPriceBook, "a", bookOf("currency: USD\n"), ""},
		{"the book in force", KindPriceBook, "a", bookOf(bookText), "is the book in force already, since offset 0"},
		{"book with another hash", KindPriceBook, "a", PriceBook{SHA256: Digest(nil), Name: "x", Text: "y"}, "sha256 is"},
		{"book without a name", KindPriceBook, "a", PriceBook{SHA256: Digest([]byte("y")), Text: "y"}, `name is "", want 1 to 200 printable`},
		{"book without text", KindPriceBook, "a", PriceBook{SHA256: Digest(nil), Name: "x"}, `text is ""`},
		{"book of more than 1 MiB", KindPriceBook, "a", bookOf(strings.Repeat("x", 1<<20+1)), "text is"},
		{"book of 1 MiB", KindPriceBook, "a", bookOf(strings.Repeat("x", 1<<20)), ""},

		{"freeze behind", KindFreeze, "a", freezeOf(744, 745), ""},
		{"freeze that begins inside", KindFreeze, "a", freezeOf(743, 745), "overlap those frozen at offset 8, [2026-10-21T20Z, 2026-11-01T00Z)"},
		{"freeze around all", KindFreeze, "a", freezeOf(-1, 745), "overlap those frozen at offset 7"},
		{"freeze inside", KindFreeze, "a", freezeOf(10, 11), "overlap those frozen at offset 7"},
		{"freeze that ends before it begins", KindFreeze, "a", freezeOf(800, 800), "want it after from"},
		{"freeze of half an hour", KindFreeze, "a", Freeze{From: at(800), To: at(801).Add(30 * time.Minute), PriceBook: Digest([]byte(bookText)), Copy: documentOf("frozen")}, "want a full hour"},
		{"freeze by an unknown book", KindFreeze, "a", Freeze{From: at(800), To: at(801), PriceBook: Digest(nil), Copy: documentOf("frozen")}, "is not published"},
		{"freeze with an unknown part", KindFreeze, "a", Freeze{From: at(800), To: at(801), PriceBook: Digest([]byte(bookText)), Copy: documentOf("nowhere")}, "part 0 of document"},
		{"freeze with a wrong size", KindFreeze, "a", Freeze{From: at(800), To: at(801), PriceBook: Digest([]byte(bookText)), Copy: Document{SHA256: Digest([]byte("frozen")), Bytes: 5, Parts: documentOf("frozen").Parts}}, "has 6 bytes in its parts, says 5"},

		{"another tenant's invoice", KindInvoice, "a", invoiceOf("web"), ""},
		{"the number again", KindInvoice, "a", first, `number "2026-10-ml-r0" is taken, by carol at offset 9`},
		{"a number of its own", KindInvoice, "a", changed(invoiceOf("web"), func(i *Invoice) { i.Number = "7" }), `number is "7", want "2026-10-web-r0"`},
		{"an invoice as a note", KindNote, "a", invoiceOf("web"), `kind is "invoice"`},
		{"a note as an invoice", KindInvoice, "a", second, `kind is "debit_note"`},
		{"a kind of its own", KindInvoice, "a", changed(invoiceOf("web"), func(i *Invoice) { i.Kind = "bill" }), `kind is "bill"`},
		{"hours of another invoice", KindInvoice, "a", changed(first, func(i *Invoice) { i.Period, i.Number = "2026-11", "2026-11-ml-r0" }), `overlap those of invoice "2026-10-ml-r0"`},
		{"hours that are not frozen", KindInvoice, "a", changed(invoiceOf("web"), func(i *Invoice) { i.To = at(746) }), "hours [2026-11-01T00Z, 2026-11-01T02Z) are not frozen"},
		{"another zone", KindInvoice, "a", changed(first, func(i *Invoice) {
			i.Period, i.Number, i.TimeZone, i.From, i.To = "2026-11", "2026-11-ml-r0", "UTC", at(744), at(745)
		}), `time zone is "UTC", want "Europe/Berlin", that of the tenant's first invoice`},
		{"an unknown book", KindInvoice, "a", changed(invoiceOf("web"), func(i *Invoice) { i.PriceBook = Digest(nil) }), "is not published"},
		{"an unknown part", KindInvoice, "a", changed(invoiceOf("web"), func(i *Invoice) { i.Usage = documentOf("nowhere") }), "part 0 of document"},
		{"no content", KindInvoice, "a", changed(invoiceOf("web"), func(i *Invoice) { i.Content = Document{SHA256: Digest(nil), Parts: []string{}} }), "the document is empty"},
		{"no usage", KindInvoice, "a", changed(invoiceOf("web"), func(i *Invoice) { i.Usage = Document{SHA256: Digest(nil), Parts: []string{}} }), ""},
		{"a document of nothing with a hash", KindInvoice, "a", changed(invoiceOf("web"), func(i *Invoice) { i.Usage = Document{SHA256: Digest([]byte("x")), Parts: []string{}} }), "that of its only part, or of nothing"},
		{"a document whose parts are null", KindInvoice, "a", changed(invoiceOf("web"), func(i *Invoice) { i.Usage = Document{SHA256: Digest(nil)} }), "parts is null"},
		{"a document larger than its parts can be", KindInvoice, "a", changed(invoiceOf("web"), func(i *Invoice) { i.Usage.Bytes = PartBytes + 1 }), "bytes is 524289"},
		{"a float for a total", KindInvoice, "a", changed(invoiceOf("web"), func(i *Invoice) { i.Total = "1e3" }), `total is "1e3", want a decimal in plain digits`},
		{"minus nothing", KindInvoice, "a", changed(invoiceOf("web"), func(i *Invoice) { i.Total = "-0.00" }), `total is "-0.00"`},
		{"ten places", KindInvoice, "a", changed(invoiceOf("web"), func(i *Invoice) { i.GPUHours = "0.1234567890" }), `gpu_hours is "0.1234567890"`},
		{"no currency", KindInvoice, "a", changed(invoiceOf("web"), func(i *Invoice) { i.Currency = "eur" }), `currency is "eur"`},
		{"no month", KindInvoice, "a", changed(invoiceOf("web"), func(i *Invoice) { i.Period, i.Number = "2026-13", "2026-13-web-r0" }), `period is "2026-13"`},
		{"a reason on an invoice", KindInvoice, "a", changed(invoiceOf("web"), func(i *Invoice) { i.Reason = "x" }), `reason is "x", want nothing`},
		{"an approval that isn't there", KindInvoice, "a", changed(invoiceOf("web"), func(i *Invoice) { i.Approval = "none" }), `approval "none" doesn't exist`},
		{"an approval of another", KindInvoice, "a", changed(invoiceOf("web"), func(i *Invoice) { i.Approval = "approval-10" }), `approval "approval-10" is for "2026-10-api-r0"`},
		{"an approval", KindInvoice, "a", changed(invoiceOf("api"), func(i *Invoice) { i.Approval = "approval-10" }), ""},
		{"an approval of oneself", KindInvoice, "dave", changed(invoiceOf("api"), func(i *Invoice) { i.Approval = "approval-10" }), "is by dave, who also decides"},
		{"an approval of other content", KindInvoice, "a", changed(invoiceOf("api"), func(i *Invoice) { i.Approval, i.Content = "approval-10", documentOf("usage") }), `approval "approval-10" is for content`},

		{"the next note", KindNote, "a", second, ""},
		{"the next note, approved", KindNote, "a", changed(second, func(i *Invoice) { i.Approval = "approval-12" }), ""},
		{"a note on nothing", KindNote, "a", noteOf(invoiceOf("web"), "-1"), `tenant "web" has no invoice of 2026-10 to correct`},
		{"a revision too far", KindNote, "a", noteOf(second, "-1"), "revision is 3, want 2"},
		{"a revision again", KindNote, "a", note, `number "2026-10-ml-r1" is taken`},
		{"a note that corrects the invoice over again", KindNote, "a", changed(second, func(i *Invoice) { i.Corrects = first.Number }), `corrects is "2026-10-ml-r0", want "2026-10-ml-r1"`},
		{"a note on other content", KindNote, "a", changed(second, func(i *Invoice) { i.Before = first.Content.SHA256 }), "before is"},
		{"a note in another zone", KindNote, "a", changed(second, func(i *Invoice) { i.TimeZone = "UTC" }), `time_zone is "UTC"`},
		{"a note of other hours", KindNote, "a", changed(second, func(i *Invoice) { i.To = at(743) }), "to is"},
		{"a note in another currency", KindNote, "a", changed(second, func(i *Invoice) { i.Currency = "USD" }), `currency is "USD"`},
		{"a note by another book", KindNote, "a", changed(second, func(i *Invoice) { i.PriceBook = Digest(nil) }), "price_book is"},
		{"a note billed before", KindNote, "a", changed(second, func(i *Invoice) { i.BilledIn = "2026-09" }), `billed_in is "2026-09", want a month not before 2026-10`},
		{"a note billed never", KindNote, "a", changed(second, func(i *Invoice) { i.BilledIn = "" }), `billed_in is ""`},
		{"a note without a reason", KindNote, "a", changed(second, func(i *Invoice) { i.Reason = "" }), "reason is empty"},
		{"a debit called credit", KindNote, "a", changed(second, func(i *Invoice) { i.Kind = CreditNoteKind }), `kind is "credit_note"`},
		{"an unknown part of a note", KindNote, "a", changed(second, func(i *Invoice) { i.Content = documentOf("nowhere") }), "part 0 of document"},

		{"an approval of nothing", KindApproval, "a", Approval{Content: Digest(nil)}, `subject is ""`},
		{"an approval of no content", KindApproval, "a", Approval{Subject: "2026-10-ml-r0"}, `content is ""`},
		{"mapping", KindMapping, "a", Mapping{Epoch: 4, SHA256: Digest([]byte("m")), Text: "m", Effective: at(1)}, ""},
		{"mapping of an older epoch", KindMapping, "a", Mapping{Epoch: 3, SHA256: Digest([]byte("m")), Text: "m", Effective: at(1)}, "epoch is 3, want more than 3"},
		{"mapping with another hash", KindMapping, "a", Mapping{Epoch: 4, SHA256: Digest(nil), Text: "m", Effective: at(1)}, "sha256 is"},
		{"mapping in a zone", KindMapping, "a", Mapping{Epoch: 4, SHA256: Digest(nil), Effective: at(1).In(time.FixedZone("", 3600))}, "want a time in UTC"},
		{"audit", KindAudit, "a", Audit{Action: "read", Subject: "2026-10-ml-r0"}, ""},
		{"audit of no action", KindAudit, "a", Audit{}, `action is ""`},
		{"audit with an escape", KindAudit, "a", Audit{Action: "x", Detail: "\x1b[2J"}, "detail is"},
		{"mute to its longest end", KindFinding, "a", muteUntil(at(0).Add(MaxMute)), ""},
		{"mute beyond", KindFinding, "a", muteUntil(at(0).Add(MaxMute + 1)), "by at most 366 days"},
		{"mute that just ends", KindFinding, "a", muteUntil(at(0).Add(1)), ""},
		{"mute that is over", KindFinding, "a", muteUntil(at(0)), "want a time after 2026-10-01T00:00:00Z"},
		{"mute without end", KindFinding, "a", muteUntil(time.Time{}), "until is"},
		{"mute in a zone", KindFinding, "a", muteUntil(at(1).In(time.FixedZone("", 3600))), "want a time in UTC"},
		{"mute of everything", KindFinding, "a", Finding{Action: FindingMute, Owner: "o", Reason: "r", Until: at(1)}, "give it, or a kind"},
		{"an odd verdict", KindFinding, "a", Finding{Action: FindingJudge, Target: Target{ID: findingID32, Kind: "k"}, Verdict: "wrong"}, `verdict is "wrong", want useful or false or planned`},
		{"unknown kind", "verdict", "a", Audit{Action: "x"}, `message key is "verdict", want a kind of record`},
		{"unknown field", KindAudit, "a", map[string]string{"action": "x", "subject": "", "detail": "", "more": ""}, `unknown field "more"`},
	} {
		f := prepared(t)
		f.must(f.record(KindInvoice, "carol", first))
		f.must(f.record(KindApproval, "dave", Approval{Subject: "2026-10-api-r0", Content: Digest([]byte("content"))}))
		f.must(f.record(KindNote, "carol", note))
		f.must(f.record(KindApproval, "dave", Approval{Subject: second.Number, Content: second.Content.SHA256}))
		f.must(f.record(KindMapping, "carol", Mapping{Epoch: 3, SHA256: Digest([]byte("m")), Text: "m", Effective: at(0)}))
		before := view(f.state)
		out := f.record(test.kind, test.who, test.body)
		if test.want == "" {
			f.must(out)
			continue
		}
		if out.Accepted || !strings.Contains(out.Reason, test.want) {
			t.Errorf("%s: accepted %v, reason %q, want %q", test.name, out.Accepted, out.Reason, test.want)
		}
		if diff := cmp.Diff(before, view(f.state)); diff != "" {
			t.Errorf("%s: was refused and changed the state (-before +after):\n%s", test.name, diff)
		}
	}
}

// TestEachRefusalOfAMessage that is no record of ours.
func TestEachRefusalOfAMessage(t *testing.T) {
	good := recordOf(t, KindAudit, "k", "a", Audit{Action: "read"})
	text := string(messageOf(t, good).value)
	changed := func(change func(*Record)) string { r := good; change(&r); return string(messageOf(t, r).value) }
	for _, test := range []struct {
		name, key, value, want string
	}{
		{"as it must be", "audit", text, ""},
		{"nothing", "", "", "message key is \"\""},
		{"garbage", "audit", "\x00\xff", "decode record"},
		{"garbage under a hash", Digest([]byte("x")), "y", "but its key is"},
		{"part of nothing", Digest(nil), "", "part has 0 bytes, want 1 to 524288"},
		{"part of too much", Digest(make([]byte, PartBytes+1)), string(make([]byte, PartBytes+1)), "part has 524289 bytes"},
		{"part again", Digest([]byte("usage")), "usage", "part exists already, at offset 3"},
		{"key of another kind", "policy", text, `kind is "audit", want the message's key "policy"`},
		{"two records", "audit", text + text, "want one JSON value"},
		{"spaces", "audit", text + " ", "is not canonical JSON"},
		{"a field twice", "audit", strings.Replace(text, `"who"`, `"who":"b","who"`, 1), "is not canonical JSON"},
		{"a field in capitals", "audit", strings.Replace(text, `"who"`, `"WHO"`, 1), "is not canonical JSON"},
		{"a field twice in the body", "audit", strings.Replace(text, `"subject"`, `"action":"b","subject"`, 1), "is not canonical JSON"},
		{"null for a body", "audit", changed(func(r *Record) { r.Body = json.RawMessage("null") }), "is not canonical JSON"},
		{"no UTF-8", "audit", strings.Replace(text, "read", "re\xffad", 1), "is not canonical JSON"},
		{"format of tomorrow", "audit", changed(func(r *Record) { r.Format = 2 }), "format is 2, want 1"},
		{"no key", "audit", changed(func(r *Record) { r.Key = "" }), `key is ""`},
		{"long key", "audit", changed(func(r *Record) { r.Key = strings.Repeat("k", 201) }), "(201 bytes), want 1 to 200 printable characters"},
		{"key with a bell", "audit", changed(func(r *Record) { r.Key = "\a" }), `key is "\a"`},
		{"no request", "audit", changed(func(r *Record) { r.Request = "" }), "request is"},
		{"request in capitals", "audit", changed(func(r *Record) { r.Request = strings.ToUpper(r.Request) }), "want a SHA-256 in 64 lower-case"},
		{"nobody", "audit", changed(func(r *Record) { r.Who = "" }), `who is ""`},
		{"no id", "audit", changed(func(r *Record) { r.ID = "" }), `id is ""`},
		{"no time", "audit", changed(func(r *Record) { r.At = time.Time{} }), "want a time in UTC"},
	} {
		f := prepared(t)
		before := view(f.state)
		out := f.apply(wireMessage{[]byte(test.key), []byte(test.value)})
		if test.want == "" {
			f.must(out)
			continue
		}
		if out.Accepted || !strings.Contains(out.Reason, test.want) {
			t.Errorf("%s: accepted %v, reason %q, want %q", test.name, out.Accepted, out.Reason, test.want)
		}
		if diff := cmp.Diff(before, view(f.state)); diff != "" {
			t.Errorf("%s: was refused and changed the state (-before +after):\n%s", test.name, diff)
		}
	}
}

// TestTheFirstOfAKeyWins: the same request repeats it, another is refused, and a
// record that was refused for another reason takes no key.
func TestTheFirstOfAKeyWins(t *testing.T) {
	f := prepared(t)
	wrong := invoiceOf("ml")
	wrong.Usage = documentOf("nowhere")
	if out := f.apply(messageOf(t, recordOf(t, KindInvoice, "order 7", "carol", wrong))); out.Accepted {
		t.Fatal("an invoice without its parts was accepted")
	}
	first := f.must(f.apply(messageOf(t, recordOf(t, KindInvoice, "order 7", "carol", invoiceOf("ml")))))
	again := recordOf(t, KindInvoice, "order 7", "carol", invoiceOf("ml"))
	again.ID, again.At = "another", at(9)
	want := Outcome{Offset: first.Offset + 1, Reason: "repeats the request at offset 10", Repeats: 10, Kind: KindInvoice, Number: "2026-10-ml-r0"}
	if diff := cmp.Diff(want, f.apply(messageOf(t, again))); diff != "" {
		t.Errorf("repeated (-want +got):\n%s", diff)
	}
	for name, other := range map[string]Record{
		"another tenant": recordOf(t, KindInvoice, "order 7", "carol", invoiceOf("web")),
		"another kind":   {Format: 1, Kind: KindAudit, ID: "x", Key: "order 7", Request: again.Request, Who: "carol", At: start, Body: recordOf(t, KindAudit, "x", "x", Audit{Action: "read"}).Body},
	} {
		if out := f.apply(messageOf(t, other)); out.Accepted || out.Repeats >= 0 || out.Reason != `key "order 7" was used at offset 10 for another request` {
			t.Errorf("%s under a used key: %+v", name, out)
		}
	}
	used, ok := f.state.Used("order 7")
	if !ok || used.Offset != 10 || used.Number != "2026-10-ml-r0" {
		t.Errorf("Used = %+v, %v", used, ok)
	}
}

// view is all that a state tells, without where things lie.
func view(s *State) map[string]any {
	out := map[string]any{
		"books": s.Books(), "freezes": s.Freezes(), "invoices": s.Invoices(), "mappings": s.Mappings(), "policies": s.policies,
		"unfrozen": s.Unfrozen(at(-100), at(1000)),
	}
	for _, tenant := range []string{"ml", "web", "api"} {
		zone, _ := s.TimeZone(tenant)
		out[tenant] = []any{zone, s.Revisions(tenant, "2026-10"), s.Approvals(Number("2026-10", tenant, 0))}
	}
	force, ok := s.BookInForce()
	out["in force"] = []any{force.Body.SHA256, ok}
	for data := range map[string]bool{"frozen": true, "content": true, "usage": true, "nowhere": true} {
		_, out["part "+data] = s.parts[Digest([]byte(data))]
	}
	marks := map[Target]string{}
	for target, m := range s.findings.targets {
		m.offset = 0 // as of whereabouts
		marks[target] = fmt.Sprint(m)
	}
	out["keys"], out["findings"] = len(s.keys), marks
	return out
}

var whereabouts = cmp.FilterPath(func(p cmp.Path) bool {
	last := p.Last().String()
	return last == ".Offset" || last == ".Appended"
}, cmp.Ignore())

// TestDuplicatesChangeNothingButTheChain: any number of copies of any messages,
// anywhere behind the first.
func TestDuplicatesChangeNothingButTheChain(t *testing.T) {
	f := prepared(t)
	first := invoiceOf("ml")
	f.must(f.record(KindInvoice, "carol", first))
	f.record(KindInvoice, "dave", first) // refused
	f.must(f.record(KindNote, "carol", noteOf(first, "-3")))
	f.must(f.record(KindApproval, "dave", Approval{Subject: "2026-10-web-r0", Content: Digest([]byte("content"))}))
	f.must(f.record(KindInvoice, "carol", invoiceOf("web")))
	f.must(f.record(KindPriceBook, "alice", bookOf("currency: USD\n")))
	f.must(f.record(KindMapping, "alice", Mapping{Epoch: 1, SHA256: Digest([]byte("m")), Text: "m", Effective: at(0)}))
	f.must(f.record(KindAudit, "alice", Audit{Action: "x", Detail: "known\nand wanted"}))
	for _, action := range []string{FindingJudge, FindingClear, FindingMute, FindingAck} {
		f.must(f.record(KindFinding, "ann", findingOf(action)))
	}
	f.apply(wireMessage{[]byte("junk"), []byte("junk")})
	f.must(f.record(KindPriceBook, "alice", bookOf(bookText))) // back in force
	want := view(f.state)
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := NewState()
		apply := func(m wireMessage) { s.Apply(s.Next(), appendedAt(s.Next()), m.key, m.value) }
		for i, m := range f.msgs {
			for random.IntN(3) == 0 && i > 0 {
				apply(f.msgs[random.IntN(i)])
			}
			for range 1 + random.IntN(2) {
				apply(m)
			}
		}
		if diff := cmp.Diff(want, view(s), whereabouts, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d: %d messages for %d (-want +got):\n%s", seed, s.Next(), len(f.msgs), diff)
		}
		if s.Next() > int64(len(f.msgs)) && s.Chain() == f.state.Chain() {
			t.Errorf("seed %d: the chain tells nothing of %d copies", seed, s.Next()-int64(len(f.msgs)))
		}
	}
}

// TestChainTellsEveryByte: one bit in any byte of key or value, two messages
// swapped, one left out.
func TestChainTellsEveryByte(t *testing.T) {
	f := prepared(t)
	f.must(f.record(KindInvoice, "carol", invoiceOf("ml")))
	chain := func(msgs []wireMessage) string {
		var link [32]byte
		for i, m := range msgs {
			link = Link(link, int64(i), m.key, m.value)
		}
		return hex.EncodeToString(link[:])
	}
	want := f.state.Chain()
	if got := chain(f.msgs); got != want {
		t.Fatalf("chain of the messages is %s, the fold's %s", got, want)
	}
	tried := 0
	for i := range f.msgs {
		for _, field := range []*[]byte{&f.msgs[i].key, &f.msgs[i].value} {
			for j := range *field {
				(*field)[j] ^= 1 << (tried % 8)
				if chain(f.msgs) == want {
					t.Errorf("message %d: byte %d was altered, the chain is the same", i, j)
				}
				(*field)[j] ^= 1 << (tried % 8)
				tried++
			}
		}
		if i > 0 {
			f.msgs[i-1], f.msgs[i] = f.msgs[i], f.msgs[i-1]
			if chain(f.msgs) == want {
				t.Errorf("messages %d and %d were swapped, the chain is the same", i-1, i)
			}
			f.msgs[i-1], f.msgs[i] = f.msgs[i], f.msgs[i-1]
		}
	}
	if chain(f.msgs[:len(f.msgs)-1]) == want || tried < 2000 {
		t.Errorf("%d bytes tried, or the last message doesn't count", tried)
	}
}

// TestAccessorsGiveCopies: what is done to them is not done to the state.
func TestAccessorsGiveCopies(t *testing.T) {
	f := prepared(t)
	f.must(f.record(KindInvoice, "carol", invoiceOf("ml")))
	want := view(f.state)
	f.state.Books()[0].Body.Name = "x"
	f.state.Freezes()[0].Body.Copy.Parts[0] = "x"
	f.state.Invoices()[0].Body.Content.Parts[0] = "x"
	f.state.Revisions("ml", "2026-10")[0].Body.Usage.Parts[0] = "x"
	i, _ := f.state.Invoice("2026-10-ml-r0")
	i.Body.Content.Parts[0] = "x"
	if diff := cmp.Diff(want, view(f.state)); diff != "" {
		t.Errorf("the state changed (-want +got):\n%s", diff)
	}
}

func TestUnfrozen(t *testing.T) {
	f := prepared(t)
	f.must(f.record(KindFreeze, "billing", freezeOf(800, 801)))
	for _, test := range []struct{ from, to int }{{0, 744}, {100, 600}, {800, 801}} {
		if gaps := f.state.Unfrozen(at(test.from), at(test.to)); gaps != nil {
			t.Errorf("[%d, %d): %v", test.from, test.to, gaps)
		}
	}
	want := []Span{{at(-5), at(0)}, {at(744), at(800)}, {at(801), at(803)}}
	if diff := cmp.Diff(want, f.state.Unfrozen(at(-5), at(803))); diff != "" {
		t.Errorf("Unfrozen (-want +got):\n%s", diff)
	}
}

// FuzzApply: nothing that lies in the topic stops the fold, and what is accepted
// decodes again.
func FuzzApply(f *testing.F) {
	seed := prepared(f)
	seed.must(seed.record(KindInvoice, "carol", invoiceOf("ml")))
	seed.must(seed.record(KindNote, "carol", noteOf(invoiceOf("ml"), "-1")))
	for _, m := range seed.msgs {
		f.Add(m.key, m.value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		s := prepared(t).state
		before := view(s)
		var out Outcome
		costtest.Within(t, costtest.Time, 64<<20+256*uint64(len(value)), func() { out = s.Apply(s.Next(), at(0), key, value) })
		if !out.Accepted {
			if diff := cmp.Diff(before, view(s)); diff != "" {
				t.Errorf("refused with %q and changed the state:\n%s", out.Reason, diff)
			}
			return
		}
		if out.Kind == KindPart {
			return
		}
		r, _, err := decode(Kind(key), value)
		if err != nil || string(r.Kind) != string(key) {
			t.Errorf("accepted, and decode gives %q, %v", r.Kind, err)
		}
	})
}

// BenchmarkFold folds records such as an auditor's, invoices among them.
func BenchmarkFold(b *testing.B) {
	f := prepared(b)
	var msgs []wireMessage
	bytes := 0
	for i := range 10_000 {
		m := messageOf(b, recordOf(b, KindAudit, fmt.Sprintf("audit %d", i), "carol", Audit{Action: "read", Subject: "2026-10-ml-r0", Detail: "GET /api/v1/invoices"}))
		if i%10 == 0 {
			m = messageOf(b, recordOf(b, KindInvoice, fmt.Sprintf("invoice %d", i), "carol", invoiceOf(fmt.Sprintf("tenant-%d", i))))
		}
		bytes += len(m.value)
		msgs = append(msgs, m)
	}
	b.ResetTimer()
	for b.Loop() {
		s := NewState()
		for i, m := range append(f.msgs[:len(f.msgs):len(f.msgs)], msgs...) {
			if out := s.Apply(int64(i), start, m.key, m.value); !out.Accepted {
				b.Fatal(out.Reason)
			}
		}
	}
	b.SetBytes(int64(bytes))
	b.ReportMetric(float64(b.N)*float64(len(msgs))/b.Elapsed().Seconds(), "records/s")
}

// TestHeadsOutsideTheLog have no chain.
func TestHeadsOutsideTheLog(t *testing.T) {
	f := prepared(t)
	for offset, known := range map[int64]bool{-1: false, 0: true, f.state.Next() - 1: true, f.state.Next(): false} {
		if head := f.state.HeadAt(offset); head.Offset != offset || (head.Chain != "") != known {
			t.Errorf("HeadAt(%d) = %+v, want a chain: %t", offset, head, known)
		}
	}
}

// TestAppendTimesOfARestoredLog: a header counts only if it is that one, readable, not
// before the message before it and before the broker's own time.
func TestAppendTimesOfARestoredLog(t *testing.T) {
	now, last := at(10), at(5)
	header := func(key, value string) []broker.Header { return []broker.Header{{Key: key, Value: []byte(value)}} }
	ms := func(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }
	for name, c := range map[string]struct {
		headers []broker.Header
		want    time.Time
	}{
		"none":               {nil, now},
		"in between":         {header(appendedHeader, ms(at(6))), at(6)},
		"that of the last":   {header(appendedHeader, ms(last)), last},
		"before the last":    {header(appendedHeader, ms(at(4))), now},
		"after the broker's": {header(appendedHeader, ms(at(11))), now},
		"not a number":       {header(appendedHeader, "x"), now},
		"another header":     {header("appended-by", ms(at(6))), now},
		"a huge number":      {header(appendedHeader, "99999999999999999999"), now},
	} {
		l := &Log{state: NewState(), times: map[int64]time.Time{}, last: last}
		if got := l.appended(&broker.Message{Time: now, Headers: c.headers}); !got.Equal(c.want) {
			t.Errorf("%s: appended %s, want %s", name, got, c.want)
		}
	}
}
