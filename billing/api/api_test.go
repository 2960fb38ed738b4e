package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/billing/api"
	"github.com/gputally/gputally/billing/export/focus"
	"github.com/gputally/gputally/billing/invoice/invoicetest"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/fault"
	"github.com/gputally/gputally/internal/httpd/guard"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

const model = "NVIDIA H100 80GB HBM3"

const insertAnomalySQL = `INSERT INTO anomalies
(id, kind, cluster, tenant, workload, gpu, start, end, wasted_gpu_hours, wasted_cost, currency, evidence, version, deleted, user, cause, grade, open, leaves) VALUES
('x1', 'idle_allocation', 'c', 'ml', 'w', 'GPU-a', '2026-03-01 00:00:00', '2026-03-01 05:00:00', 5, 12.45, 'USD', 'idle for 5 h', 1, 0, 'ann', 'parked', 'proven', 1, ['gpu']),
('x2', 'off_hours_spike', 'c', 'ml', 'w', 'GPU-a', '2026-03-02 00:00:00', '2026-03-02 05:00:00', 5, 12.45, 'USD', 'a spike', 1, 0, '', '', 'proven', 0, []),
('x3', 'idle_allocation', 'c', 'ml', 'w', 'GPU-a', '2026-03-03 00:00:00', '2026-03-03 05:00:00', 5, 12.45, 'USD', 'gone', 1, 1, '', '', 'proven', 0, []),
('x4', 'gpu_errors', 'c', '', '', 'GPU-a', '2026-02-04 00:00:00', '2026-02-04 05:00:00', 0, 0, '', 'XID 79', 1, 0, '', 'fatal', 'none', 0, [''])`

// fixture is the API on a small ledger of one tenant, one GPU and one hour.
type fixture struct {
	http.Handler
	db       *store.DB
	register *invoicetest.Register
	registry *prometheus.Registry
	log      *bytes.Buffer
}

var firstHour = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func gpuHour(tenant string, activeMS uint64) usagetest.GPUHour {
	return usagetest.GPUHour{
		Hour: firstHour, GPU: "GPU-" + tenant, Node: "n1", Model: model, Slices: 7, Version: 1, Inputs: 360, Epoch: 1,
		Owners: []usagetest.Owner{{Leaf: "GPU-" + tenant, Tenant: tenant, Active: activeMS, EnergyMJ: 1_500}},
	}
}

func serve(t *testing.T) *fixture {
	t.Helper()
	db := storetest.Open(t)
	usagetest.Insert(t, db, gpuHour("ml/train", 25_200_000))
	if err := db.Exec(t.Context(), insertAnomalySQL); err != nil {
		t.Fatal(err)
	}
	return mount(t, db, prices.Default())
}

// mount puts the API on a ledger, with limits that no test reaches.
func mount(t *testing.T, db *store.DB, book *prices.Book) *fixture {
	t.Helper()
	f := &fixture{db: db, register: invoicetest.Open(t, db, book, invoicetest.Broker(t)), registry: prometheus.NewRegistry(), log: &bytes.Buffer{}}
	mux := http.NewServeMux()
	cfg := guard.DefaultConfig()
	cfg.Burst = 100_000
	front, err := guard.New(cfg, guard.Deps{Clock: clock.Real(), Log: slog.New(slog.DiscardHandler), Registry: f.registry})
	if err != nil {
		t.Fatal(err)
	}
	err = api.Mount(mux, api.Deps{
		Explain: explained,
		Focus:   focus.Config{Issuer: "Acme GPU Platform"},
		DB:      db, Register: f.register.Register, Decisions: f.register.Decisions, Clock: f.register.Clock,
		Log: slog.New(slog.NewTextHandler(f.log, nil)), Registry: f.registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.Handler = front.Handler(mux)
	return f
}

// explained stands in for package explain, which has tests of its own.
func explained(_ context.Context, q *api.Explanation, hour time.Time) (any, error) {
	if q.GPU == "GPU-b" {
		return nil, fault.New(fault.NotFound, "GPU %q: the ledger has no such GPU", q.GPU)
	}
	return map[string]any{"gpu": q.GPU, "hour": hour, "all": q.All}, nil
}

func TestExplanation(t *testing.T) {
	f := serve(t)
	for query, want := range map[string]int{
		"gpu=GPU-a&hour=2026-03-01T00:00:00Z&all=true": http.StatusOK,
		"gpu=GPU-b&hour=2026-03-01T00:00:00Z":          http.StatusNotFound,
		"gpu=GPU-a&pod=p&hour=2026-03-01T00:00:00Z":    http.StatusUnprocessableEntity,
		"hour=2026-03-01T00:00:00Z":                    http.StatusUnprocessableEntity,
		"gpu=GPU-a":                                    http.StatusUnprocessableEntity,
		"gpu=GPU-a&hour=2026-03-01T00:30:00Z":          http.StatusUnprocessableEntity,
		"gpu=GPU-a&hour=2026-13-01T00:00:00Z":          http.StatusUnprocessableEntity,
	} {
		code, body, _ := get(t, f, "/api/v1/explanation?"+query)
		if code != want || code == http.StatusOK && !strings.Contains(body, `"all":true`) {
			t.Errorf("%s: got %d, want %d: %s", query, code, want, body)
		}
	}
}

// request is one as from a client on this machine.
func request(t *testing.T, method, path string, body io.Reader) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, body)
	r.Host, r.RemoteAddr = "127.0.0.1:9415", "127.0.0.1:1234"
	return r
}

func get(t *testing.T, h http.Handler, path string) (int, string, string) {
	t.Helper()
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, request(t, http.MethodGet, path, nil))
	return answer.Code, answer.Body.String(), answer.Header().Get("Content-Type")
}

func TestAnswers(t *testing.T) {
	h := serve(t)
	cases := map[string]struct{ path, want string }{
		"invoices":      {"/api/v1/invoices?period=2026-03", `"number":"2026-03-ml/train-r0"`},
		"money is text": {"/api/v1/drafts/2026-03/ml%2Ftrain", `"list":"2.49"`},
		"tenants":       {"/api/v1/tenants", `{"tenants":[{"tenant":"ml/train","time_zone":"UTC","first_hour":"2026-03-01T00:00:00Z","last_hour":"2026-03-01T00:00:00Z","months":["2026-03"]}]}`},
		"chargeback":    {"/api/v1/exports/chargeback.csv?period=2026-03", "2026-03,2026-03-ml/train-r0,draft,ml/train,list"},
		"platform":      {"/api/v1/platform/2026-03", `"capacity_list":"2.49"`},
		"no usage":      {"/api/v1/invoices?period=2026-05", `"invoices":[]`},
		"one invoice":   {"/api/v1/drafts/2026-03/ml%2Ftrain", `"total":"2.49"`},
		"usage": {"/api/v1/usage?from=2026-03-01&to=2026-03-02&by=tenant", `{"from":"2026-03-01T00:00:00Z","to":"2026-03-02T00:00:00Z","by":["tenant"],"rows":[{"group":{"tenant":"ml/train"},"kind":"owner",` +
			`"active_slice_ms":"25200000","idle_slice_ms":"0","unproven_slice_ms":"0","free_slice_ms":"0","stranded_slice_ms":"0","unhealthy_slice_ms":"0","unobserved_slice_ms":"0","gpu_hours":"1","energy_joules":"1.500"}]}`},
		"usage by default": {"/api/v1/usage?from=2026-03-01T00:00:00Z&to=2026-03-02", `"by":["tenant"]`},
		"anomalies": {"/api/v1/anomalies?from=2026-03-01T04:00:00Z&to=2026-03-02", `{"from":"2026-03-01T04:00:00Z","to":"2026-03-02T00:00:00Z","anomalies":[{"id":"x1","kind":"idle_allocation","cluster":"c","tenant":"ml","project":"","workload":"w","node":"","gpu":"GPU-a","leaf":"",` +
			`"start":"2026-03-01T00:00:00Z","end":"2026-03-01T05:00:00Z","wasted_gpu_hours":"5","wasted_cost":"12.45","currency":"USD","evidence":"idle for 5 h",` +
			`"user":"ann","cause":"parked","grade":"proven","open":true,"leaves":1,"severity":"","observed":0,"expected":0,"score":0}]}`},
		"anomalies of a kind":   {"/api/v1/anomalies?from=2026-03-01&to=2026-04-01&kind=off_hours_spike", `"id":"x2"`},
		"anomalies of devices":  {"/api/v1/anomalies?from=2026-02-01&to=2026-03-01&kind=gpu_errors", `"id":"x4","kind":"gpu_errors","cluster":"c","tenant":"",`},
		"anomalies of a tenant": {"/api/v1/anomalies?from=2026-03-01&to=2026-04-01&tenant=other", `"anomalies":[]`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			status, body, _ := get(t, h, c.path)
			if status != http.StatusOK || !strings.Contains(body, c.want) {
				t.Errorf("%s = %d %s, want it to contain %s", c.path, status, body, c.want)
			}
		})
	}
}

func TestProblemsNameTheParameter(t *testing.T) {
	h := serve(t)
	cases := map[string]struct {
		path   string
		status int
		want   string
	}{
		"no period":        {"/api/v1/invoices?status=draft", 422, "query.period"},
		"bad period":       {"/api/v1/invoices?period=March", 422, `"location":"query.period","value":"March"`},
		"bad path":         {"/api/v1/drafts/2026-3/ml", 422, `"location":"path.period","value":"2026-3"`},
		"nobody":           {"/api/v1/drafts/2026-03/nobody", 404, "no invoice"},
		"unknown query":    {"/api/v1/invoices?period=2026-03&colour=a", 422, "query.colour"},
		"no from":          {"/api/v1/usage?to=2026-03-02", 422, "query.from"},
		"bad from":         {"/api/v1/usage?from=now&to=2026-03-02", 422, `"location":"query.from","value":"now"`},
		"half an hour":     {"/api/v1/usage?from=2026-03-01&to=2026-03-01T00:30:00Z", 422, `"location":"query.to"`},
		"backwards":        {"/api/v1/usage?from=2026-03-02&to=2026-03-01", 422, "to must come after from"},
		"more than 400 d":  {"/api/v1/usage?from=2025-01-01&to=2026-03-01", 422, "a range is at most 400 days"},
		"bad column":       {"/api/v1/usage?from=2026-03-01&to=2026-03-02&by=colour", 422, `"location":"query.by[0]","value":"colour"`},
		"limit of nothing": {"/api/v1/usage?from=2026-03-01&to=2026-03-02&limit=0", 422, "query.limit"},
		"limit of letters": {"/api/v1/usage?from=2026-03-01&to=2026-03-02&limit=x", 422, "query.limit"},
		"bad kind":         {"/api/v1/anomalies?from=2026-03-01&to=2026-03-02&kind=x", 422, "query.kind"},
		"year 9999":        {"/api/v1/invoices?period=9999-12", 422, `"location":"query.period","value":"9999-12"`},
		"year 0":           {"/api/v1/drafts/0000-01/ml", 422, `"location":"path.period","value":"0000-01"`},
		"far future":       {"/api/v1/usage?from=9999-01-01&to=9999-02-01", 422, "to match pattern"},
		"far past":         {"/api/v1/anomalies?from=0001-01-01&to=0001-01-02", 422, "to match pattern"},
		"repeated":         {"/api/v1/usage?from=2026-03-01&to=2026-03-02&tenant=a&tenant=b", 422, `"location":"query.tenant","value":["a","b"]`},
		"no tenant":        {"/api/v1/usage?from=2026-03-01&to=2026-03-02&tenant=", 422, "query.tenant"},
		"no tenant at all": {"/api/v1/anomalies?from=2026-03-01&to=2026-03-02&tenant", 422, "query.tenant"},
		"no query string":  {"/api/v1/anomalies?from=2026-03-01&to=2026-03-02&tenant=%zz", 422, "is not a query string"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { wantProblem(t, h, c.path, c.status, c.want) })
	}
	if err := h.db.Exec(t.Context(), "DROP TABLE usage_hourly"); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, h, "/api/v1/invoices?period=2026-03", 500, "the service's log says why")
}

func wantProblem(t *testing.T, h http.Handler, path string, wantStatus int, want string) {
	t.Helper()
	status, body, contentType := get(t, h, path)
	if status != wantStatus || !strings.Contains(body, want) || contentType != "application/problem+json" {
		t.Errorf("%s = %d %s %s, want %d problem with %s", path, status, contentType, body, wantStatus, want)
	}
}

func TestDescriptionIsOpenAPI31WithMoneyAsText(t *testing.T) {
	h := serve(t)
	status, body, _ := get(t, h, "/openapi.json")
	if status != http.StatusOK {
		t.Fatalf("status = %d", status)
	}
	var doc struct {
		OpenAPI    string                     `json:"openapi"`
		Paths      map[string]json.RawMessage `json:"paths"`
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Type any `json:"type"`
				} `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") || len(doc.Paths) != 20 {
		t.Errorf("openapi %s with %d paths, want 3.1 with 20", doc.OpenAPI, len(doc.Paths))
	}
	if diff := cmp.Diff("string", doc.Components.Schemas["Effects"].Properties["list"].Type); diff != "" {
		t.Errorf("type of an amount (-want +got):\n%s", diff)
	}
}

func TestDocsLoadNothingFromElsewhere(t *testing.T) {
	h := serve(t)
	status, body, contentType := get(t, h, "/docs")
	if status != http.StatusOK || !strings.HasPrefix(contentType, "text/html") {
		t.Errorf("docs = %d %s", status, contentType)
	}
	for _, bad := range []string{"http:", "https:", "src=", "//"} {
		if strings.Contains(body, bad) {
			t.Errorf("docs contain %q", bad)
		}
	}
}

func TestTheRootLeadsToTheDocs(t *testing.T) {
	h := serve(t)
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, request(t, http.MethodGet, "/", nil))
	if answer.Code != http.StatusFound || answer.Header().Get("Location") != "/docs" {
		t.Errorf("/ = %d to %q, want a redirect to /docs", answer.Code, answer.Header().Get("Location"))
	}
	if status, _, _ := get(t, h, "/nothing"); status != http.StatusNotFound {
		t.Errorf("/nothing = %d, want 404", status)
	}
}

func TestMountNeedsAllDeps(t *testing.T) {
	if err := api.Mount(http.NewServeMux(), api.Deps{}); err == nil {
		t.Error("an API without dependencies was mounted")
	}
}

// markedID is a finding's; the episodes of the fixture have shorter ones.
const markedID = "0123456789abcdef0123456789abcdef"

const insertMarkedSQL = `INSERT INTO anomalies
(id, kind, cluster, tenant, project, workload, start, end, wasted_gpu_hours, wasted_cost, evidence, version, deleted, open) VALUES
('0123456789abcdef0123456789abcdef', 'idle_allocation', 'c', 'ml', 'p', 'w', '2026-03-05 00:00:00', '2026-03-05 05:00:00', 5, 0, 'idle', 1, 0, 0),
('ffffffffffffffffffffffffffffffff', 'idle_allocation', 'c', 'ml', 'p', 'gone', '2026-03-05 00:00:00', '2026-03-05 05:00:00', 5, 0, 'idle', 1, 1, 0)`

const marks = "/api/v1/anomalies/marks"

// episodesOf are the ids of a query's answer.
func episodesOf(t *testing.T, f *fixture, query string) (ids []string, body string) {
	t.Helper()
	_, body, _ = get(t, f, "/api/v1/anomalies?from=2026-03-01&to=2026-04-01&"+query)
	var page struct{ Anomalies []struct{ ID string } }
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	for _, n := range page.Anomalies {
		ids = append(ids, n.ID)
	}
	return ids, body
}

func TestFindingsAreMarked(t *testing.T) {
	f := serve(t)
	if err := f.db.Exec(t.Context(), insertMarkedSQL); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct{ body, answer string }{
		{`{"action":"ack","id":"` + markedID + `","who":"ann"}`, `{"action":"ack","id":"` + markedID + `","kind":"idle_allocation"}`},
		{`{"action":"judge","id":"` + markedID + `","verdict":"planned","who":"ann"}`, `{"action":"judge","id":"` + markedID + `","kind":"idle_allocation","verdict":"planned"}`},
		{
			`{"action":"mute","tenant":"ml","workload":"w","reason":"rollout","until":"2026-12-01T01:00:00+01:00","who":"ann"}`,
			`{"action":"mute","tenant":"ml","workload":"w","owner":"ann","reason":"rollout","until":"2026-12-01T00:00:00Z"}`,
		},
	} {
		w := post(t, f, marks, fmt.Sprint("m", i), c.body)
		if w.Code != http.StatusCreated || strings.TrimSpace(w.Body.String()) != c.answer {
			t.Errorf("%s: %d %s, want %s", c.body, w.Code, w.Body, c.answer)
		}
	}
	const fields = `"leaves":0,"severity":"","observed":0,"expected":0,"score":0,"acknowledged_by":"ann","muted_until":"2026-12-01T00:00:00Z","mute_owner":"ann","mute_reason":"rollout","judged":"planned"}`
	if _, body := episodesOf(t, f, ""); !strings.Contains(body, fields) {
		t.Errorf("the list %s lacks %s", body, fields)
	}
	for query, want := range map[string][]string{
		"": {"x1", "x2", markedID}, "muted=true": {"x1", "x2", markedID}, "muted=false": nil,
		"state=open": {"x1"}, "state=closed": {"x2", markedID},
	} {
		if ids, _ := episodesOf(t, f, query); !slices.Equal(ids, want) {
			t.Errorf("episodes of %q are %v, want %v", query, ids, want)
		}
	}
	f.register.Clock.Advance(40 * 24 * time.Hour)
	if ids, body := episodesOf(t, f, "muted=false"); len(ids) != 3 || !strings.Contains(body, `"acknowledged_by":"ann","judged":"planned"}`) {
		t.Errorf("after the mute's end: %s", body)
	}
	if w := post(t, f, marks, "c", `{"action":"clear","id":"`+markedID+`","who":"bob"}`); w.Code != http.StatusCreated {
		t.Errorf("clear = %d %s", w.Code, w.Body)
	}
	if _, body := episodesOf(t, f, ""); strings.Contains(body, "acknowledged_by") {
		t.Errorf("after clear: %s", body)
	}
	if _, body, _ := get(t, f, "/api/v1/decisions?kind=finding"); strings.Count(body, `"subject":`) != 4 || !strings.Contains(body, `"subject":"mute tenant ml, workload w","who":"ann"`) {
		t.Errorf("the audit log has %s", body)
	}
}

// TestMarksSentTwiceAreOne also where the finding is gone by then.
func TestMarksSentTwiceAreOne(t *testing.T) {
	f := serve(t)
	if err := f.db.Exec(t.Context(), insertMarkedSQL); err != nil {
		t.Fatal(err)
	}
	judge := `{"action":"judge","id":"` + markedID + `","verdict":"useful","who":"ann"}`
	first := post(t, f, marks, "k", judge)
	if err := f.db.Exec(t.Context(), "TRUNCATE TABLE anomalies"); err != nil {
		t.Fatal(err)
	}
	again := post(t, f, marks, "k", judge)
	if first.Code != 201 || again.Code != 200 || again.Header().Get("Idempotency-Replayed") != "true" || first.Body.String() != again.Body.String() {
		t.Errorf("%d %s, then %d %v %s", first.Code, first.Body, again.Code, again.Header(), again.Body)
	}
	if err := f.db.Exec(t.Context(), insertMarkedSQL); err != nil {
		t.Fatal(err)
	}
	var created atomic.Int64
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			if post(t, f, marks, "at once", judge).Code == http.StatusCreated {
				created.Add(1)
			}
		})
	}
	if group.Wait(); created.Load() != 1 {
		t.Errorf("%d of 10 at once decided, want 1", created.Load())
	}
	if w := post(t, f, marks, "k", strings.Replace(judge, "useful", "false", 1)); w.Code != 409 {
		t.Errorf("another verdict with the key: %d %s", w.Code, w.Body)
	}
	if w := post(t, f, "/api/v1/price-books", "k", `{"text":"`+otherBook+`","who":"ann"}`); w.Code != 409 {
		t.Errorf("a book with the key: %d %s", w.Code, w.Body)
	}
	if _, body, _ := get(t, f, "/api/v1/decisions?kind=finding"); strings.Count(body, `"offset":`) != 2 {
		t.Errorf("the audit log has %s, want two", body)
	}
}

// TestMarksAreRefused with a reason, and leave nothing in the log.
func TestMarksAreRefused(t *testing.T) {
	f := serve(t)
	if err := f.db.Exec(t.Context(), insertMarkedSQL); err != nil {
		t.Fatal(err)
	}
	mute := func(fields string) string { return `{"action":"mute","who":"ann",` + fields + `}` }
	for body, want := range map[string]int{
		mute(`"tenant":"ml","reason":"r"`):                                   422, // no end
		mute(`"tenant":"ml","reason":"r","until":"2026-11-10T12:00:00Z"`):    422, // now
		mute(`"tenant":"ml","reason":"r","until":"2027-11-12T12:00:00Z"`):    422, // in more than a year
		mute(`"tenant":"ml","until":"2026-12-01T00:00:00Z"`):                 422, // no reason
		mute(`"reason":"r","until":"2026-12-01T00:00:00Z"`):                  422, // of everything
		mute(`"tenant":"ml","reason":"\u0007","until":"2026-12-01T00:00Z"`):  422,
		mute(`"kind":"odd","reason":"r","until":"2026-12-01T00:00:00Z"`):     422,
		mute(`"tenant":"` + strings.Repeat("x", 401) + `","until":"soon"`):   422,
		`{"action":"forget","id":"` + markedID + `","who":"ann"}`:            422,
		`{"action":"ack","id":"x1","who":"ann"}`:                             422,
		`{"action":"ack","tenant":"ml","who":"ann"}`:                         422,
		`{"action":"ack","id":"` + markedID + `","tenant":"a","who":"ann"}`:  422,
		`{"action":"ack","id":"` + markedID + `"}`:                           422,
		`{"action":"ack","id":"` + markedID + `","who":"\u0430nn"}`:          422,
		`{"action":"judge","id":"` + markedID + `","who":"ann"}`:             422,
		`{"action":"judge","id":"` + markedID + `","verdict":"x","who":"a"}`: 422,
		`{"action":"ack","id":"` + strings.Repeat("0", 32) + `","who":"a"}`:  404,
		`{"action":"ack","id":"` + strings.Repeat("f", 32) + `","who":"a"}`:  404, // no longer found
		`{"action":"clear","id":"` + markedID + `","who":"ann"}`:             404, // no marks
		`{"action":"clear","tenant":"ml","who":"ann"}`:                       404,
		`{"action":"ack","id":null,"who":"ann"}`:                             400,
	} {
		if w := post(t, f, marks, "k", body); w.Code != want || w.Header().Get("Content-Type") != guard.ProblemType {
			t.Errorf("%s: %d %s, want the problem %d", body, w.Code, w.Body, want)
		}
	}
	if w := post(t, f, marks, "", `{"action":"ack","id":"`+markedID+`","who":"ann"}`); w.Code != 422 {
		t.Errorf("without a key: %d %s", w.Code, w.Body)
	}
	r := request(t, http.MethodPost, marks, strings.NewReader(`{"action":"ack","id":"`+markedID+`","who":"ann"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "k")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	w := httptest.NewRecorder()
	if f.ServeHTTP(w, r); w.Code != http.StatusForbidden {
		t.Errorf("from another site: %d %s", w.Code, w.Body)
	}
	if _, body, _ := get(t, f, "/api/v1/decisions"); !strings.Contains(body, `"decisions":[]`) {
		t.Errorf("the audit log has %s", body)
	}
}
