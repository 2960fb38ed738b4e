package telemetry

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestMetricsAreRegistered(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	s := In(reg, "x_")
	s.Counter("a_total", "A.").Inc()
	Zero(s.Counters("b_total", "B.", "reason"), "one", "two")
	s.Gauge("c", "C.").Set(3)
	s.Gauges("d", "D.", "node").WithLabelValues("n").Set(4)
	s.GaugeFunc("e", "E.", func() float64 { return 5 })
	s.CounterFunc("f_total", "F.", func() float64 { return 6 })
	s.Durations("g_seconds", "G.", 2).WithLabelValues().Observe(0.002)
	want := `
# HELP x_a_total A.
# TYPE x_a_total counter
x_a_total 1
# HELP x_b_total B.
# TYPE x_b_total counter
x_b_total{reason="one"} 0
x_b_total{reason="two"} 0
# HELP x_c C.
# TYPE x_c gauge
x_c 3
# HELP x_d D.
# TYPE x_d gauge
x_d{node="n"} 4
# HELP x_e E.
# TYPE x_e gauge
x_e 5
# HELP x_f_total F.
# TYPE x_f_total counter
x_f_total 6
# HELP x_g_seconds G.
# TYPE x_g_seconds histogram
x_g_seconds_bucket{le="0.001"} 0
x_g_seconds_bucket{le="0.004"} 1
x_g_seconds_bucket{le="+Inf"} 1
x_g_seconds_sum 0.002
x_g_seconds_count 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestPrivateMetrics(_ *testing.T) { In(nil, "x_").Counter("a_total", "A.").Inc() }

func TestNameOfAnotherMetricPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("two metrics of one name")
		}
	}()
	s := In(prometheus.NewRegistry(), "x_")
	s.Counter("a_total", "A.")
	s.Gauge("a_total", "B.")
}

func TestASharedMetricIsCountedTogether(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	one, other := Shared(reg, "x_").Counter("a_total", "A."), Shared(reg, "x_").Counter("a_total", "A.")
	one.Inc()
	other.Inc()
	if n := testutil.ToFloat64(one); n != 2 {
		t.Errorf("counted %v, want 2", n)
	}
}
