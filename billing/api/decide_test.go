package api_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gputally/gputally/internal/httpd/guard"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

// post sends JSON with an idempotency key.
func post(t *testing.T, h http.Handler, path, key, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := request(t, http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	if path == "/api/v1/approvals" {
		r.Header.Set("If-Match", contentOf(t, h, body))
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// contentOf is the ETag of what an approval's body is about, a draft or a
// pending note; of nothing where there is none.
func contentOf(t *testing.T, h http.Handler, body string) string {
	t.Helper()
	var about struct{ Period, Tenant string }
	if err := json.Unmarshal([]byte(body), &about); err != nil {
		t.Fatal(err)
	}
	path := "/api/v1/drafts/" + about.Period + "/" + url.PathEscape(about.Tenant)
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, request(t, http.MethodGet, path, nil)); w.Code == http.StatusOK {
		return w.Header().Get("ETag")
	}
	var pending struct {
		Adjustments []struct {
			Content string `json:"content_sha256"`
		}
	}
	_, text, _ := get(t, h, "/api/v1/adjustments?period="+about.Period+"&tenant="+url.QueryEscape(about.Tenant))
	if err := json.Unmarshal([]byte(text), &pending); err != nil {
		t.Fatal(err)
	}
	if len(pending.Adjustments) == 1 {
		return `"` + pending.Adjustments[0].Content + `"`
	}
	return `"` + strings.Repeat("0", 64) + `"`
}

// finalised finalises the fixture's one month.
func finalised(t *testing.T, f *fixture) *httptest.ResponseRecorder {
	t.Helper()
	w := post(t, f, "/api/v1/invoices", "key-1", `{"period":"2026-03","tenant":"ml/train","who":"alice"}`)
	if w.Code != http.StatusCreated {
		t.Fatalf("finalise = %d %s", w.Code, w.Body)
	}
	return w
}

// fields reads a JSON answer.
func fields(t *testing.T, w *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("answer %d %s: %v", w.Code, w.Body, err)
	}
	return body
}

// R6, R20: the first request decides, later ones are told the same.
func TestFinaliseDecidesOnceAndTellsTheSame(t *testing.T) {
	f := serve(t)
	first := finalised(t, f)
	location := first.Header().Get("Location")
	if location != "/api/v1/invoices/2026-03-ml%2Ftrain-r0" || first.Header().Get("Idempotency-Replayed") != "" {
		t.Errorf("headers = %v", first.Header())
	}
	want := `{"number":"2026-03-ml/train-r0","tenant":"ml/train","kind":"invoice","total":"2.49","currency":"USD","content_sha256":"` +
		fields(t, first)["content_sha256"].(string) + "\"}\n"
	if diff := cmp.Diff(want, first.Body.String()); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	for name, c := range map[string]struct {
		key, body, replayed string
		status              int
	}{
		"the same again":   {"key-1", `{"period":"2026-03","tenant":"ml/train","who":"alice"}`, "true", 200},
		"by another key":   {"key-2", `{"period":"2026-03","tenant":"ml/train","who":"bob"}`, "", 200},
		"the fields moved": {"key-1", `{"who":"alice","tenant":"ml/train","period":"2026-03"}`, "true", 200},
	} {
		w := post(t, f, "/api/v1/invoices", c.key, c.body)
		if w.Code != c.status || w.Body.String() != first.Body.String() || w.Header().Get("Idempotency-Replayed") != c.replayed {
			t.Errorf("%s: %d %s, replayed %q", name, w.Code, w.Body, w.Header().Get("Idempotency-Replayed"))
		}
	}
	status, document, contentType := get(t, f, location)
	if status != 200 || contentType != "application/json" || fmt.Sprintf("%x", sha256.Sum256([]byte(document))) != fields(t, first)["content_sha256"] {
		t.Errorf("document = %d %s %s, want the bytes that were decided", status, contentType, document)
	}
	if _, list, _ := get(t, f, "/api/v1/decisions?kind=invoice"); strings.Count(list, `"kind":"invoice"`) != 1 {
		t.Errorf("decisions = %s, want one invoice", list)
	}
}

func TestDecisionsAreRefusedInWords(t *testing.T) {
	f := serve(t)
	finalised(t, f)
	usagetest.Insert(t, f.db, gpuHour("late", 1_000))
	good := `{"period":"2026-03","tenant":"late","who":"alice"}`
	for name, c := range map[string]struct {
		path, key, body string
		status          int
		want            string
	}{
		"no key":                 {"/api/v1/invoices", "", good, 422, "header.Idempotency-Key"},
		"key beyond ASCII":       {"/api/v1/invoices", "schlüssel", good, 422, "header.Idempotency-Key"},
		"long key":               {"/api/v1/invoices", strings.Repeat("k", 201), good, 422, "header.Idempotency-Key"},
		"key of another one":     {"/api/v1/invoices", "key-1", good, 409, "was used for another request"},
		"no body":                {"/api/v1/invoices", "k", "", 400, "request body is required"},
		"half a body":            {"/api/v1/invoices", "k", `{"period":`, 400, "not JSON"},
		"two bodies":             {"/api/v1/invoices", "k", good + good, 400, "more than one"},
		"a field twice":          {"/api/v1/invoices", "k", `{"who":"a","who":"b"}`, 400, `field \"who\" is repeated`},
		"null":                   {"/api/v1/invoices", "k", `{"period":"2026-03","tenant":null,"who":"a"}`, 400, "null is not allowed"},
		"deep":                   {"/api/v1/invoices", "k", strings.Repeat("[", 100_000), 400, "is nested too deep"},
		"no UTF-8":               {"/api/v1/invoices", "k", "{\"who\":\"\xff\"}", 400, "not UTF-8"},
		"unknown field":          {"/api/v1/invoices", "k", `{"period":"2026-03","tenant":"late","who":"a","colour":"red"}`, 422, "body.colour"},
		"M3 name of two scripts": {"/api/v1/invoices", "k", `{"period":"2026-03","tenant":"late","who":"\u0430lice"}`, 422, "mixes letters of the scripts"},
		"unprintable name":       {"/api/v1/invoices", "k", `{"period":"2026-03","tenant":"late","who":"a\u202eb"}`, 422, "U+202E"},
		"no such tenant":         {"/api/v1/invoices", "k", `{"period":"2026-03","tenant":"nobody","who":"a"}`, 404, "no invoice"},
		"not approved":           {"/api/v1/invoices", "k", `{"period":"2026-03","tenant":"late","who":"a","require_approval":true}`, 409, "needs an approval"},
		"long body":              {"/api/v1/invoices", "k", `{"who":"` + strings.Repeat("x", 4<<20) + `"}`, 413, "longer than 3145728 bytes"},
		"nothing to correct":     {"/api/v1/invoices/2026-03-ml%2Ftrain-r0/notes", "k", `{"who":"a"}`, 409, "nothing to adjust"},
		"correct nothing":        {"/api/v1/invoices/2026-03-x-r0/notes", "k", `{"who":"a"}`, 404, "no invoice"},
		"nothing to approve":     {"/api/v1/approvals", "k", `{"period":"2026-03","tenant":"ml/train","who":"a"}`, 409, "nothing to adjust"},
		"comment with a bell":    {"/api/v1/approvals", "k", `{"period":"2026-03","tenant":"late","who":"a","comment":"\u0007"}`, 422, "body.comment"},
		"a book that is none":    {"/api/v1/price-books", "k", `{"text":"currency: X","who":"a"}`, 422, "body.text"},
		"book with a used key":   {"/api/v1/price-books", "key-1", `{"text":"` + otherBook + `","who":"alice"}`, 409, "another request"},
		"unknown parameter":      {"/api/v1/invoices?dry=1", "k", good, 422, "query.dry"},
	} {
		t.Run(name, func(t *testing.T) {
			w := post(t, f, c.path, c.key, c.body)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) || w.Header().Get("Content-Type") != guard.ProblemType {
				t.Errorf("%d %s, want the problem %d with %s", w.Code, w.Body, c.status, c.want)
			}
		})
	}
	f.register.ClosedUntil = firstHour
	if w := post(t, f, "/api/v1/invoices", "k", good); w.Code != 409 || !strings.Contains(w.Body.String(), "not closed yet") {
		t.Errorf("open hours: %d %s", w.Code, w.Body)
	}
	if _, list, _ := get(t, f, "/api/v1/invoices?status=finalised"); strings.Count(list, `"number"`) != 1 {
		t.Errorf("invoices = %s, want the one", list)
	}
}

// M4: a field has one spelling, for limits, for proxies and for the decision.
func TestM4AFieldHasOneSpelling(t *testing.T) {
	f := serve(t)
	for body, want := range map[string]int{
		`{"period":"2026-03","tenant":"ml/train","Tenant":"late","who":"a"}`:                            400,
		`{"period":"2026-03","Tenant":"late","tenant":"ml/train","who":"a"}`:                            400,
		`{"period":"2026-03","tenant":"ml/train","who":"a","Who":"b"}`:                                  400,
		"{\"period\":\"2026-03\",\"tenant\":\"ml/train\",\"who\":\"a\",\"\u017fource\":1,\"source\":2}": 400,
		`{"Period":"1899-99","tenant":"ml/train","who":"a"}`:                                            422,
		`{"period":"2026-03","tenant":"ml/train","Who":"` + strings.Repeat("w", 250) + `"}`:             422,
	} {
		w := post(t, f, "/api/v1/invoices", "k", body)
		if w.Code != want || w.Header().Get("Content-Type") != guard.ProblemType {
			t.Errorf("%s: %d %s, want the problem %d", body, w.Code, w.Body, want)
		}
	}
}

// L5: a colleague's key can be neither used up nor asked.
func TestL5AKeyBelongsToItsCaller(t *testing.T) {
	f := serve(t)
	first := post(t, f, "/api/v1/price-books", "monthly", `{"text":"`+otherBook+`","who":"mallory"}`)
	if first.Code != 201 {
		t.Fatalf("mallory's: %d %s", first.Code, first.Body)
	}
	if w := post(t, f, "/api/v1/price-books", "monthly", `{"text":"`+otherBook+`","who":"mallory "}`); w.Header().Get("Idempotency-Replayed") != "true" {
		t.Errorf("mallory again: %d %v %s, want a replay", w.Code, w.Header(), w.Body)
	}
	other := strings.Replace(otherBook, "3.00", "4.00", 1)
	if w := post(t, f, "/api/v1/price-books", "monthly", `{"text":"`+other+`","who":"alice"}`); w.Code != 201 {
		t.Errorf("alice with the key that mallory used: %d %s, want 201", w.Code, w.Body)
	}
	r := request(t, http.MethodPost, "/api/v1/invoices", strings.NewReader(`{"period":"2026-03","tenant":"ml/train","who":"a"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header["Idempotency-Key"] = []string{"one", "two"}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	if w.Code != 400 {
		t.Errorf("two keys: %d %s, want 400", w.Code, w.Body)
	}
}

const otherBook = `currency: USD\nversions:\n- effective: 2026-01-01T00:00:00Z\n  models: {NVIDIA H100 80GB HBM3: {gpu_hour: \"3.00\"}}\n`

func TestBodiesAreJSONAndAnswersWhatIsAccepted(t *testing.T) {
	f := serve(t)
	for contentType, want := range map[string]int{
		"": 415, "text/plain": 415, "application/x-www-form-urlencoded": 415, "application/json; charset=latin1": 415,
		"application/json": 404, "Application/JSON; charset=UTF-8": 404,
	} {
		r := request(t, http.MethodPost, "/api/v1/invoices", strings.NewReader(`{"period":"2026-03","tenant":"nobody","who":"a"}`))
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("Idempotency-Key", "k")
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		if w.Code != want || w.Header().Get("Content-Type") != guard.ProblemType {
			t.Errorf("Content-Type %q: %d %s, want %d", contentType, w.Code, w.Body, want)
		}
	}
	for _, c := range []struct {
		path, accept string
		want         int
	}{
		{"/api/v1/tenants", "", 200},
		{"/api/v1/tenants", "*/*", 200},
		{"/api/v1/tenants", "application/*;q=0.1", 200},
		{"/api/v1/tenants", "text/html, application/json;q=0.9", 200},
		{"/api/v1/tenants", "text/html", 406},
		{"/api/v1/tenants", "*/*, application/json;q=0", 406},
		{"/api/v1/tenants", "application/json;q=0.0, text/*", 406},
		{"/api/v1/exports/chargeback.csv?period=2026-03", "text/csv", 200},
		{"/api/v1/exports/chargeback.csv?period=2026-03", "application/json", 406},
	} {
		r := request(t, http.MethodGet, c.path, nil)
		r.Header.Set("Accept", c.accept)
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s, Accept %q: %d, want %d", c.path, c.accept, w.Code, c.want)
		}
	}
}

// R17: what comes late is a pending adjustment, then a note.
func TestLateDataIsAnAdjustmentThenANote(t *testing.T) {
	f := serve(t)
	finalised(t, f)
	late := gpuHour("ml/train", 12_600_000)
	late.Version, late.Inputs = 2, 361
	usagetest.Insert(t, f.db, late)
	if _, body, _ := get(t, f, "/api/v1/adjustments?period=2026-03"); !strings.Contains(body, `"kind":"credit_note"`) || !strings.Contains(body, `"total":"-1.24"`) {
		t.Errorf("adjustments = %s", body)
	}
	if _, body, _ := get(t, f, "/api/v1/invoices/2026-03-ml%2Ftrain-r0/verification"); !strings.Contains(body, `"same":true`) || !strings.Contains(body, `"pending_adjustment":true`) {
		t.Errorf("verification = %s", body)
	}
	approve := `{"period":"2026-03","tenant":"ml/train","who":"carol","comment":"late\nnode"}`
	approved := post(t, f, "/api/v1/approvals", "approval-1", approve)
	again := post(t, f, "/api/v1/approvals", "approval-1", approve)
	if approved.Code != 201 || again.Code != 200 || again.Body.String() != approved.Body.String() || again.Header().Get("Idempotency-Replayed") != "true" {
		t.Errorf("approvals = %d %s, then %d %s", approved.Code, approved.Body, again.Code, again.Body)
	}
	if fields(t, approved)["total"] != "-1.24" || fields(t, approved)["currency"] != "USD" {
		t.Errorf("approval = %s, want its total", approved.Body)
	}
	if w := post(t, f, "/api/v1/approvals", "approval-1", strings.Replace(approve, "ml/train", "late", 1)); w.Code != 409 {
		t.Errorf("another approval with the key = %d %s", w.Code, w.Body)
	}
	const notes = "/api/v1/invoices/2026-03-ml%2Ftrain-r0/notes"
	w := post(t, f, notes, "note-1", `{"who":"alice","require_approval":true}`)
	if w.Code != 201 || fields(t, w)["number"] != "2026-03-ml/train-r1" || fields(t, w)["content_sha256"] != fields(t, approved)["content_sha256"] {
		t.Fatalf("note = %d %s, want what was approved", w.Code, w.Body)
	}
	again = post(t, f, notes, "note-1", `{"who":"alice","require_approval":true}`)
	if again.Code != 200 || again.Header().Get("Idempotency-Replayed") != "true" || again.Body.String() != w.Body.String() {
		t.Errorf("the same again = %d %s", again.Code, again.Body)
	}
	if _, body, _ := get(t, f, notes); !strings.Contains(body, `"corrects":"2026-03-ml/train-r0"`) || !strings.Contains(body, `"billed_in":"2026-11"`) {
		t.Errorf("notes = %s", body)
	}
	if _, body, _ := get(t, f, "/api/v1/adjustments?period=2026-03"); !strings.Contains(body, `"adjustments":[]`) {
		t.Errorf("adjustments after the note = %s", body)
	}
}

func TestLinesLeadToEvidence(t *testing.T) {
	f := serve(t)
	finalised(t, f)
	const number = "/api/v1/invoices/2026-03-ml%2Ftrain-r0"
	_, body, _ := get(t, f, number+"/lines?effect=list")
	if !strings.Contains(body, `{"line_number":1,"effect":"list"`) || strings.Contains(body, "line_number\":2") {
		t.Errorf("lines = %s", body)
	}
	_, body, _ = get(t, f, number+"/lines/1/evidence")
	if !strings.Contains(body, `"gpu":"GPU-ml/train"`) || !strings.Contains(body, `"moved_hours":[]`) || !strings.Contains(body, `"slice_ms":"25200000"`) {
		t.Errorf("evidence = %s", body)
	}
	wantProblem(t, f, number+"/lines/99/evidence", 404, "line 99")
	wantProblem(t, f, "/api/v1/invoices/2026-03-x-r0", 404, "no invoice")
	wantProblem(t, f, "/api/v1/drafts/2026-03/ml%2Ftrain", 404, "is finalised")
}

func TestPublishedBooks(t *testing.T) {
	f := serve(t)
	_, body, _ := get(t, f, "/api/v1/price-books/in-force")
	if !strings.Contains(body, `"published":false`) || !strings.Contains(body, `"in_force":true`) || !strings.Contains(body, `"text":"`) {
		t.Errorf("the configured book = %s", body)
	}
	publish := `{"text":"` + otherBook + `","who":"alice"}`
	first := post(t, f, "/api/v1/price-books", "book-1", publish)
	if first.Code != 201 || fields(t, first)["currency"] != "USD" || fields(t, first)["in_force"] != true {
		t.Fatalf("publish = %d %s", first.Code, first.Body)
	}
	for key, replayed := range map[string]string{"book-1": "true", "book-2": ""} {
		w := post(t, f, "/api/v1/price-books", key, publish)
		if w.Code != 200 || w.Header().Get("Idempotency-Replayed") != replayed || w.Body.String() != first.Body.String() {
			t.Errorf("key %s again = %d %s, replayed %q", key, w.Code, w.Body, w.Header().Get("Idempotency-Replayed"))
		}
	}
	if w := post(t, f, "/api/v1/price-books", "book-3", strings.Replace(publish, "3.00", "4.00", 1)); w.Code != 201 {
		t.Fatalf("a second book = %d %s", w.Code, w.Body)
	}
	w := post(t, f, "/api/v1/price-books", "book-1", publish)
	if w.Code != 200 || fields(t, w)["in_force"] != false || w.Header().Get("Idempotency-Replayed") != "true" {
		t.Errorf("the first key after the second book = %d %s, want it told and nothing published", w.Code, w.Body)
	}
	if _, body, _ := get(t, f, "/api/v1/price-books"); strings.Count(body, `"sha256"`) != 2 || strings.Contains(body, `"text"`) {
		t.Errorf("books = %s, want two without text", body)
	}
	if _, body, _ := get(t, f, first.Header().Get("Location")); !strings.Contains(body, `gpu_hour: \"3.00\"`) {
		t.Errorf("the first book = %s", body)
	}
	wantProblem(t, f, "/api/v1/price-books/"+strings.Repeat("0", 64), 404, "was published")
}

func TestTheAuditLogHasEveryDecision(t *testing.T) {
	f := serve(t)
	finalised(t, f)
	post(t, f, "/api/v1/invoices", "key-1", `{"period":"2026-03","tenant":"other","who":"mallory"}`)
	var kinds []string
	next, pages := "/api/v1/decisions?limit=1", 0
	for next != "" {
		status, body, _ := get(t, f, next)
		var page struct {
			Decisions []struct{ Kind, Chain, Who string }
			Next      string
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil || status != 200 || len(page.Decisions) != 1 {
			t.Fatalf("%s = %d %s", next, status, body)
		}
		kinds = append(kinds, page.Decisions[0].Kind+" by "+page.Decisions[0].Who)
		if next = ""; page.Next != "" {
			next = "/api/v1/decisions?limit=1&cursor=" + page.Next
		}
		pages++
	}
	if diff := cmp.Diff([]string{"price_book by alice", "freeze by alice", "invoice by alice"}, kinds); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
	_, up, _ := get(t, f, "/api/v1/decisions?kind=invoice")
	_, down, _ := get(t, f, "/api/v1/decisions?order=descending&limit=1")
	if !strings.Contains(up, `"subject":"2026-03-ml/train-r0"`) || !strings.Contains(down, `"subject":"2026-03-ml/train-r0"`) {
		t.Errorf("invoices = %s; the last = %s", up, down)
	}
	if _, body, _ := get(t, f, "/api/v1/decisions?accepted=false"); !strings.Contains(body, `"decisions":[]`) {
		t.Errorf("refused = %s, want none: the register asks first", body)
	}
	if _, body, _ := get(t, f, "/api/v1/decisions?who=alice&kind=freeze"); strings.Count(body, `"offset"`) != 1 {
		t.Errorf("alice's freezes = %s", body)
	}
}

func TestEachDecisionIsOneLineAndCounted(t *testing.T) {
	f := serve(t)
	finalised(t, f)
	again := `{"period":"2026-03","tenant":"ml/train","who":"alice"}`
	post(t, f, "/api/v1/invoices", "key-1", again)
	post(t, f, "/api/v1/invoices", "key-2", again)
	post(t, f, "/api/v1/invoices", "key-3", `{"period":"2026-03","tenant":"nobody","who":"bob"}`)
	if err := f.db.Exec(t.Context(), "DROP TABLE usage_hourly"); err != nil {
		t.Fatal(err)
	}
	post(t, f, "/api/v1/invoices", "key-4", `{"period":"2026-04","tenant":"secret","who":"bob"}`)
	var lines []string
	for line := range strings.Lines(f.log.String()) {
		if strings.Contains(line, "decision asked for") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 5 || !strings.Contains(lines[0], "kind=invoice who=alice subject=2026-03-ml/train-r0 outcome=decided") {
		t.Errorf("log =\n%s", strings.Join(lines, ""))
	}
	want := `
# HELP gputally_api_decisions_total Decisions requested from the finance API, by kind and outcome.
# TYPE gputally_api_decisions_total counter
`
	for _, outcome := range []string{"already", "decided", "failed", "refused", "replayed"} {
		for _, kind := range []string{"approval", "finding", "invoice", "note", "price_book"} {
			n := 0
			if kind == "invoice" {
				n = 1
			}
			want += fmt.Sprintf("gputally_api_decisions_total{kind=%q,outcome=%q} %d\n", kind, outcome, n)
		}
	}
	if err := testutil.GatherAndCompare(f.registry, strings.NewReader(want), "gputally_api_decisions_total"); err != nil {
		t.Error(err)
	}
}
