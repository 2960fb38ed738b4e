package projection

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
)

var start = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func testContext(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	tb.Cleanup(cancel)
	return ctx
}

// scene is a log with decisions of every kind.
type scene struct {
	t      *testing.T
	addr   string
	client *broker.Client
	log    *decisions.Log
}

func newScene(t *testing.T) *scene {
	t.Helper()
	e, err := broker.StartEmbedded(broker.EmbeddedOptions{Dir: t.TempDir(), Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	s := &scene{t: t, addr: e.Addr()}
	s.client = broker.NewClient(broker.Config{Brokers: []string{e.Addr()}}, quiet())
	t.Cleanup(s.client.Close)
	if s.log, err = decisions.Open(testContext(t), s.client, decisions.Options{}); err != nil {
		t.Fatal(err)
	}
	s.append(decisions.KindPriceBook, "book", &decisions.PriceBook{SHA256: bookHash, Name: "prices.yaml", Text: bookText})
	s.append(decisions.KindFreeze, "freeze", &decisions.Freeze{From: start, To: start.Add(744 * time.Hour), PriceBook: bookHash, Copy: s.put("frozen")})
	return s
}

const bookText = "currency: EUR # <&>\n"

var bookHash = decisions.Digest([]byte(bookText))

func (s *scene) put(data string) decisions.Document {
	s.t.Helper()
	d, err := s.log.Put(testContext(s.t), []byte(data))
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *scene) append(kind decisions.Kind, key string, body any) decisions.Outcome {
	s.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := s.log.Append(testContext(s.t), kind, key, decisions.Digest(text), "carol", body)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// copyOf is a copy of usage: two rows in each of n hours, and what was decided.
func copyOf(n int, sliceMS int64) string {
	var b strings.Builder
	b.WriteString(`["copy",1]` + "\n")
	for i := range n {
		hour := start.Add(time.Duration(i) * time.Hour).Format(time.RFC3339)
		fmt.Fprintf(&b, `["usage",%q,"vision","H100","1g.10gb",1,7,"active",%d,1200]`+"\n", hour, sliceMS)
		fmt.Fprintf(&b, `["usage",%q,"","H100","",0,7,"idle",%d,0]`+"\n", hour, 7*sliceMS)
		fmt.Fprintf(&b, `["distribution",%q,"0.000000001"]`+"\n"+`["supplied",%q,"H100"]`+"\n", hour, hour)
	}
	return b.String()
}

func (s *scene) invoiceOf(tenant, total string, usage decisions.Document) decisions.Invoice {
	return decisions.Invoice{
		Number: decisions.Number("2026-10", tenant, 0), Kind: decisions.InvoiceKind, Tenant: tenant, Period: "2026-10",
		TimeZone: "Europe/Berlin", From: start, To: start.Add(744 * time.Hour), Currency: "EUR", Total: total, GPUHours: "12.123456789",
		PriceBook: bookHash, Content: s.put(`{"tenant":"` + tenant + `"}`), Usage: usage, Epoch: 3, Inputs: 1 << 63,
	}
}

func (s *scene) noteOn(i decisions.Invoice, total string, usage decisions.Document) decisions.Invoice {
	n := i
	n.Revision, n.Kind, n.Total, n.Corrects, n.Before = i.Revision+1, decisions.CreditNoteKind, total, i.Number, i.Content.SHA256
	n.Number, n.BilledIn, n.Reason = decisions.Number(n.Period, n.Tenant, n.Revision), "2026-11", "late\nbatches"
	n.Content, n.Usage = s.put(`{"note":"`+n.Number+`"}`), usage
	return n
}

// fill has two tenants, a note, what was refused, what is no record of ours, and
// one of each other kind.
func (s *scene) fill() {
	s.t.Helper()
	ml := s.invoiceOf("ml", "12345678901234567890123456789.123456789", s.put(copyOf(30, 3_600_000)))
	s.append(decisions.KindInvoice, "ml", &ml)
	s.append(decisions.KindInvoice, "ml again", &ml)
	note := s.noteOn(ml, "-0.01", s.put(copyOf(29, 1)))
	s.append(decisions.KindNote, "note", &note)
	none := s.invoiceOf("nothing 'to' \\ see", "0", s.put(""))
	s.append(decisions.KindInvoice, "none", &none)
	s.append(decisions.KindApproval, "approval", &decisions.Approval{Subject: "2026-11-ml-r0", Content: bookHash, Comment: "yes"})
	s.append(decisions.KindCluster, "cluster", &decisions.Cluster{Name: "prod", SlotMS: 10_000})
	s.append(decisions.KindMapping, "mapping", &decisions.Mapping{Epoch: 1, SHA256: bookHash, Text: bookText, Effective: start})
	s.append(decisions.KindAudit, "audit", &decisions.Audit{Action: "read", Subject: "2026-10-ml-r0"})
	s.append(decisions.KindAudit, "audit", &decisions.Audit{Action: "read", Subject: "2026-10-ml-r0"})
	if err := s.client.Producer().Produce(testContext(s.t), []broker.Message{{Topic: broker.TopicDecisions, Value: []byte("\xffjunk")}}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) projection(db *store.DB) *Projection {
	return New(Deps{Decisions: s.log, DB: db, Log: quiet()})
}

func project(t *testing.T, p *Projection) int64 {
	t.Helper()
	n, err := p.Project(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// rowsOf is all that is in the tables, one text per row.
func rowsOf(t *testing.T, db *store.DB) (all []string) {
	t.Helper()
	for _, sql := range []string{
		"SELECT toString(tuple(*)) AS row FROM decisions FINAL ORDER BY offset",
		"SELECT toString(tuple(*)) AS row FROM invoices FINAL ORDER BY period, tenant, revision",
		"SELECT toString(tuple(*)) AS row FROM invoice_usage FINAL ORDER BY period, tenant, revision, hour, project, model, profile, bucket",
	} {
		var rows []struct {
			Row string `ch:"row"`
		}
		if err := db.Select(testContext(t), &rows, sql); err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			all = append(all, r.Row)
		}
	}
	return all
}

func checked(t *testing.T, p *Projection) check.Result {
	t.Helper()
	res, err := p.Checks()[0].Run(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func mustHold(t *testing.T, p *Projection, figures string) {
	t.Helper()
	if res := checked(t, p); !res.OK || res.Figures != figures {
		t.Errorf("check: ok %v, %q, want %q: %s", res.OK, res.Figures, figures, strings.Join(res.Findings, "\n"))
	}
}

// TestProjectingTwiceChangesNothing, nor does a rebuild, and what is new is all
// that is written.
func TestProjectingTwiceChangesNothing(t *testing.T) {
	s, db := newScene(t), storetest.Open(t)
	p := s.projection(db)
	if n := project(t, p); n != 3 {
		t.Errorf("%d messages projected, want 3", n)
	}
	s.fill()
	if n := project(t, p); n != 15 {
		t.Errorf("%d messages projected, want 15", n)
	}
	const figures = "18 of 18 messages are projected, 3 invoices and notes, 118 rows of usage"
	mustHold(t, p, figures)
	want := rowsOf(t, db)
	if n := project(t, p); n != 0 {
		t.Errorf("%d messages projected again", n)
	}
	if n, err := p.remake(testContext(t)); err != nil || n != 18 {
		t.Errorf("Rebuild = %d, %v, want 18", n, err)
	}
	if diff := cmp.Diff(want, rowsOf(t, db)); diff != "" {
		t.Errorf("rows after a rebuild (-before +after):\n%s", diff)
	}
	mustHold(t, p, figures)
	var totals []struct {
		Number string `ch:"number"`
		Total  string `ch:"total"`
	}
	if err := db.Select(testContext(t), &totals, "SELECT number, toString(total) AS total FROM invoices FINAL WHERE tenant = 'ml' ORDER BY revision"); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(totals); got != "[{2026-10-ml-r0 12345678901234567890123456789.123456789} {2026-10-ml-r1 -0.01}]" {
		t.Errorf("totals: %s", got)
	}
	var last []struct {
		Number string `ch:"number"`
		Rows   uint64 `ch:"rows"`
	}
	if err := db.Select(testContext(t), &last, "SELECT number, count() AS rows FROM invoiced_usage GROUP BY number"); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(last); got != "[{2026-10-ml-r1 58}]" {
		t.Errorf("usage of the last revisions: %s", got)
	}
}

// TestMarksOfFindingsAreThoseOfTheLog, as far as they are projected; refused ones don't count.
func TestMarksOfFindingsAreThoseOfTheLog(t *testing.T) {
	s, db := newScene(t), storetest.Open(t)
	of := decisions.Target{ID: strings.Repeat("a", 32), Kind: "idle_allocation", Tenant: "=ml 'x'"}
	now := clock.Real().Now().UTC().Truncate(time.Second)
	mute := decisions.Finding{
		Action: decisions.FindingMute, Target: decisions.Target{Tenant: of.Tenant}, Owner: "ann", Reason: "r", Until: now.Add(time.Hour),
	}
	s.append(decisions.KindFinding, "mute", &mute)
	s.append(decisions.KindFinding, "ack", &decisions.Finding{Action: decisions.FindingAck, Target: decisions.Target{ID: of.ID}})
	p := s.projection(db)
	project(t, p)
	mute.Until = now.Add(-time.Hour)
	if out := s.append(decisions.KindFinding, "over", &mute); out.Accepted {
		t.Fatal("a mute that is over was accepted")
	}
	s.append(decisions.KindFinding, "judge", &decisions.Finding{
		Action: decisions.FindingJudge, Target: decisions.Target{ID: of.ID, Kind: of.Kind}, Verdict: decisions.VerdictUseful,
	})
	for _, judged := range []string{"", decisions.VerdictUseful} {
		findings, err := Findings(testContext(t), db)
		if err != nil {
			t.Fatal(err)
		}
		var want decisions.Marks
		s.log.View(func(state *decisions.State) { want = state.Findings().Marks(of, now) })
		want.Judged = judged
		if diff := cmp.Diff(want, findings.Marks(of, now)); diff != "" || !want.Muted() || want.AcknowledgedBy != "carol" {
			t.Errorf("marks (-log +projection):\n%s", diff)
		}
		project(t, p)
	}
	if res := checked(t, p); !res.OK {
		t.Errorf("check: %v", res.Findings)
	}
}

// TestWhatIsLackingIsWrittenAgain: a projection that broke off anywhere.
func TestWhatIsLackingIsWrittenAgain(t *testing.T) {
	s, db := newScene(t), storetest.Open(t)
	s.fill()
	p := s.projection(db)
	project(t, p)
	want := rowsOf(t, db)
	for name, lost := range map[string]struct{ table, where string }{
		"the last of them":   {tableDecisions, "DELETE WHERE offset >= 9 SETTINGS mutations_sync = 2"},
		"some in the middle": {tableDecisions, "DELETE WHERE offset IN (4, 9) SETTINGS mutations_sync = 2"},
		"all of them":        {tableDecisions, "DELETE WHERE 1 SETTINGS mutations_sync = 2"},
	} {
		if err := db.Alter(testContext(t), lost.table, lost.where); err != nil {
			t.Fatal(err)
		}
		if n := project(t, p); n == 0 {
			t.Errorf("%s: nothing was written", name)
		}
		if diff := cmp.Diff(want, rowsOf(t, db)); diff != "" {
			t.Errorf("%s: rows (-before +after):\n%s", name, diff)
		}
	}
}

// TestRowsOfAnotherLogAreRefused until they are made anew.
func TestRowsOfAnotherLogAreRefused(t *testing.T) {
	s, other, db := newScene(t), newScene(t), storetest.Open(t)
	s.fill()
	project(t, s.projection(db))
	p := other.projection(db)
	if _, err := p.Project(testContext(t)); !errors.Is(err, ErrForeign) {
		t.Errorf("a shorter log: %v", err)
	}
	if res := checked(t, p); res.OK {
		t.Error("the check holds for a shorter log")
	}
	for name, lacking := range map[string]error{"a log beyond its rows": s.projection(db).Whole(testContext(t)), "a shorter log": p.Whole(testContext(t))} {
		if errors.Is(lacking, ErrForeign) != (name == "a shorter log") {
			t.Errorf("%s: Whole = %v", name, lacking)
		}
	}
	other.fill()
	if _, err := p.Project(testContext(t)); !errors.Is(err, ErrForeign) {
		t.Errorf("another log: %v", err)
	}
	if n, err := p.remake(testContext(t)); err != nil || n != 18 {
		t.Errorf("Rebuild = %d, %v", n, err)
	}
	mustHold(t, p, "18 of 18 messages are projected, 3 invoices and notes, 118 rows of usage")
}

// TestM2RebuildHidesNoContradiction: rows that tell of other decisions stay until
// somebody says in his name that they go.
func TestM2RebuildHidesNoContradiction(t *testing.T) {
	s, other, db := newScene(t), newScene(t), storetest.Open(t)
	s.fill()
	project(t, s.projection(db))
	audit := decisions.Audit{Action: "look"}
	other.append(decisions.KindAudit, "something else first", &audit)
	other.fill()
	p := other.projection(db)
	before := rowsOf(t, db)
	var found *ContradictionError
	if _, err := p.Rebuild(testContext(t), "mallory", false); !errors.As(err, &found) || found.Offset != 0 || found.Rows == "" || found.Logs == "" {
		t.Fatalf("Rebuild = %v, want the first offset, 0, with both chains", err)
	}
	if diff := cmp.Diff(before, rowsOf(t, db)); diff != "" {
		t.Errorf("was refused and changed rows (-before +after):\n%s", diff)
	}
	var heads [2]string
	s.log.View(func(state *decisions.State) { heads[0] = state.Head().String() })
	other.log.View(func(state *decisions.State) { heads[1] = state.Head().String() })
	for _, over := range []bool{true, false} {
		if _, err := p.Rebuild(testContext(t), "alice", over); err != nil {
			t.Fatal(err)
		}
	}
	var told []string
	if err := other.log.Walk(testContext(t), 0, func(e decisions.Entry) error {
		if a, ok := e.Body.(*decisions.Audit); ok && a.Action == AuditRebuild {
			told = append(told, e.Record.Who+": "+a.Detail)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(told) != 2 || !strings.HasPrefix(told[0], "alice: ") || !strings.Contains(told[0], heads[0]) || !strings.Contains(told[0], heads[1]) ||
		!strings.Contains(told[0], "from offset 0 on") || strings.Contains(told[1], "differ") {
		t.Errorf("the decisions tell %q, want both rebuilds, the first over the contradiction", told)
	}
	if res := checked(t, p); !res.OK {
		t.Errorf("after the rebuild: %+v", res)
	}
}

// TestTheCheckNamesWhatWasChanged in each table.
func TestTheCheckNamesWhatWasChanged(t *testing.T) {
	s, db := newScene(t), storetest.Open(t)
	s.fill()
	p := s.projection(db)
	for _, test := range []struct{ name, table, change, want string }{
		{"a body", tableDecisions, "UPDATE body = replace(body, 'carol', 'dave'), who = 'dave' WHERE kind = 'cluster'", "decisions: 13: who is dave, want carol"},
		{"an outcome", tableDecisions, "UPDATE accepted = 1 WHERE kind = 'invoice' AND accepted = 0", "decisions: 6: accepted is 1, want 0"},
		{"a message less", tableDecisions, "DELETE WHERE kind = 'cluster'", "decisions: 17 rows, want 18"},
		{"a total", tableInvoices, "UPDATE total = total - toDecimal128('0.000000001', 9) WHERE revision = 0", "invoices: 2026-10-ml-r0: total is"},
		{"a document", tableInvoices, "UPDATE document = '{}' WHERE revision = 1", "invoices: 2026-10-ml-r1: document is"},
		{"an invoice less", tableInvoices, "DELETE WHERE revision = 1", "invoices: 2 rows, want 3"},
		{"a millisecond", tableUsage, "UPDATE slice_ms = slice_ms + 1 WHERE revision = 1 AND hour = '2026-10-01 05:00:00' AND bucket = 'idle'", "invoice_usage of 2026-10-ml-r1: {"},
		{"a row less", tableUsage, "DELETE WHERE revision = 0 AND hour = '2026-10-01 05:00:00' AND bucket = 'idle'", "invoice_usage of 2026-10-ml-r0: 59 rows, want 60"},
		{"another's usage", tableUsage, "UPDATE number = 'x' WHERE revision = 1 AND bucket = 'idle' AND hour = '2026-10-01 05:00:00'", `invoice_usage: has rows of "x"`},
	} {
		if _, err := p.remake(testContext(t)); err != nil {
			t.Fatal(err)
		}
		if err := db.Alter(testContext(t), test.table, test.change+" SETTINGS mutations_sync = 2"); err != nil {
			t.Fatal(err)
		}
		res := checked(t, p)
		if found := strings.Join(res.Findings, "\n"); res.OK || !strings.Contains(found, test.want) {
			t.Errorf("%s: ok %v, found %s\nwant %q", test.name, res.OK, found, test.want)
		}
	}
}

// TestWhatCannotBeReadIsLeftEmptyAndNamed: only a foreign writer leaves such.
func TestWhatCannotBeReadIsLeftEmptyAndNamed(t *testing.T) {
	s, db := newScene(t), storetest.Open(t)
	two := s.put(copyOf(12_000, 1))
	if len(two.Parts) < 2 {
		t.Fatalf("%d parts, want 2 or more", len(two.Parts))
	}
	two.SHA256 = bookHash
	wrong := s.invoiceOf("wrong", "1", two)
	s.append(decisions.KindInvoice, "wrong", &wrong)
	garbage := s.invoiceOf("garbage", "1", s.put("garbage"))
	s.append(decisions.KindInvoice, "garbage", &garbage)
	p := s.projection(db)
	project(t, p)
	res := checked(t, p)
	found := strings.Join(res.Findings, "\n")
	for _, want := range []string{"2026-10-wrong-r0: read document", "2026-10-garbage-r0: read usage copy"} {
		if res.OK || !strings.Contains(found, want) {
			t.Errorf("ok %v, found %s\nwant %q", res.OK, found, want)
		}
	}
}

const (
	projectorVar = "GPUTALLY_TEST_PROJECTION_BROKER"
	engineVar    = "GPUTALLY_TEST_PROJECTION_ENGINE"
	databaseVar  = "GPUTALLY_TEST_PROJECTION_DATABASE"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(projectorVar); addr != "" {
		fmt.Fprintln(os.Stderr, rebuildForever(addr))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func rebuildForever(addr string) error {
	ctx := context.Background()
	db, err := store.Open(ctx, store.Options{Address: os.Getenv(engineVar), Database: os.Getenv(databaseVar), Log: quiet()})
	if err != nil {
		return err
	}
	log, err := decisions.Open(ctx, broker.NewClient(broker.Config{Brokers: []string{addr}}, quiet()), decisions.Options{})
	if err != nil {
		return err
	}
	for p := New(Deps{Decisions: log, DB: db, Log: quiet()}); ; {
		if _, err := p.remake(ctx); err != nil {
			return err
		}
		fmt.Println("rebuilt")
	}
}

// TestKilledProjector: whatever it was doing, the next Project makes it whole.
func TestKilledProjector(t *testing.T) {
	s, socket := newScene(t), storetest.Socket(t)
	s.fill()
	db := storetest.Connect(t, socket, "killed")
	if _, err := db.Migrate(testContext(t)); err != nil {
		t.Fatal(err)
	}
	p := s.projection(db)
	project(t, p)
	want := rowsOf(t, db)
	for kill := range 4 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), projectorVar+"="+s.addr, engineVar+"="+"unix://"+socket, databaseVar+"=killed")
		var stderr bytes.Buffer
		child.Stderr = &stderr
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		rounds := 0
		for lines := bufio.NewScanner(out); lines.Scan(); rounds++ {
			if rounds == kill {
				_ = child.Process.Kill()
			}
		}
		_ = child.Wait()
		if rounds <= kill {
			t.Fatalf("child rebuilt %d times before it ended: %s", rounds, stderr.String())
		}
		project(t, p)
		if diff := cmp.Diff(want, rowsOf(t, db)); diff != "" {
			t.Errorf("rows after kill %d (-before +after):\n%s", kill, diff)
		}
	}
	mustHold(t, p, "18 of 18 messages are projected, 3 invoices and notes, 118 rows of usage")
}
