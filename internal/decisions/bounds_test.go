package decisions

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/wire"
)

// Each field at its bounds and beyond them; the error of a body names the field.
func TestFieldsAtTheirBounds(t *testing.T) {
	chars := func(n int) string { return strings.Repeat("ä", n) }
	bytes := func(n int) string { return strings.Repeat("x", n) }
	digests := func(n int) (list []string) {
		for range n {
			list = append(list, Digest(nil))
		}
		return list
	}
	type check struct {
		body  body
		wrong string // the field, as the error has it; empty: it is taken
	}
	var checks []check
	bad := func(b body, field string) { checks = append(checks, check{b, field}) }
	good := func(b body) { checks = append(checks, check{b, ""}) }
	document := func(n int, bytes int64) *Freeze {
		f := freezeOf(0, 1)
		f.Copy = Document{SHA256: Digest([]byte("whole")), Bytes: bytes, Parts: digests(n)}
		return &f
	}
	invoice := func(change func(*Invoice)) *Invoice { i := invoiceOf("ml"); change(&i); return &i }
	note := func(change func(*Invoice)) *Invoice { i := noteOf(invoiceOf("ml"), "-1.00"); change(&i); return &i }
	named := func(tenant string) *Invoice { i := invoiceOf(tenant); return &i }
	book := func(name string, size int) *PriceBook { b := bookOf(bytes(size)); b.Name = name; return &b }
	run := func(change func(*Run)) *Run { r := runOf("r"); change(&r); return &r }
	approval := func(change func(*Approval)) *Approval {
		a := Approval{Subject: "s", Content: Digest(nil)}
		change(&a)
		return &a
	}

	good(book("n", 1))
	bad(book("n", 0), "text")
	good(book("n", maxBook))
	bad(book("n", maxBook+1), "text")
	bad(book("", 1), "name")
	good(book(chars(200), 1))
	bad(book(chars(201), 1), "name")
	bad(book("a\x00", 1), "name")
	bad(book("a\xff", 1), "name")
	bad(&PriceBook{Name: "n", Text: "\xff", SHA256: Digest([]byte("\xff"))}, "text")
	bad(&PriceBook{Name: "n", Text: "x", SHA256: Digest(nil)}, "sha256")

	good(document(2, 0))
	good(document(2, 2*PartBytes))
	bad(document(2, 2*PartBytes+1), "bytes")
	bad(document(2, -1), "bytes")
	good(document(4096, 1))
	bad(document(4097, 1), "parts")
	bad(document(1, 1), "sha256") // not that of its only part
	bad(document(0, 0), "parts")  // null
	for _, parts := range [][]string{{""}, {Digest(nil)[1:]}, {strings.ToUpper(Digest(nil))}, {Digest(nil), "x"}} {
		f := freezeOf(0, 1)
		f.Copy.Parts = parts
		bad(&f, fmt.Sprintf("parts[%d]", len(parts)-1))
	}
	empty := freezeOf(0, 1)
	empty.Copy = Document{SHA256: Digest(nil), Parts: []string{}}
	good(&empty)

	span := func(from, to time.Time) *Freeze { f := freezeOf(0, 1); f.From, f.To = from, to; return &f }
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	good(span(year(1970), year(1970).Add(time.Hour)))
	bad(span(year(1970).Add(-time.Hour), year(1970)), "from")
	good(span(year(2106).Add(-2*time.Hour), year(2106).Add(-time.Hour)))
	bad(span(year(2106).Add(-time.Hour), year(2106)), "to")
	bad(span(at(0), at(0)), "to")
	bad(span(at(1), at(0)), "to")
	bad(span(at(0).Add(time.Nanosecond), at(1)), "from")
	bad(span(at(0), at(1).Add(time.Minute)), "to")
	bad(span(at(0).In(time.FixedZone("", 3600)), at(1)), "from")

	good(named("t"))
	bad(named(""), "tenant")
	good(named(bytes(400)))
	bad(named(bytes(401)), "tenant")
	bad(named("\xff"), "tenant")
	for _, currency := range []string{"", "EU", "EURO", "eur"} {
		bad(invoice(func(i *Invoice) { i.Currency = currency }), "currency")
	}
	for total, field := range map[string]string{
		"0": "", "-0.000000001": "", "1.123456789": "", bytesOf('9', 29): "",
		"": "total", "1.1234567891": "total", bytesOf('9', 30): "total", "-0": "total", "-0.00": "total", "01": "total", "1.": "total", "1e3": "total", "NaN": "total",
	} {
		checks = append(checks, check{invoice(func(i *Invoice) { i.Total = total }), field})
	}
	bad(invoice(func(i *Invoice) { i.GPUHours = "x" }), "gpu_hours")
	bad(invoice(func(i *Invoice) { i.Content = empty.Copy }), "content")
	good(invoice(func(i *Invoice) { i.Usage = empty.Copy }))
	bad(invoice(func(i *Invoice) { i.Approval = chars(201) }), "approval")
	good(invoice(func(i *Invoice) { i.Approval = chars(200) }))
	bad(invoice(func(i *Invoice) { i.TimeZone = "" }), "time_zone")
	bad(invoice(func(i *Invoice) { i.PriceBook = "" }), "price_book")
	for _, period := range []string{"", "2026", "2026-13", "2026-1", "1969-12"} {
		bad(invoice(func(i *Invoice) { i.Period = period; i.Number = Number(period, i.Tenant, 0) }), "period")
	}
	good(invoice(func(i *Invoice) { i.Period = "1970-01"; i.Number = Number("1970-01", i.Tenant, 0) }))
	bad(invoice(func(i *Invoice) { i.Revision = 1; i.Number = Number(i.Period, i.Tenant, 1) }), "revision")
	bad(invoice(func(i *Invoice) { i.Corrects = "x" }), "corrects")
	bad(invoice(func(i *Invoice) { i.Before = "x" }), "before")
	bad(invoice(func(i *Invoice) { i.BilledIn = "2026-10" }), "billed_in")
	bad(invoice(func(i *Invoice) { i.Reason = "x" }), "reason")

	good(note(func(*Invoice) {}))
	bad(note(func(i *Invoice) { i.Revision = 0; i.Number = Number(i.Period, i.Tenant, 0) }), "revision")
	good(note(func(i *Invoice) { i.BilledIn = i.Period }))
	bad(note(func(i *Invoice) { i.BilledIn = "2026-09" }), "billed_in")
	bad(note(func(i *Invoice) { i.BilledIn = "" }), "billed_in")
	bad(note(func(i *Invoice) { i.Reason = "" }), "reason")
	good(note(func(i *Invoice) { i.Reason = "tabs\tand\nlines" + bytes(4096-14) }))
	bad(note(func(i *Invoice) { i.Reason = bytes(4097) }), "reason")
	bad(note(func(i *Invoice) { i.Reason = "\a" }), "reason")
	bad(note(func(i *Invoice) { i.Reason = "\xff" }), "reason")
	bad(note(func(i *Invoice) { i.Before = "" }), "before")
	for total, kind := range map[string]string{"-1": CreditNoteKind, "0": CreditNoteKind, "0.01": DebitNoteKind} {
		good(note(func(i *Invoice) { i.Total, i.Kind = total, kind }))
		other := map[string]string{CreditNoteKind: DebitNoteKind, DebitNoteKind: CreditNoteKind}[kind]
		bad(note(func(i *Invoice) { i.Total, i.Kind = total, other }), "kind")
	}

	good(approval(func(*Approval) {}))
	good(approval(func(a *Approval) { a.Subject = bytes(4096) }))
	bad(approval(func(a *Approval) { a.Subject = bytes(4097) }), "subject")
	bad(approval(func(a *Approval) { a.Subject = "" }), "subject")
	bad(approval(func(a *Approval) { a.Subject = "\xff" }), "subject")
	bad(approval(func(a *Approval) { a.Content = "" }), "content")
	bad(approval(func(a *Approval) { a.Comment = "\x00" }), "comment")
	good(approval(func(a *Approval) { a.Total, a.Currency = "1", "EUR" }))
	bad(approval(func(a *Approval) { a.Total = "1" }), "currency")
	bad(approval(func(a *Approval) { a.Currency = "EUR" }), "total")

	mapping := func(text string, at time.Time) *Mapping {
		return &Mapping{SHA256: Digest([]byte(text)), Text: text, Effective: at}
	}
	good(mapping("", at(0).Add(time.Second)))
	good(mapping(bytes(maxBook), at(0)))
	bad(mapping(bytes(maxBook+1), at(0)), "text")
	bad(mapping("", time.Time{}), "effective")

	good(&Audit{Action: "a"})
	bad(&Audit{}, "action")
	bad(&Audit{Action: "a", Subject: bytes(4097)}, "subject")
	bad(&Audit{Action: "a", Detail: bytes(4097)}, "detail")

	persons := func(n int) *Policy {
		p := &Policy{Approvers: []string{}}
		for i := range n {
			p.Approvers = append(p.Approvers, fmt.Sprint("p", i))
		}
		return p
	}
	good(persons(100))
	bad(persons(101), "approvers")
	bad(&Policy{}, "approvers")
	bad(&Policy{Revision: -1, Approvers: []string{}}, "revision")
	bad(&Policy{Approvers: []string{"a", "A"}}, "approvers")
	bad(&Policy{Approvers: []string{""}}, "approvers")
	bad(&Policy{Approvers: []string{"a"}, Approvals: true}, "approvers")
	good(&Policy{Approvers: []string{"a", "b"}, Approvals: true})
	good(&Policy{Approvers: []string{}, Approvals: true})

	for ms, taken := range map[int64]bool{
		0: false, -1000: false, 999: false, 1000: true, 1500: false, 7000: false, 9000: true, 10_000: true, 3_600_000: true, 7_200_000: false,
	} {
		field := "slot_ms"
		if taken {
			field = ""
		}
		checks = append(checks, check{&Cluster{Name: "c", SlotMS: ms}, field}, check{run(func(r *Run) { r.SlotMS = ms }), field})
	}
	bad(&Cluster{SlotMS: 1000}, "name")
	good(run(func(r *Run) { r.Hours = 1 }))
	bad(run(func(r *Run) { r.Hours = 0 }), "hours")
	good(run(func(r *Run) { r.Hours = 744 }))
	bad(run(func(r *Run) { r.Hours = 745 }), "hours")
	bad(run(func(r *Run) { r.To = r.From }), "to")
	good(run(func(r *Run) { r.To = r.From.Add(1) }))
	bad(run(func(r *Run) { r.From = time.Time{} }), "from")
	bad(run(func(r *Run) { r.ID = "" }), "id")
	bad(run(func(r *Run) { r.Cluster = "" }), "cluster")
	bad(run(func(r *Run) { r.Collector = "" }), "collector")
	for _, sends := range []string{wire.SendsImport, wire.SendsReplay, wire.SendsSimulated, wire.SendsFill} {
		good(run(func(r *Run) { r.Sends = sends }))
	}
	bad(run(func(r *Run) { r.Sends = "" }), "sends")
	bad(&RunEnd{}, "id")

	finding := func(change func(*Finding)) *Finding { f := findingOf(FindingMute); change(&f); return &f }
	for _, action := range []string{FindingAck, FindingMute, FindingJudge, FindingClear} {
		good(finding(func(f *Finding) { *f = findingOf(action) }))
		bad(finding(func(f *Finding) { *f = findingOf(action); f.Target = Target{} }), "id")
		bad(finding(func(f *Finding) { *f = findingOf(action); f.Verdict = "x" }), "verdict")
		if action != FindingMute {
			bad(finding(func(f *Finding) { *f = findingOf(action); f.Until = at(1) }), "until")
			bad(finding(func(f *Finding) { *f = findingOf(action); f.Owner = "ann" }), "owner")
		}
	}
	bad(finding(func(f *Finding) { f.Action = "Ack" }), "action")
	for _, id := range []string{bytes(31), bytes(32), strings.Repeat("A", 32), strings.Repeat("a", 33)} {
		bad(finding(func(f *Finding) { f.ID = id }), "id")
	}
	good(finding(func(f *Finding) { f.Target = Target{Kind: "a" + strings.Repeat("_9", 31) + "z"} }))
	for _, kind := range []string{"a" + strings.Repeat("x", 64), "Idle", "9", "a b", "é"} {
		bad(finding(func(f *Finding) { f.Kind = kind }), "kind")
	}
	for field, to := range map[string]func(*Finding) *string{
		"tenant":   func(f *Finding) *string { return &f.Tenant },
		"project":  func(f *Finding) *string { return &f.Project },
		"workload": func(f *Finding) *string { return &f.Workload },
	} {
		good(finding(func(f *Finding) { f.Target = Target{}; *to(f) = bytes(400) }))
		bad(finding(func(f *Finding) { f.Target = Target{}; *to(f) = bytes(401) }), field)
		bad(finding(func(f *Finding) { *to(f) = "\xff" }), field)
	}
	for field, to := range map[string]func(*Finding) *string{
		"owner":  func(f *Finding) *string { return &f.Owner },
		"reason": func(f *Finding) *string { return &f.Reason },
	} {
		good(finding(func(f *Finding) { *to(f) = chars(200) }))
		for _, text := range []string{"", chars(201), "a\nb", "a\xff"} {
			bad(finding(func(f *Finding) { *to(f) = text }), field)
		}
	}
	for _, field := range []func(*Finding) *string{
		func(f *Finding) *string { return &f.Tenant }, func(f *Finding) *string { return &f.Project },
		func(f *Finding) *string { return &f.Workload },
	} {
		bad(finding(func(f *Finding) { *field(f) = "x" }), "with an id")
	}
	bad(finding(func(f *Finding) { f.Until = time.Time{} }), "until")
	for _, action := range []string{FindingAck, FindingJudge} {
		bad(finding(func(f *Finding) { *f = findingOf(action); f.ID = "" }), "id")
	}
	bad(finding(func(f *Finding) { *f = findingOf(FindingJudge); f.Kind = "" }), "kind")
	good(finding(func(f *Finding) { *f = findingOf(FindingAck); f.Kind = "" }))
	for _, verdict := range []string{VerdictUseful, VerdictFalse, VerdictPlanned} {
		good(finding(func(f *Finding) { *f = findingOf(FindingJudge); f.Verdict = verdict }))
	}
	bad(finding(func(f *Finding) { *f = findingOf(FindingJudge); f.Verdict = "" }), "verdict")

	for i, c := range checks {
		err := c.body.check()
		if c.wrong == "" {
			if err != nil {
				t.Errorf("check %d: %v", i, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.wrong) ||
			strings.HasPrefix(err.Error(), kindOf(c.body)+": ") {
			t.Errorf("check %d, %T: error %v, want it to name %s, and to leave the kind to decode", i, c.body, err, c.wrong)
		}
	}
	if err := (Run{Cluster: "c", SlotMS: 1000, Sends: wire.SendsImport, Collector: "c", From: at(0), To: at(1), Hours: 1}).Check(); err != nil {
		t.Errorf("a run whose id is yet to be made: %v", err)
	}
	if err := runOf("").Check(); err != nil {
		t.Error(err)
	}
}

func bytesOf(c byte, n int) string { return strings.Repeat(string(c), n) }

func TestConfigBounds(t *testing.T) {
	for n, taken := range map[int]bool{-1: false, 0: false, 1: true, 2000: true, 2001: false} {
		if err := (Config{PriceBooksPerDay: n}).Validate(); (err == nil) != taken {
			t.Errorf("%d price books a day: %v", n, err)
		}
	}
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	if err := (Config{PriceBooksPerDay: 1, Witness: WitnessConfig{Required: true}}).Validate(); err == nil {
		t.Error("a witness that can't work is taken")
	}
	for _, w := range []WitnessConfig{
		{}, {File: "f"}, {File: "f", Required: true}, {Syslog: "s", Required: true}, {HTTPS: "https://h/x", Required: true, CAFile: "c", TokenFile: "t"},
	} {
		if err := w.Validate(); err != nil {
			t.Errorf("%+v: %v", w, err)
		}
	}
	if err := (WitnessConfig{TokenFile: "t"}).Validate(); err == nil {
		t.Error("a token for nobody is taken")
	}
	for kind, want := range map[Kind]int{
		KindPriceBook: 10, KindPolicy: 20, KindInvoice: 20_000, KindNote: 20_000, KindApproval: 20_000, KindAudit: 2_000, KindRun: 2_000,
		KindFinding: 2_000,
	} {
		if got := (&Options{}).quota(kind); got != want {
			t.Errorf("quota of %s is %d, want %d", kind, got, want)
		}
	}
	for n, want := range map[int]int{0: 10, 1: 1, 2: 2} {
		if got := (&Options{PriceBooksPerDay: n}).quota(KindPriceBook); got != want {
			t.Errorf("quota of price books is %d, want %d", got, want)
		}
	}
}

// What is forgotten is a day old, or more than any quota asks for.
func TestRecentIsADay(t *testing.T) {
	var r recent
	for n := range 10 {
		r = r.and(at(n * 4))
	}
	if len(r) != 6 || !r[0].Equal(at(16)) || !r[5].Equal(at(36)) {
		t.Errorf("every four hours: %d are kept from %v to %v, want 6 from hour 16 on", len(r), r[0], r[len(r)-1])
	}
	r = nil
	for n := range dailyInvoices + 3 {
		r = r.and(start.Add(time.Duration(n)))
	}
	if len(r) != dailyInvoices || !r[0].Equal(start.Add(3)) {
		t.Errorf("of many at once %d are kept", len(r))
	}
}

// Two invoices of a tenant may touch, and not overlap by an hour.
func TestInvoicesMayTouch(t *testing.T) {
	for name, c := range map[string]struct {
		from, to int
		period   string
		taken    bool
	}{
		"after":                {744, 745, "2026-11", true},
		"before":               {-2, 0, "2026-09", true},
		"its last hour":        {743, 745, "2026-11", false},
		"its first hour":       {-2, 1, "2026-09", false},
		"within":               {5, 6, "2026-11", false},
		"before, of a later":   {-2, 0, "2026-11", true},
		"around, in one month": {-1, 745, "2026-11", false},
	} {
		f := prepared(t)
		f.must(f.record(KindFreeze, "billing", freezeOf(-2, 0)))
		f.must(f.record(KindFreeze, "billing", freezeOf(744, 746)))
		f.must(f.record(KindInvoice, "carol", invoiceOf("ml")))
		second := invoiceOf("ml")
		second.Period, second.Number, second.From, second.To = c.period, Number(c.period, "ml", 0), at(c.from), at(c.to)
		if out := f.record(KindInvoice, "carol", second); out.Accepted != c.taken {
			t.Errorf("%s: accepted %v, %s", name, out.Accepted, out.Reason)
		}
		third := second
		third.Period, third.Number, third.TimeZone = "2027-01", Number("2027-01", "ml", 0), "UTC"
		if out := f.record(KindInvoice, "carol", third); out.Accepted || !strings.Contains(out.Reason, "time zone") {
			t.Errorf("%s: a third of another zone: %+v", name, out)
		}
	}
}

// The cost of a message is bounded: at the bound it is read, beyond it is not.
func TestMessagesAtTheirBounds(t *testing.T) {
	for kind, limit := range map[Kind]int{KindAudit: 1 << 20, KindInvoice: 1 << 20, KindPriceBook: 6<<20 + 64<<10, KindMapping: 6<<20 + 64<<10} {
		s := NewState()
		atLimit := s.Apply(0, start, []byte(kind), make([]byte, limit))
		beyond := s.Apply(1, start, []byte(kind), make([]byte, limit+1))
		if atLimit.Accepted || beyond.Accepted || strings.Contains(atLimit.Reason, "bytes, want at most") || !strings.Contains(beyond.Reason, "bytes, want at most") {
			t.Errorf("%s of %d bytes: %q; one more: %q", kind, limit, atLimit.Reason, beyond.Reason)
		}
	}
	s := NewState()
	part := make([]byte, PartBytes)
	if out := s.Apply(0, start, []byte(Digest(part)), part); !out.Accepted {
		t.Errorf("the largest part: %s", out.Reason)
	}
	if out := s.Apply(1, start, []byte(Digest(part[:1])), part[:1]); !out.Accepted {
		t.Errorf("the smallest part: %s", out.Reason)
	}
	for n, want := range map[int]int{maxReasonBytes: maxReasonBytes, maxReasonBytes + 1: maxReasonBytes + len("... (8193 bytes)")} {
		if got := len(brief(bytesOf('x', n))); got != want {
			t.Errorf("a reason of %d bytes is kept in %d, want %d", n, got, want)
		}
	}
	for n, want := range map[int]string{80: `"` + bytesOf('x', 80) + `"`, 81: `"` + bytesOf('x', 80) + `"... (81 bytes)`} {
		if got := shown(bytesOf('x', n)); got != want {
			t.Errorf("%d bytes are shown as %s", n, got)
		}
	}
}

// kindOf is the kind of a record with such a body, in words.
func kindOf(b body) string {
	for kind, empty := range newBody {
		if reflect.TypeOf(empty()) == reflect.TypeOf(b) {
			return strings.ReplaceAll(string(kind), "_", " ")
		}
	}
	return ""
}
