package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

var update = flag.Bool("update", false, "write the answers into docs/reference/api.md")

// Every answer in docs/reference/api.md is what the API answers; -update writes them. A
// cursor or an ETag that a request of the page sends is taken from the page.
func TestDocumentedAnswersAreReal(t *testing.T) {
	const page = "../../docs/reference/api.md"
	have, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	db := storetest.Open(t)
	for i, tenant := range []string{"ml-serve", "ml-train", "research"} {
		for hour := range 3 {
			g := gpuHour(tenant, 25_200_000)
			g.Hour, g.Owners[0].EnergyMJ = time.Date(2026, 10, 2+i, 8+hour, 0, 0, 0, time.UTC), 900_000_000
			usagetest.Insert(t, db, g)
		}
	}
	f := mount(t, db, prices.Default())
	var want strings.Builder
	answering := false
	for line := range strings.Lines(string(have)) {
		switch {
		case strings.HasPrefix(line, "$ curl "):
			answering = true
			want.WriteString(line + curl(t, f, strings.TrimSpace(line)))
			continue
		case strings.HasPrefix(line, "```"):
			answering = false
		}
		if !answering {
			want.WriteString(line)
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(want.String()), 0o644); err != nil { //nolint:gosec // a page for everyone
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want.String(), string(have)); diff != "" {
		t.Errorf("docs/reference/api.md (-want +got); -update writes it:\n%s", diff)
	}
}

// curl does what a command of the page says, and answers as the page shows it.
func curl(t *testing.T, f *fixture, command string) string {
	t.Helper()
	var body, target string
	header, showHeaders := http.Header{}, false
	words := quoted(command)[2:]
	for i := 0; i < len(words); i++ {
		switch word := words[i]; word {
		case "-s":
		case "-si":
			showHeaders = true
		case "--unix-socket":
			i++
		case "-H":
			i++
			name, value, _ := strings.Cut(words[i], ": ")
			header.Set(name, value)
		case "-d":
			i++
			body = words[i]
		default:
			target = word
		}
	}
	at, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	r := request(t, method, at.RequestURI(), strings.NewReader(body))
	r.Header = header
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return shown(t, w, showHeaders)
}

// quoted splits a command at spaces outside of single quotes.
func quoted(command string) (words []string) {
	for i, part := range strings.Split(command, "'") {
		if i%2 == 1 {
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	return words
}

func shown(t *testing.T, w *httptest.ResponseRecorder, headers bool) string {
	t.Helper()
	var out strings.Builder
	if headers {
		fmt.Fprintf(&out, "HTTP/1.1 %d %s\n", w.Code, http.StatusText(w.Code))
		for _, name := range []string{"Content-Type", "ETag", "Location", "Idempotency-Replayed"} {
			if value := w.Header().Get(name); value != "" {
				fmt.Fprintf(&out, "%s: %s\n", name, value)
			}
		}
	}
	if w.Body.Len() == 0 {
		return out.String()
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, w.Body.Bytes(), "", " "); err != nil {
		t.Fatalf("answer %s: %v", w.Body, err)
	}
	return out.String() + strings.TrimSpace(indented.String()) + "\n"
}

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
