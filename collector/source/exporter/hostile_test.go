package exporter

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/costtest"
	"github.com/gputally/gputally/internal/wire"
)

// TestM10ExporterRedirectsAndSecrets: nobody else is asked, and nothing of an
// answer stands in errors or in the log.
func TestM10ExporterRedirectsAndSecrets(t *testing.T) {
	const secret = "wJalrXUtnFEMI"
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		t.Errorf("the redirect was followed to %s", req.URL)
	}))
	defer other.Close()
	write := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
	}
	for name, reply := range map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, other.URL+"/latest/"+secret, http.StatusFound)
		},
		"JSON":         write(`{"SecretAccessKey": "` + secret + `"}` + "\n"),
		"name":         write(secret + "\n"),
		"label":        write(`DCGM_FI_DEV_GPU_UTIL{` + secret + "} 1\n"),
		"value":        write(`DCGM_FI_DEV_GPU_UTIL{gpu="0"} ` + secret + "\n"),
		"time":         write(`DCGM_FI_DEV_GPU_UTIL{gpu="0"} 1 ` + secret + "\n"),
		"cut off":      write(secret),
		"unknown rows": write(`up{key="` + secret + `"} 1` + "\n"),
		"status":       func(w http.ResponseWriter, _ *http.Request) { http.Error(w, secret, http.StatusForbidden) },
		"no HTTP": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 "+secret+"\r\n\r\n")
				_ = conn.Close()
			}
		},
		"header": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+secret+"\r\n\r\n")
				_ = conn.Close()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			var log bytes.Buffer
			r.deps.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			r.restart()
			r.reply = reply
			_, err := r.read("")
			if err == nil || strings.Contains(err.Error()+log.String(), secret) {
				t.Errorf("got %v and log %s, want an error without the answer's text", err, log.String())
			}
		})
	}
}

// TestM11ATargetSpeaksForItsNodeAlone: what it says of another node's GPU is its
// own node's.
func TestM11ATargetSpeaksForItsNodeAlone(t *testing.T) {
	liar := newRig(t, nil) // only its server is used
	r := newRig(t, func(c *Config) {
		c.Targets[0].Node, c.Targets[0].TrustHostname = "n1", false
		c.Targets = append(c.Targets, Target{URL: liar.url, Node: "n2"})
	})
	liar.setText(row("DCGM_FI_DEV_GPU_UTIL", h100+`,namespace="framed",pod="p"`, 99) + row(energy, h100, 5_000_000))
	batches, err := r.read(row("DCGM_FI_DEV_GPU_UTIL", h100+owned, 3) + row(energy, h100, 1_000_000))
	if err != nil || len(batches) != 2 {
		t.Fatalf("got %d batches, %v; want one of each node", len(batches), err)
	}
	victim := batches[0]
	if victim.Node != "n1" || len(victim.Gpus) != 1 || victim.Enumeration != wire.Enumeration_ENUMERATION_COMPLETE {
		t.Fatalf("got %v, want n1 with its GPU", victim)
	}
	diff(t, []*wire.Hold{{Leaf: "gpu", Owner: &wire.Owner{Namespace: "team-a", Pod: "train-0", Container: "main"}}}, victim.Gpus[0].Holds)
	if got := victim.Gpus[0].Leaves[0].GetGpuUtil(); got != 3 {
		t.Errorf("utilisation %v, want the node's own 3", got)
	}
}

// rows writes lines until the client has had enough.
func rows(n int, line func(i int) string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := range n {
			if _, err := io.WriteString(w, line(i)); err != nil {
				return
			}
		}
	}
}

// TestM11AGreedyTargetHarmsNobody: it is named and gives nothing, its memory is
// bounded, and the other target's batch is there.
func TestM11AGreedyTargetHarmsNobody(t *testing.T) {
	for name, c := range map[string]struct {
		reply  http.HandlerFunc
		change func(*Target)
		want   string
	}{
		"300,000 rows of nodes": {rows(300_000, func(i int) string {
			return fmt.Sprintf("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-%d\",Hostname=\"n%d\"} 1\n", i, i)
		}), nil, "more than one node"},
		"the same, trusted": {rows(300_000, func(i int) string {
			return fmt.Sprintf("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-%d\",Hostname=\"n%d\"} 1\n", i, i)
		}), func(t *Target) { t.TrustHostname, t.MaxNodes = true, 50 }, "more than 50 nodes"},
		"300,000 GPUs of a node": {rows(300_000, func(i int) string {
			return fmt.Sprintf("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-%d\"} 1\n", i)
		}), nil, "more than 64 GPUs"},
		"60 MiB of tiny series": {rows(3_000_000, func(i int) string {
			return fmt.Sprintf("dcgm_sm_clock{gpu=\"%d\"} 1\n", i%10)
		}), nil, "body_limit_bytes"},
		"60 MiB of tiny series with labels": {rows(3_000_000, func(i int) string {
			return fmt.Sprintf("dcgm_sm_clock{gpu=\"1\",a=\"%d\"} 1\n", i)
		}), nil, "bytes"},
		"60 MiB of unknown series": {rows(6_000_000, func(int) string { return "a{b=\"c\"} 1\n" }), nil, "body_limit_bytes"},
		"one line of 60 MiB":       {rows(60<<10, func(int) string { return strings.Repeat("x", 1024) }), nil, "line 1 is longer"},
	} {
		t.Run(name, func(t *testing.T) {
			greedy := newRig(t, nil) // only its server is used
			greedy.reply = c.reply
			r := newRig(t, func(cfg *Config) {
				target := Target{URL: greedy.url, Node: "n2"}
				if c.change != nil {
					c.change(&target)
				}
				cfg.Targets = append(cfg.Targets, target)
			})
			var batches []*wire.Batch
			var err error
			peak := costtest.Peak(func() { batches, err = r.read(row("DCGM_FI_DEV_GPU_UTIL", h100, 3)) })
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if len(batches) != 1 || batches[0].Node != "n1" {
				t.Errorf("got %d batches, want the other target's", len(batches))
			}
			t.Logf("held %d KiB more", peak>>10)
			if peak > 96<<20 {
				t.Errorf("held %d MiB more, want at most 96", peak>>20)
			}
			for _, f := range must(r.reg.Gather()) {
				if len(f.Metric) > 20 {
					t.Errorf("%s has %d series", f.GetName(), len(f.Metric))
				}
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestM11SlowTargetsWaitForTheOthers: more of them than are scraped at once delay
// the good one in the first slot at most.
func TestM11SlowTargetsWaitForTheOthers(t *testing.T) {
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		select {
		case <-req.Context().Done():
		case <-release:
		}
	}))
	defer slow.Close()
	defer close(release)
	r := newRig(t, func(c *Config) {
		good := c.Targets[0]
		c.Targets, c.Timeout = nil, 100*time.Millisecond
		for i := range parallelScrapes + 10 {
			c.Targets = append(c.Targets, Target{URL: fmt.Sprintf("%s/%d", slow.URL, i)})
		}
		c.Targets = append(c.Targets, good)
	})
	r.deps.HTTPClient = nil
	r.restart()
	var batches []*wire.Batch
	for range 2 {
		batches, _ = r.read(row("DCGM_FI_DEV_GPU_UTIL", h100, 3))
	}
	if len(batches) != 1 {
		t.Fatalf("got %d batches, want the good target's", len(batches))
	}
	if last := r.src.targets[len(r.src.targets)-1]; last.slow || !r.src.targets[0].slow {
		t.Error("slow targets are not told from the good one")
	}
}

// TestM11LimitsAreChecked: limits that can't be meant are refused.
func TestM11LimitsAreChecked(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"body_limit_bytes 67108865": func(c *Config) { c.BodyLimitBytes = MaxBodyLimitBytes + 1 },
		"requires trust_hostname":   func(c *Config) { c.Targets[0].MaxNodes = 2 },
		"must not be negative":      func(c *Config) { c.Targets[0].MaxGPUs = -1 },
	} {
		cfg := DefaultConfig()
		cfg.Targets = []Target{{URL: "http://n1:9400/metrics"}}
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// FuzzExposition: any text is read or refused, in time and memory that grow with
// its length alone, and an error repeats nothing of it.
func FuzzExposition(f *testing.F) {
	f.Add([]byte(row("DCGM_FI_DEV_GPU_UTIL", h100+owned, 97) + eighth))
	f.Add([]byte("# HELP DCGM_FI_DEV_FB_USED (in " + strings.Repeat("(in ", 100) + "\n"))
	f.Add([]byte(`DCGM_FI_DEV_GPU_UTIL{a="\\\"` + "\n"))
	f.Add([]byte("DCGM_FI_DEV_GPU_UTIL{,} 1 2\n\r\n{} 1\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		r := reading{target: &target{maxNodes: 1, maxGPUs: 64}}
		costtest.Within(t, costtest.Time, 1<<20+uint64(len(body))*4000, func() {
			if _, err := r.parse(bytes.NewReader(body), mostHeldBytes); err != nil && len(err.Error()) > 200 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	})
}

// TestM11ModelsInMetricsAreFew: whatever an exporter calls its GPUs.
func TestM11ModelsInMetricsAreFew(t *testing.T) {
	r := newRig(t, nil)
	for slot := range 3 {
		var text string
		for i := range 60 {
			labels := fmt.Sprintf(`gpu="%d",UUID="GPU-%d-%d",modelName="X%d-%d"`, i, slot, i, slot, i)
			text += row("DCGM_FI_DEV_GPU_TEMP", labels+gi(1, "9g.9gb"), 40)
		}
		if _, err := r.read(text); err == nil {
			t.Fatal("models without slices are not named")
		}
	}
	for _, f := range must(r.reg.Gather()) {
		if len(f.Metric) > maxModels+2 {
			t.Errorf("%s has %d series", f.GetName(), len(f.Metric))
		}
	}
}
