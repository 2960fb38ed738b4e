package exporter

import (
	"fmt"
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

// As of a live target, at most DefaultMaxGPUs of a node are read, so that a stranger's labels don't fill the memory.
func TestHistoryBoundsTheGPUsOfANode(t *testing.T) {
	exposition := func(nodes, gpus int) Exposition {
		e := Exposition{Target: "t\x1b"}
		for node := range nodes {
			for gpu := range gpus {
				one := utilOf("t", fmt.Sprint("n", node), fmt.Sprint("GPU-", node, "-", gpu))
				e.Samples = append(e.Samples, one.Samples...)
			}
		}
		return e
	}
	other := utilOf("other", "n", "GPU-other")
	for _, c := range []struct{ nodes, gpus, batches int }{
		{1, DefaultMaxGPUs, 2}, {2, DefaultMaxGPUs, 3}, {1, DefaultMaxGPUs + 1, 1}, {2, DefaultMaxGPUs + 1, 1},
	} {
		batches, err := newHistory(t).Batches(source.At(start, 10*time.Second), []Exposition{exposition(c.nodes, c.gpus), other})
		refused := c.gpus > DefaultMaxGPUs
		if len(batches) != c.batches || (err != nil) != refused || refused && strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%+v: %d batches, %v", c, len(batches), err)
		}
	}
}
