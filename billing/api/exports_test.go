package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gputally/gputally/internal/usage/usagetest"
)

func TestExportsAreFilesOrProblems(t *testing.T) {
	f := serve(t)
	for path, c := range map[string]struct{ name, want string }{
		"/api/v1/exports/chargeback.csv?period=2026-03":                       {"chargeback-2026-03.csv", "2026-03,2026-03-ml/train-r0,draft,ml/train,list"},
		"/api/v1/exports/chargeback.csv?period=2026-05":                       {"chargeback-2026-05.csv", "period,invoice,status"},
		"/api/v1/exports/focus.csv?period=2026-03":                            {"focus-1.2-2026-03.csv", "Acme GPU Platform"},
		"/api/v1/exports/focus.csv?period=2026-03&version=1.4":                {"focus-1.4-2026-03.csv", "ml/train"},
		"/api/v1/exports/focus.csv?period=2026-03&version=1.2&validator=true": {"focus-1.2-2026-03.csv", "ml/train"},
	} {
		w := httptest.NewRecorder()
		f.ServeHTTP(w, request(t, http.MethodGet, path, nil))
		if w.Code != 200 || !strings.Contains(w.Body.String(), c.want) || w.Header().Get("Content-Disposition") != `attachment; filename="`+c.name+`"` ||
			w.Header().Get("Content-Type") != "text/csv; charset=utf-8; header=present" || w.Header().Get("ETag") != "" {
			t.Errorf("%s = %d %v %s, want the file %s with %s", path, w.Code, w.Header(), w.Body, c.name, c.want)
		}
	}
	wantProblem(t, f, "/api/v1/exports/focus.csv?period=2026-03&version=1.4&validator=true", 422, "query.validator")
	wantProblem(t, f, "/api/v1/exports/focus.csv?period=2026-03&version=1.3", 422, "query.version")
	usagetest.Insert(t, f.db, usagetest.GPUHour{Hour: firstHour, GPU: "GPU-b", Model: "B300", Slices: 7})
	w := httptest.NewRecorder()
	f.ServeHTTP(w, request(t, http.MethodGet, "/api/v1/exports/chargeback.csv?period=2026-03", nil))
	if w.Code != 200 || !strings.Contains(w.Body.String(), "platform,,left_out,") || !strings.Contains(w.Body.String(), `price model ""B300""`) {
		t.Errorf("%d %s, want a row that says what is left out for want of a rate", w.Code, w.Body)
	}
}
