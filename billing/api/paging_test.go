package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

const insertEpisodesSQL = `INSERT INTO anomalies
(id, kind, cluster, tenant, workload, gpu, start, end, wasted_gpu_hours, wasted_cost, currency, evidence, version, deleted)
SELECT 'e' || toString(number), 'idle_allocation', 'c', 'ml', 'w', 'GPU-a', toDateTime('2026-03-01 00:00:00', 'UTC') + 1800 * intDiv(number, 3),
    toDateTime('2026-03-02 00:00:00', 'UTC'), 5, 12.45, 'USD', 'idle', 1, 0 FROM numbers(7)`

// paging is a ledger in which every list has several items.
func paging(t *testing.T) *fixture {
	t.Helper()
	db := storetest.Open(t)
	for i, tenant := range []string{"a", "b/c", "=d", "é", "zz"} {
		for hour := range 2 {
			g := gpuHour(tenant, uint64(9_000_000+i))
			g.Hour = firstHour.Add(time.Duration(hour) * time.Hour)
			usagetest.Insert(t, db, g)
		}
	}
	if err := db.Exec(t.Context(), insertEpisodesSQL); err != nil {
		t.Fatal(err)
	}
	f := mount(t, db, prices.Default())
	for _, tenant := range []string{"a", "b/c", "=d"} {
		if w := post(t, f, "/api/v1/invoices", "key "+tenant, fmt.Sprintf(`{"period":"2026-03","tenant":%q,"who":"alice"}`, tenant)); w.Code != 201 {
			t.Fatalf("finalise %s = %d %s", tenant, w.Code, w.Body)
		}
	}
	for _, tenant := range []string{"a", "=d"} {
		late := gpuHour(tenant, 1)
		late.Version = 2
		usagetest.Insert(t, db, late)
	}
	publish := `{"text":"` + otherBook + `","who":"alice"}`
	if w := post(t, f, "/api/v1/price-books", "book", publish); w.Code != 201 {
		t.Fatalf("publish = %d %s", w.Code, w.Body)
	}
	return f
}

// items reads a list of an answer, and the way to the next page.
func items(t *testing.T, f *fixture, path, name string) (list []json.RawMessage, next, link string) {
	t.Helper()
	w := httptest.NewRecorder()
	f.ServeHTTP(w, request(t, http.MethodGet, path, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%s = %d %s", path, w.Code, w.Body)
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body[name], &list); err != nil {
		t.Fatalf("%s: %s of %s: %v", path, name, w.Body, err)
	}
	if body["next"] != nil {
		if err := json.Unmarshal(body["next"], &next); err != nil {
			t.Fatal(err)
		}
	}
	return list, next, w.Header().Get("Link")
}

var lists = map[string]struct {
	path, name string
	want       int
}{
	"tenants":     {"/api/v1/tenants?", "tenants", 5},
	"usage":       {"/api/v1/usage?from=2026-03-01&to=2026-03-02&by=tenant,hour&", "rows", 12}, // the platform has a row an hour
	"anomalies":   {"/api/v1/anomalies?from=2026-03-01&to=2026-03-03&", "anomalies", 7},
	"invoices":    {"/api/v1/invoices?period=2026-03&", "invoices", 5},
	"finalised":   {"/api/v1/invoices?status=finalised&", "invoices", 3},
	"lines":       {"/api/v1/invoices/2026-03-a-r0/lines?", "lines", 3},
	"evidence":    {"/api/v1/invoices/2026-03-a-r0/lines/1/evidence?", "gpu_hours", 2},
	"adjustments": {"/api/v1/adjustments?period=2026-03&", "adjustments", 2},
	"price books": {"/api/v1/price-books?", "price_books", 2},
	"decisions":   {"/api/v1/decisions?", "decisions", 6},
	"descending":  {"/api/v1/decisions?order=descending&", "decisions", 6},
}

// Pages of any size put together are the list, each item once; next and the Link
// header say the same.
func TestPagesAreTheList(t *testing.T) {
	f := paging(t)
	for name, list := range lists {
		t.Run(name, func(t *testing.T) {
			all, next, link := items(t, f, list.path+"limit=1000", list.name)
			if next != "" || link != "" {
				t.Fatalf("the whole list has next %q, link %q", next, link)
			}
			if len(all) != list.want {
				t.Errorf("%d items, want %d", len(all), list.want)
			}
			for _, limit := range []int{1, 2, 3} {
				var got []json.RawMessage
				path := fmt.Sprintf("%slimit=%d", list.path, limit)
				for at := path; at != ""; {
					var page []json.RawMessage
					page, next, link = items(t, f, at, list.name)
					if got = append(got, page...); len(got) > len(all) || len(page) > limit {
						t.Fatalf("limit %d: %d items on a page, %d in all", limit, len(page), len(got))
					}
					if at = ""; next != "" {
						at = path + "&cursor=" + next
						if !strings.Contains(link, "cursor="+next) || !strings.HasSuffix(link, `>; rel="next"`) {
							t.Errorf("link %s, next %s", link, next)
						}
					}
				}
				if diff := cmp.Diff(texts(all), texts(got)); diff != "" {
					t.Errorf("pages of %d (-want +got):\n%s", limit, diff)
				}
			}
		})
	}
}

func texts(list []json.RawMessage) (out []string) {
	for _, item := range list {
		out = append(out, string(item))
	}
	return out
}

// A tenant that comes between two pages moves none of the others.
func TestPagesAreStableUnderInserts(t *testing.T) {
	f := paging(t)
	first, next, _ := items(t, f, "/api/v1/invoices?period=2026-03&limit=2", "invoices")
	usagetest.Insert(t, f.db, gpuHour("+first", 1_000_000), gpuHour("c", 1_000_000))
	second, _, _ := items(t, f, "/api/v1/invoices?period=2026-03&limit=5&cursor="+next, "invoices")
	var got []string
	for _, item := range append(first, second...) {
		var one struct{ Tenant string }
		if err := json.Unmarshal(item, &one); err != nil {
			t.Fatal(err)
		}
		got = append(got, one.Tenant)
	}
	if diff := cmp.Diff([]string{"=d", "a", "b/c", "c", "zz", "é"}, got); diff != "" {
		t.Errorf("tenants (-want +got):\n%s", diff)
	}
}

func TestCursorsBelongToTheirQuery(t *testing.T) {
	f := paging(t)
	_, next, _ := items(t, f, "/api/v1/tenants?limit=1", "tenants")
	if again, _, _ := items(t, f, "/api/v1/tenants?limit=3&cursor="+next, "tenants"); len(again) != 3 {
		t.Errorf("another limit: %d items, want 3", len(again))
	}
	for path, want := range map[string]string{
		"/api/v1/tenants?tenant=a&cursor=" + next:                            "of another query",
		"/api/v1/price-books?cursor=" + next:                                 "of another query",
		"/api/v1/tenants?cursor=" + next[:len(next)-2]:                       "truncated or altered",
		"/api/v1/tenants?cursor=x":                                           "truncated or altered",
		"/api/v1/tenants?cursor=!!!!":                                        "truncated or altered",
		"/api/v1/tenants?cursor=" + strings.Repeat("A", 2001):                "length",
		"/api/v1/usage?from=2026-03-01&to=2026-03-02&by=hour&cursor=" + next: "of another query",
	} {
		wantProblem(t, f, path, 422, want)
	}
	// A cursor that was put together by hand has the right hash and a wrong key.
	for _, list := range lists {
		_, next, _ := items(t, f, list.path+"limit=1", list.name)
		if next == "" {
			continue
		}
		w := httptest.NewRecorder()
		f.ServeHTTP(w, request(t, http.MethodGet, list.path+"limit=1&cursor="+next[:11], nil))
		if w.Code >= 500 {
			t.Errorf("%s with a cursor without a key = %d %s", list.path, w.Code, w.Body)
		}
	}
}
