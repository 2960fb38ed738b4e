package exporter

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/internal/wire"
)

func newHistory(t *testing.T) *History {
	t.Helper()
	h, err := NewHistory(DefaultConfig(), Deps{Cluster: "c", Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func utilOf(target, node, uuid string) Exposition {
	labels := map[string]string{"UUID": uuid, "gpu": "0", "modelName": "Tesla T4"}
	if node != "" {
		labels["Hostname"] = node
	}
	return Exposition{Target: target, Samples: []Sample{{Series: seriesOf("DCGM_FI_DEV_GPU_UTIL"), Labels: labels, Value: 5, At: start}}}
}

func TestTargetThatIsAwayMakesItsNodePartial(t *testing.T) {
	h := newHistory(t)
	slot := source.At(start, 10*time.Second)
	for i, c := range []struct {
		seen []Exposition
		want map[string]wire.Enumeration
	}{
		{
			[]Exposition{utilOf("a", "n1", "GPU-1"), utilOf("b", "n1", "GPU-2"), utilOf("c", "n2", "GPU-3")},
			map[string]wire.Enumeration{"n1": wire.Enumeration_ENUMERATION_COMPLETE, "n2": wire.Enumeration_ENUMERATION_COMPLETE},
		},
		{
			[]Exposition{utilOf("a", "n1", "GPU-1"), utilOf("c", "n2", "GPU-3")},
			map[string]wire.Enumeration{"n1": wire.Enumeration_ENUMERATION_PARTIAL, "n2": wire.Enumeration_ENUMERATION_COMPLETE},
		},
		{nil, map[string]wire.Enumeration{}},
	} {
		batches, err := h.Batches(slot, c.seen)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]wire.Enumeration{}
		for _, b := range batches {
			got[b.Node] = b.Enumeration
		}
		if diffs := len(got) != len(c.want); diffs || got["n1"] != c.want["n1"] || got["n2"] != c.want["n2"] {
			t.Errorf("slot %d: got %v, want %v", i, got, c.want)
		}
		slot = slot.Next()
	}
}

func TestHistoryOfNoNode(t *testing.T) {
	batches, err := newHistory(t).Batches(source.At(start, 10*time.Second), []Exposition{utilOf("a", "", "GPU-1"), utilOf("b", "n1", "GPU-2")})
	if len(batches) != 1 || batches[0].Node != "n1" || err == nil || !strings.Contains(err.Error(), "neither a Hostname") {
		t.Errorf("got %v, %v; want the batch of n1 and an error about the rest", batches, err)
	}
}

func seriesOf(name string) field.Series {
	s, _ := field.ByName(name)
	return s
}

// A Prometheus' labels are a stranger's text: what a command prints of them can't steer its terminal.
func TestHistoryQuotesTheLabelsOfWhatItLeavesOut(t *testing.T) {
	e := utilOf("t", "node\x1b[2J", "GPU\x1b]0;title\a\n")
	e.Samples[0].Labels["GPU_I_ID"] = "x"
	_, err := newHistory(t).Batches(source.At(start, 10*time.Second), []Exposition{e})
	if err == nil || strings.ContainsAny(err.Error(), "\x1b\a\n") {
		t.Errorf("error %q, want one without control characters", err)
	}
}
