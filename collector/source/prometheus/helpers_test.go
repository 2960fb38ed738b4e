package prometheus

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	prom "github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

var start = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

const slotLength = 10 * time.Second

// fakeServer answers with the stored samples of the range that was asked for,
// its first instant included, as Prometheus 2 does.
type fakeServer struct {
	t  *testing.T
	mu sync.Mutex
	// stored are series with samples as seconds after start and values.
	stored []storedSeries
	jobs   []string // whose labels were renamed
	// reply, if set, answers queries itself when it returns true.
	reply   func(w http.ResponseWriter, r *http.Request) bool
	queries []string
}

type storedSeries struct {
	labels map[string]string
	points [][2]float64
}

// store adds a series; labels are as text a="b",c="d".
func (f *fakeServer) store(name, labels string, points ...[2]float64) {
	all := map[string]string{"__name__": name, "job": "dcgm", "instance": "10.0.0.1:9400"}
	maps.Copy(all, labelsOf(labels))
	f.stored = append(f.stored, storedSeries{all, points})
}

func labelsOf(text string) map[string]string {
	out := map[string]string{}
	for _, pair := range strings.Split(text, ",") {
		k, v, _ := strings.Cut(pair, "=")
		out[k] = strings.Trim(v, `"`)
	}
	return out
}

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reply != nil && f.reply(w, r) {
		return
	}
	if strings.HasSuffix(r.URL.Path, "/api/v1/label/job/values") {
		f.answer(w, f.jobs)
		return
	}
	if !strings.HasSuffix(r.URL.Path, "/api/v1/query") {
		f.t.Errorf("asked for %s", r.URL.Path)
		http.NotFound(w, r)
		return
	}
	query := r.FormValue("query")
	f.queries = append(f.queries, query)
	var seconds float64
	var rangeMS int64
	if _, err := fmt.Sscanf(query[strings.LastIndex(query, "[")+1:], "%dms]", &rangeMS); err != nil {
		f.t.Errorf("query %s: %v", query, err)
	}
	if _, err := fmt.Sscan(r.FormValue("time"), &seconds); err != nil {
		f.t.Errorf("time %s: %v", r.FormValue("time"), err)
	}
	f.answer(w, map[string]any{"resultType": "matrix", "result": f.between(int64(seconds*1000+0.5)-rangeMS, int64(seconds*1000+0.5))})
}

func (f *fakeServer) between(fromMS, toMS int64) []map[string]any {
	out := []map[string]any{}
	for _, s := range f.stored {
		var values [][2]any
		for _, p := range s.points {
			if ms := start.UnixMilli() + int64(p[0]*1000); ms >= fromMS && ms <= toMS {
				values = append(values, [2]any{float64(ms) / 1000, fmt.Sprint(p[1])})
			}
		}
		if len(values) > 0 {
			out = append(out, map[string]any{"metric": s.labels, "values": values})
		}
	}
	return out
}

func (f *fakeServer) answer(w http.ResponseWriter, data any) {
	if err := json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": data}); err != nil {
		f.t.Error(err)
	}
}

// rig is a source over a fake server.
type rig struct {
	*fakeServer
	src *Source
	reg *prom.Registry
	url string
}

// newRig reads the minute from start on, with a minute of lead-in.
func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	r := &rig{fakeServer: &fakeServer{t: t}, reg: prom.NewRegistry()}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.url = server.URL
	cfg := DefaultConfig()
	cfg.URL, cfg.From, cfg.To, cfg.LeadIn, cfg.RetryMin = server.URL, start, start.Add(time.Minute), time.Minute, time.Millisecond
	if change != nil {
		change(&cfg)
	}
	src, err := New(cfg, Deps{Cluster: "c", HTTPClient: server.Client(), Clock: clock.Real(), Log: slog.New(slog.DiscardHandler), Registry: r.reg})
	if err != nil {
		t.Fatal(err)
	}
	r.src = src
	return r
}

func slotAt(n int) source.Slot { return source.At(start.Add(time.Duration(n)*slotLength), slotLength) }

// read reads a slot by its number.
func (r *rig) read(n int) []*wire.Batch {
	r.t.Helper()
	batches, err := r.src.Read(r.t.Context(), slotAt(n))
	if err != nil {
		r.t.Fatal(err)
	}
	return batches
}

// gpu is the only GPU of the only batch of a slot.
func (r *rig) gpu(n int) *wire.Gpu {
	r.t.Helper()
	batches := r.read(n)
	if len(batches) != 1 || len(batches[0].Gpus) != 1 {
		r.t.Fatalf("slot %d: got %v, want one GPU", n, batches)
	}
	return batches[0].Gpus[0]
}

// counter sums a metric.
func (r *rig) counter(name string) (sum float64) {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func diff(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func ptr[T any](v T) *T { return &v }

const h100 = `gpu="0",UUID="GPU-h",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"`
