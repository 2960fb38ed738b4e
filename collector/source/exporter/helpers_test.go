package exporter

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

var start = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

// rig is a source over one served exposition, in fake time.
type rig struct {
	t     *testing.T
	src   *Source
	clk   *clock.Fake
	reg   *prometheus.Registry
	slot  source.Slot
	mu    sync.Mutex
	text  string
	reply http.HandlerFunc // instead of text
	url   string
	cfg   Config
	deps  Deps
}

func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	r := &rig{
		t: t, clk: clock.NewFake(start),
		slot: source.Slot{Start: start.Add(-10 * time.Second), Length: 10 * time.Second},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.reply != nil {
			r.reply(w, req)
			return
		}
		fmt.Fprint(w, r.text)
	}))
	t.Cleanup(server.Close)
	r.url = server.URL + "/metrics"
	cfg := DefaultConfig()
	cfg.Targets = []Target{{URL: r.url, Node: "fallback", TrustHostname: true}}
	if change != nil {
		change(&cfg)
	}
	r.cfg = cfg
	r.deps = Deps{Cluster: "c", HTTPClient: server.Client(), Clock: r.clk, Log: slog.New(slog.DiscardHandler)}
	r.restart()
	return r
}

// restart ends the source and begins another one in its place.
func (r *rig) restart() {
	r.t.Helper()
	r.reg = prometheus.NewRegistry()
	r.deps.Registry = r.reg
	src, err := New(r.cfg, r.deps)
	if err != nil {
		r.t.Fatal(err)
	}
	r.src = src
}

// keepState gives a new rig a state file in a folder of its own.
func (r *rig) keepState() {
	r.t.Helper()
	r.deps.StateFile = filepath.Join(r.t.TempDir(), "exporter.json")
	r.restart()
}

// skip passes slots in which nothing is read.
func (r *rig) skip(slots int) {
	for range slots {
		r.clk.Advance(r.slot.Length)
		r.slot = r.slot.Next()
	}
}

// read serves text and reads the next slot, 10 s after the one before.
func (r *rig) read(text string) ([]*wire.Batch, error) {
	r.t.Helper()
	r.setText(text)
	batches, err := r.src.Read(context.Background(), r.slot)
	r.src.Commit()
	r.clk.Advance(r.slot.Length)
	r.slot = r.slot.Next()
	for _, b := range batches {
		b.Collector = "test" // identity is the slot loop's
		if err := wire.Validate(b); err != nil {
			r.t.Errorf("batch of %s is not valid: %v", b.Node, err)
		}
		b.Collector = ""
	}
	return batches, err
}

func (r *rig) setText(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text = text
}

// gpus reads one slot and returns the GPUs of the only batch.
func (r *rig) gpus(text string) []*wire.Gpu {
	r.t.Helper()
	return r.batch(text).Gpus
}

func (r *rig) batch(text string) *wire.Batch {
	r.t.Helper()
	batches, err := r.read(text)
	if err != nil {
		r.t.Fatal(err)
	}
	if len(batches) != 1 {
		r.t.Fatalf("got %d batches, want 1", len(batches))
	}
	return batches[0]
}

func (r *rig) gpu(text string) *wire.Gpu {
	r.t.Helper()
	gpus := r.gpus(text)
	if len(gpus) != 1 {
		r.t.Fatalf("got %d GPUs, want 1", len(gpus))
	}
	return gpus[0]
}

// counter reads a metric with one label value.
func (r *rig) counter(name, label string) float64 {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name && (len(m.Label) == 0 || m.Label[len(m.Label)-1].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	r.t.Fatalf("no metric %s{%s}", name, label)
	return 0
}

// Label sets of the GPUs in these tests.
const (
	h100  = `gpu="0",UUID="GPU-h",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"`
	a100  = `gpu="2",UUID="GPU-a",device="nvidia2",modelName="NVIDIA A100-SXM4-40GB",Hostname="n1"`
	owned = `,container="main",namespace="team-a",pod="train-0"`
)

func gi(id int, profile string) string {
	return fmt.Sprintf(`,GPU_I_ID="%d",GPU_I_PROFILE="%s"`, id, profile)
}

func row(name, labels string, value any) string {
	return fmt.Sprintf("%s{%s} %v\n", name, labels, value)
}

func text(rows ...string) string { return strings.Join(rows, "") }

func diff(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func ptr[T any](v T) *T { return &v }
