package prometheus

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// answers makes every query's answer.
func (r *rig) answers(status int, body string) {
	r.reply = func(w http.ResponseWriter, req *http.Request) bool {
		if !strings.HasSuffix(req.URL.Path, "/query") {
			return false
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	const empty = `"data":{"resultType":"matrix","result":[]}`
	for name, c := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"unprocessable":   {422, `{"status":"error","errorType":"execution","error":"expanding series: context deadline exceeded"}`, `answered 422 Unprocessable Entity: the server reports the error execution `},
		"bad selector":    {400, `{"status":"error","errorType":"bad_data","error":"1:9: parse error"}`, `error bad_data`},
		"error with 200":  {200, `{"status":"error","errorType":"internal","error":"boom"}`, `error internal with a message of 4 bytes`},
		"warnings":        {200, `{"status":"success",` + empty + `,"warnings":["store b: unavailable"]}`, `may be partial, it has 1 warnings`},
		"partial":         {200, `{"status":"success","isPartial":true,` + empty + `}`, `the answer is partial`},
		"vector":          {200, `{"status":"success","data":{"resultType":"vector","result":[]}}`, `the answer is not a matrix`},
		"cut off":         {200, `{"status":"success","data":{"resul`, `not the HTTP API's JSON`},
		"a page":          {200, `<html>login</html>`, `not the HTTP API's JSON`},
		"unauthorised":    {401, `Unauthorized`, `answered 401 Unauthorized (content type`},
		"sample not pair": {200, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1]]}]}}`, `not the HTTP API's JSON`},
		"away":            {503, `no healthy upstream`, `answered 503 Service Unavailable`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.Match = `{cluster="a"}` })
			r.answers(c.status, c.body)
			_, err := r.src.Read(t.Context(), slotAt(0))
			var query *QueryError
			if !errors.As(err, &query) {
				t.Fatalf("got %v, want a QueryError", err)
			}
			for _, part := range []string{c.want, r.url, `cluster="a"`, "2026-03-04T09:59:00Z to 2026-03-04T10:00:00Z"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error lacks %q: %v", part, err)
				}
			}
		})
	}
}

func TestBusyServerIsAskedAgain(t *testing.T) {
	r := newRig(t, nil)
	r.store("DCGM_FI_DEV_GPU_UTIL", h100, [2]float64{5, 3})
	asked := 0
	r.reply = func(w http.ResponseWriter, _ *http.Request) bool {
		if asked++; asked%3 != 0 {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return true
		}
		return false
	}
	if got := r.gpu(0).Leaves[0].GetGpuUtil(); got != 3 {
		t.Errorf("utilisation %v, want 3", got)
	}
	if n := r.counter("gputally_prometheus_queries_total"); n != 9 {
		t.Errorf("%v queries, want three that failed twice each: 9", n)
	}
}

// TestTooLargeAnswersAreHalved: by the server's limit, then by ours.
func TestTooLargeAnswersAreHalved(t *testing.T) {
	for name, refuse := range map[string]string{
		"server": `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory in query execution"}`,
		"ours":   strings.Repeat(" ", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.LeadIn, c.BodyLimitBytes = 0, 4000 })
			r.store("DCGM_FI_DEV_GPU_UTIL", h100, [2]float64{5, 3}, [2]float64{15, 4})
			r.reply = func(w http.ResponseWriter, req *http.Request) bool {
				var ms int
				query := req.FormValue("query")
				if _, err := fmt.Sscanf(query[strings.LastIndex(query, "[")+1:], "%dms]", &ms); err != nil || ms <= 15_000 {
					return false
				}
				if name == "server" {
					w.WriteHeader(http.StatusUnprocessableEntity)
				}
				_, _ = io.WriteString(w, refuse)
				return true
			}
			if got := r.gpu(0).Leaves[0].GetGpuUtil(); got != 3 {
				t.Errorf("utilisation %v, want 3", got)
			}
		})
	}
	r := newRig(t, nil)
	r.answers(422, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory"}`)
	if _, err := r.src.Read(t.Context(), slotAt(0)); err == nil || !strings.Contains(err.Error(), "too many samples") {
		t.Errorf("a slot that is too large: got %v, want the server's error", err)
	}
}

func TestHistoryCoarserThanTheSlotIsRefused(t *testing.T) {
	coarse := func(allow bool) *rig {
		r := newRig(t, func(c *Config) { c.AllowCoarse = allow })
		r.store("DCGM_FI_DEV_GPU_UTIL", h100, [2]float64{5, 1}, [2]float64{20.001, 2}, [2]float64{35, 3}, [2]float64{50, 3})
		return r
	}
	_, err := coarse(false).src.Read(t.Context(), slotAt(0))
	var interval *IntervalError
	if !errors.As(err, &interval) {
		t.Fatalf("got %v, want an IntervalError", err)
	}
	diff(t, IntervalError{Interval: 15 * time.Second, Slot: 10 * time.Second}, *interval)
	r := coarse(true)
	if got := r.gpu(0).Leaves[0].GetGpuUtil(); got != 1 {
		t.Errorf("utilisation %v, want 1", got)
	}
	if got := r.read(1); len(got) != 0 {
		t.Errorf("slot between two scrapes: got %v, want no batch", got)
	}
}

func TestTokenIsSent(t *testing.T) {
	r := newRig(t, func(c *Config) { c.BearerToken = "secret" })
	var got string
	r.reply = func(_ http.ResponseWriter, req *http.Request) bool {
		got = req.Header.Get("Authorization")
		return false
	}
	r.read(0)
	if got != "Bearer secret" {
		t.Errorf("Authorization %q", got)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"scheme \"ftp\"":                    func(c *Config) { c.URL = "ftp://x" },
		"has no host":                       func(c *Config) { c.URL = "http://" },
		"must end with the path":            func(c *Config) { c.URL = "http://x/api?y=1" },
		"is not before to":                  func(c *Config) { c.To = c.From },
		"must be a selector":                func(c *Config) { c.Match = "up" },
		"--url: ":                           func(c *Config) { c.URL = "https://user:hunter2@prometheus" },
		"--bearer-token-file":               func(c *Config) { c.URL = "https://hunter2@prometheus" },
		"is sent with TLS only":             func(c *Config) { c.URL, c.BearerToken = "http://prometheus:9090", "t" },
		"attempts 0: must be positive":      func(c *Config) { c.Attempts = 0 },
		"points_per_query -1: must be posi": func(c *Config) { c.PointsPerQuery = -1 },
	} {
		cfg := DefaultConfig()
		cfg.URL, cfg.From, cfg.To = "http://prometheus:9090/prefix", start, start.Add(time.Hour)
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v, want %q, and no password", err, want)
		}
	}
}

// TestM10PrometheusRedirectsAndSecrets: nobody else is asked, and nothing of an
// answer is repeated.
func TestM10PrometheusRedirectsAndSecrets(t *testing.T) {
	const secret = "wJalrXUtnFEMI"
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		t.Errorf("the redirect was followed to %s", req.URL)
	}))
	defer other.Close()
	for name, reply := range map[string]func(w http.ResponseWriter, req *http.Request){
		"redirect": func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, other.URL+"/"+secret, http.StatusFound)
		},
		"page":   func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>"+secret) },
		"status": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, secret, http.StatusForbidden) },
		"API error": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"status":"error","errorType":"`+secret+`","error":"`+secret+`"}`)
		},
		"warning": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"status":"success","warnings":["`+secret+`"]}`)
		},
		"type": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"`+secret+`"}}`)
		},
		"sample": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1,"`+secret+`"]]}]}}`)
		},
		"no HTTP": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, secret+"\r\n\r\n")
				_ = conn.Close()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.Attempts = 1 })
			r.reply = func(w http.ResponseWriter, req *http.Request) bool {
				reply(w, req)
				return true
			}
			if _, err := r.src.Read(t.Context(), slotAt(0)); err == nil || strings.Contains(err.Error(), secret) {
				t.Errorf("got %v, want an error without the answer's text", err)
			}
		})
	}
}
