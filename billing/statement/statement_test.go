package statement_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/invoice/invoicetest"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/statement"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

const (
	gpuMS = 25_200_000 // slice-ms of a GPU of seven slices in an hour

	script = `<script>document.title="hacked"</script>`
	markup = `"><img src=x onerror=document.title="hacked">`
	turned = "\u202ekcab ot tnorf"
	slash  = "a/b%2Fc?d#e&f=g h"
	dots   = ".."
	hebrew = "צוות למידה"
)

const bookText = `currency: USD
tenants: {kol: {time_zone: Asia/Kolkata}}
skus: {Small: {profile: 1g.10gb}, Large: {gpus: 1}}
versions:
- effective: 2026-01-01T00:00:00Z
  models:
    H100: {gpu_hour: "2.49", profiles: {1g.10gb: "0.40"}, tiers: [{above: "2", gpu_hour: "2.20"}]}
  kwh: "0.28"
  idle_surcharge: "0.10"
  distribution: proportional
  tenants:
    ml: {discount: "0.50", fixed_discount: "0.10"}
    min: {minimum: "5.00"}
`

var (
	march = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	// now is when the tests' pages are made: April has begun.
	now = time.Date(2026, 4, 5, 9, 30, 0, 0, time.UTC)
)

func parse(t *testing.T, text string) *prices.Book {
	t.Helper()
	book, err := prices.Parse("book.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// whole is an hour of a whole GPU.
func whole(at time.Time, gpu, tenant string, active, idle, version uint64) usagetest.GPUHour {
	return usagetest.GPUHour{Hour: at, GPU: gpu, Node: "n1", Model: "H100", Slices: 7, Version: version, Owners: []usagetest.Owner{{
		Leaf: gpu, Tenant: tenant, Project: "vision", User: "ann", Workload: "train-7b", Active: active, Idle: idle, EnergyMJ: 1_800_000_000,
	}}}
}

// small is a ledger of a few hours with all seven buckets.
func small(t *testing.T) *store.DB {
	t.Helper()
	db := storetest.Open(t)
	usagetest.Insert(t, db,
		whole(march.AddDate(0, -1, 3), "GPU-a", "ml", gpuMS, 0, 0),
		whole(march, "GPU-a", "ml", gpuMS, 0, 0),
		whole(march.Add(25*time.Hour), "GPU-a", "ml", gpuMS/4, gpuMS/2, 0),
		whole(march.Add(26*time.Hour), "GPU-a", "ml", 0, gpuMS, 0),
		// 20:00 UTC on 31 March is April in Kolkata.
		whole(march.Add(30*24*time.Hour+20*time.Hour), "GPU-a", "kol", gpuMS, 0, 0),
		usagetest.GPUHour{
			Hour: march.Add(48 * time.Hour), GPU: "GPU-b", Node: "n2", Model: "H100", Slices: 7,
			Stranded: 3_600_000, Unhealthy: 3_600_000, Unobserved: 1_800_000, UnattributedMJ: 5_000_000,
			Owners: []usagetest.Owner{
				{Leaf: "m1", Profile: "1g.10gb", ProfileSlices: 1, Tenant: "ml", Project: "nlp", Workload: "notebook", Unproven: 1_800_000, Idle: 1_800_000},
				{Leaf: "m2", Profile: "2g.20gb", ProfileSlices: 2, Tenant: script, User: markup, Workload: markup, Active: 7_200_000},
			},
		},
	)
	if err := db.Exec(t.Context(), insertEpisodesSQL); err != nil {
		t.Fatal(err)
	}
	return db
}

const insertEpisodesSQL = `INSERT INTO anomalies
(id, kind, cluster, tenant, project, workload, node, gpu, leaf, start, end, wasted_gpu_hours, wasted_cost, currency, evidence, version, deleted, grade) VALUES
('1', 'idle_allocation', 'c', 'ml', 'vision', 'train-7b', 'n1', 'GPU-a', 'GPU-a', '2026-03-02 01:00:00', '2026-03-02 03:00:00', 1.5, 3.735, 'USD', 'idle for 2 h', 1, 0, 'proven'),
('2', 'off_hours_spike', 'c', 'ml', '', '', '', '', '', '2026-03-08 02:00:00', '2026-03-08 05:00:00', 9, 0, '', 'nine times as much as usual; no rate known', 1, 0, 'proven'),
('3', 'idle_allocation', 'c', '<script>', '', '<b>', 'n2', 'GPU-b', 'm2', '2026-03-03 00:00:00', '2026-03-03 01:00:00', 1, 2.49, 'USD', '<i>idle</i>', 1, 0, 'proven'),
('4', 'idle_allocation', 'c', 'ml', '', 'gone', 'n2', 'GPU-b', 'm2', '2026-03-03 00:00:00', '2026-03-03 01:00:00', 1, 2.49, 'USD', 'deleted', 1, 1, 'proven'),
('5', 'gpu_errors', 'c', '', '', '', 'n1', 'GPU-a', '', '2026-03-03 00:00:00', '2026-03-03 01:00:00', 0, 0, '', 'XID 79', 1, 0, 'none')`

func handler(t *testing.T, db statement.DB, invoices statement.Invoices) http.Handler {
	t.Helper()
	mux := http.NewServeMux()
	err := statement.Register(mux, statement.Deps{
		DB: db, Invoices: invoices, Clock: clock.NewFake(now), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return mux
}

// drafts are the ledger's own; nothing is finalised.
type drafts struct{ *invoice.Drafts }

func (d drafts) Book(context.Context) (*prices.Book, error) { return d.Drafts.Book(), nil }

func (d drafts) Show(ctx context.Context, period, tenant string) ([]invoice.Invoice, error) {
	document, err := d.Drafts.Show(ctx, period, tenant)
	if err != nil {
		return nil, err
	}
	return []invoice.Invoice{*document}, nil
}

// drafted serves the drafts of a ledger.
func drafted(t *testing.T, db *store.DB, book *prices.Book) http.Handler {
	t.Helper()
	return handler(t, db, drafts{invoice.NewDrafts(db, book)})
}

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return answer.Code, answer.Body.String()
}

var (
	update = flag.Bool("update", false, "rewrite the pages in testdata")
	style  = regexp.MustCompile(`(?s)<style>.*</style>`)
)

func TestPages(t *testing.T) {
	db, book := small(t), parse(t, bookText)
	draft := drafts{invoice.NewDrafts(db, book)}
	h := handler(t, db, draft)
	corrected := small(t)
	notes := billed(t, corrected, book, "ml",
		whole(march.Add(26*time.Hour), "GPU-a", "ml", gpuMS, 0, 1), whole(march.Add(72*time.Hour), "GPU-a", "ml", gpuMS, 0, 1))
	cases := map[string]struct {
		h    http.Handler
		path string
	}{
		"months":    {h, "/statements/"},
		"fleet":     {h, "/statements/2026-03"},
		"statement": {h, "/statements/2026-03/ml"},
		"minimum":   {h, "/statements/2026-03/min"},
		"notes":     {handler(t, corrected, notes), "/statements/2026-03/ml"},
		"billed":    {handler(t, corrected, notes), "/statements/2026-03"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			status, body := get(t, c.h, c.path)
			if status != http.StatusOK {
				t.Fatalf("status %d: %s", status, body)
			}
			golden(t, "testdata/"+name+".html", style.ReplaceAllString(body, "<style></style>"))
		})
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
}

// billed is a register in which March is finalised, and a tenant's invoice was
// put right once for each correction of the ledger.
func billed(t *testing.T, db *store.DB, book *prices.Book, tenant string, corrections ...usagetest.GPUHour) statement.Invoices {
	t.Helper()
	r := invoicetest.Open(t, db, book, invoicetest.Broker(t))
	if _, err := r.Publish(t.Context(), book, "finance", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Finalise(t.Context(), invoice.FinaliseRequest{Period: "2026-03", Who: "finance"}); err != nil {
		t.Fatal(err)
	}
	for _, correction := range corrections {
		usagetest.Insert(t, db, correction)
		if _, err := r.Correct(t.Context(), invoice.CorrectRequest{Period: "2026-03", Tenant: tenant, Who: "finance"}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestNamesAreTextWhateverTheyContain(t *testing.T) {
	names := []string{script, markup, turned, slash, dots, ".", hebrew, "=cmd|' /C calc'!A0", "a\nb", strings.Repeat("long", 100)}
	db, book := storetest.Open(t), parse(t, bookText)
	for i, name := range names {
		usagetest.Insert(t, db, usagetest.GPUHour{
			Hour: march.Add(time.Duration(i) * time.Hour), GPU: "GPU-a", Node: name, Model: "H100", Slices: 7,
			Owners: []usagetest.Owner{{Leaf: name, Tenant: name, Project: name, User: name, Workload: name, Active: gpuMS / 2, Idle: gpuMS / 2}},
		})
	}
	h := drafted(t, db, book)
	_, fleet := get(t, h, "/statements/2026-03")
	links := regexp.MustCompile(`<th scope="row"><a href="([^"]*)"`).FindAllStringSubmatch(fleet, -1)
	seen := map[string]bool{}
	for _, link := range links {
		path := strings.ReplaceAll(link[1], "&amp;", "&")
		status, body := get(t, h, path)
		if status != http.StatusOK {
			t.Errorf("%s = %d, want the tenant's page", path, status)
		}
		heading := regexp.MustCompile(`<h1>Statement for <bdi>(.*)</bdi></h1>`).FindStringSubmatch(body)
		if heading == nil || seen[heading[1]] {
			t.Errorf("%s has the heading %q, want a tenant of its own", path, heading)
			continue
		}
		seen[heading[1]] = true
		for _, bad := range []string{"<script", "<img", "\u202e", "\x00"} {
			if strings.Contains(style.ReplaceAllString(body, ""), bad) {
				t.Errorf("%s contains %q", path, bad)
			}
		}
	}
	if len(seen) != len(names)+1 { // and the one with a minimum
		t.Errorf("%d tenants' pages from the fleet's, want %d", len(seen), len(names)+1)
	}
	if want := "⟨U&#43;202E⟩kcab"; !strings.Contains(fleet, want) {
		t.Errorf("the fleet's page has no %q", want)
	}
}

// failing is a store that is away, or refuses.
type failing struct{ err error }

func (f failing) Query(context.Context, string, ...any) (driver.Rows, error) { return nil, f.err }

func (f failing) Book(context.Context) (*prices.Book, error) { return nil, f.err }

func (f failing) List(context.Context, string) (*invoice.Month, error) { return nil, f.err }

func (f failing) Show(context.Context, string, string) ([]invoice.Invoice, error) {
	return nil, f.err
}

func TestProblemsHavePages(t *testing.T) {
	db, book := small(t), parse(t, bookText)
	h := drafted(t, db, book)
	away := failing{&store.Exception{Op: "secret", Code: store.CodeTimeout, Message: "host 10.0.0.1"}}
	broken := failing{errors.New("secret of 10.0.0.1")}
	priced := small(t)
	usagetest.Insert(t, priced, usagetest.GPUHour{Hour: march, GPU: "GPU-x", Model: "B<300>", Slices: 7},
		usagetest.GPUHour{Hour: march, GPU: "GPU-y", Model: "L4", Slices: 1})
	early := parse(t, strings.Replace(bookText, "2026-01-01", "2026-03-02", 1))
	cases := map[string]struct {
		h      http.Handler
		path   string
		status int
		want   []string
	}{
		"nobody":            {h, "/statements/2026-03/nobody", 404, []string{"No such statement"}},
		"no month":          {h, "/statements/March", 404, []string{"No such page"}},
		"no month's tenant": {h, "/statements/2026-13/ml", 404, []string{"No such page"}},
		"far too deep":      {h, "/statements/2026-03/ml/x", 404, []string{"No such page"}},
		"away":              {handler(t, away, away), "/statements/2026-03/ml", 503, []string{"The database is unavailable"}},
		"away fleet":        {handler(t, away, away), "/statements/2026-03", 503, []string{"The database is unavailable"}},
		"away months":       {handler(t, away, away), "/statements/", 503, []string{"The database is unavailable"}},
		"half away":         {handler(t, away, drafts{invoice.NewDrafts(db, book)}), "/statements/2026-03/ml", 503, []string{"The database is unavailable"}},
		"broken":            {handler(t, broken, broken), "/statements/2026-03", 500, []string{"log has the reason"}},
		"no price fleet":    {drafted(t, priced, book), "/statements/2026-03", 200, []string{"B&lt;300&gt;", "gpu_hour"}},
		"before":            {drafted(t, db, early), "/statements/2026-03", 409, []string{"begins on 2 Mar 2026, 00:00 UTC"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			status, body := get(t, c.h, c.path)
			if status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
			for _, want := range c.want {
				if !strings.Contains(body, want) {
					t.Errorf("page has no %q:\n%s", want, style.ReplaceAllString(body, ""))
				}
			}
			if strings.Contains(body, "secret") || strings.Contains(body, "10.0.0.1") {
				t.Error("the page tells internals")
			}
			if strings.Count(body, "<h1>") != 1 || !strings.Contains(body, `<html lang="en">`) {
				t.Error("the page isn't a whole one")
			}
		})
	}
}

func TestAnswersAllowNothingButTheirOwnStyle(t *testing.T) {
	h := drafted(t, small(t), parse(t, bookText))
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/statements/", nil))
	policy := answer.Header().Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "script-src") {
		t.Errorf("policy %q, want nothing but a style of its hash", policy)
	}
	if got := answer.Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control %q, want no-store", got)
	}
	answer = httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/statements/2026-03", nil))
	if answer.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST = %d, want %d", answer.Code, http.StatusMethodNotAllowed)
	}
}

func TestALedgerThatChangedAfterTheInvoiceIsTold(t *testing.T) {
	db, book := small(t), parse(t, bookText)
	h := handler(t, db, billed(t, db, book, "ml"))
	const told = "The ledger has changed since this was billed"
	if _, body := get(t, h, "/statements/2026-03/ml"); strings.Contains(body, told) || !strings.Contains(body, "finalised") {
		t.Errorf("an invoice that still holds: %q, or not finalised", told)
	}
	usagetest.Insert(t, db, whole(march.Add(26*time.Hour), "GPU-a", "ml", gpuMS, 0, 1)) // it was idle
	_, body := get(t, h, "/statements/2026-03/ml")
	if want := told + ": it now has 2.89 GPU-hours, 0.57 of them idle; billed were 2.89, 1.57 of them idle."; !strings.Contains(body, want) {
		t.Errorf("page has no %q", want)
	}
}

func TestMonthsFollowTheTenantsZones(t *testing.T) {
	_, body := get(t, drafted(t, small(t), parse(t, bookText)), "/statements/")
	var got []string
	for _, match := range regexp.MustCompile(`<a href="/statements/[^"]*">([^<]*)</a></th><td>([^<]*)`).FindAllStringSubmatch(body, -1) {
		got = append(got, match[1]+" "+match[2])
	}
	want := []string{"April 2026 in progress", "March 2026 over", "February 2026 over"} // April in Kolkata
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("months (-want +got):\n%s", diff)
	}
	_, empty := get(t, drafted(t, storetest.Open(t), parse(t, bookText)), "/statements/")
	if want := "The ledger is empty"; !strings.Contains(empty, want) {
		t.Errorf("months of an empty ledger: no %q", want)
	}
}

// TestPagesShowWhatIsSaidOfFindings: of several findings in a row only what is said of all.
func TestPagesShowWhatIsSaidOfFindings(t *testing.T) {
	db, book := small(t), parse(t, bookText)
	if err := db.Exec(t.Context(), insertTwinSQL); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		marks map[string]decisions.Marks
		want  string
	}{
		{nil, ""},
		{map[string]decisions.Marks{"2": {Judged: decisions.VerdictUseful}}, ""},
		{map[string]decisions.Marks{"2": {AcknowledgedBy: "ann"}}, "the tenant as a whole</bdi>, acknowledged"},
		{map[string]decisions.Marks{"2": {AcknowledgedBy: "ann", Judged: decisions.VerdictPlanned}}, "the tenant as a whole</bdi>, planned"},
		{map[string]decisions.Marks{"2": {MutedUntil: now}}, "the tenant as a whole</bdi>, muted"},
		{map[string]decisions.Marks{"1": {AcknowledgedBy: "ann"}}, ""},
		{map[string]decisions.Marks{"1": {AcknowledgedBy: "ann"}, "5": {AcknowledgedBy: "bob"}}, "train-7b</bdi>, acknowledged"},
		{map[string]decisions.Marks{"1": {AcknowledgedBy: "ann"}, "5": {Judged: decisions.VerdictPlanned}}, ""},
	} {
		mux := http.NewServeMux()
		if err := statement.Register(mux, statement.Deps{
			DB: db, Invoices: drafts{invoice.NewDrafts(db, book)}, Clock: clock.NewFake(now), Log: slog.New(slog.DiscardHandler),
			Marks: func(of decisions.Target) decisions.Marks {
				if of.Kind == "" || of.Tenant != "ml" || of.ID == "1" && of.Project != "vision" {
					t.Errorf("asked for %+v", of)
				}
				return c.marks[of.ID]
			},
		}); err != nil {
			t.Fatal(err)
		}
		status, body := get(t, mux, "/statements/2026-03/ml")
		said := len(saidOf.FindAllString(body, -1))
		if status != http.StatusOK || said != min(len(c.want), 1) || !strings.Contains(body, c.want) {
			t.Errorf("%v: %d, %d findings have a word, want %q", c.marks, status, said, c.want)
		}
	}
}

var saidOf = regexp.MustCompile(`</bdi>, (planned|acknowledged|muted) <small`)

// insertTwinSQL is a finding in the same row as the first of insertEpisodesSQL.
const insertTwinSQL = `INSERT INTO anomalies
(id, kind, cluster, tenant, project, workload, node, gpu, leaf, start, end, wasted_gpu_hours, wasted_cost, currency, evidence, version, deleted, grade) VALUES
('5', 'idle_allocation', 'c', 'ml', 'vision', 'train-7b', 'n2', 'GPU-b', 'GPU-b', '2026-03-02 01:00:00', '2026-03-02 03:00:00', 1.5, 3.735, 'USD', 'idle for 2 h', 1, 0, 'proven')`
