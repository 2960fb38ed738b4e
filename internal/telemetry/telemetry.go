// Package telemetry declares Prometheus metrics, one to a line. Each function makes a
// metric, registers it and returns it; a name that is registered already, or is
// none, panics, as prometheus.MustRegister does.
package telemetry

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Set is where metrics are registered, and how their names begin.
type Set struct {
	reg    prometheus.Registerer
	prefix string
	shared bool
}

// In is a Set; a nil registry keeps the metrics private.
func In(reg prometheus.Registerer, prefix string) Set { return Set{reg: reg, prefix: prefix} }

// Shared is In for what a process has several of: a metric that is registered
// already is counted in by the next one of the same name and labels.
func Shared(reg prometheus.Registerer, prefix string) Set { return Set{reg, prefix, true} }

func registered[C prometheus.Collector](s Set, c C) C {
	if s.reg == nil {
		return c
	}
	err := s.reg.Register(c)
	var already prometheus.AlreadyRegisteredError
	if s.shared && errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing
		}
	}
	if err != nil {
		panic(err) // a clash of names, which no input can cause
	}
	return c
}

func (s Set) opts(name, help string) prometheus.Opts {
	return prometheus.Opts{Name: s.prefix + name, Help: help}
}

// Counter counts events.
func (s Set) Counter(name, help string) prometheus.Counter {
	return registered(s, prometheus.NewCounter(prometheus.CounterOpts(s.opts(name, help))))
}

// Counters counts events by labels.
func (s Set) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	return registered(s, prometheus.NewCounterVec(prometheus.CounterOpts(s.opts(name, help)), labels))
}

// Gauge is a level.
func (s Set) Gauge(name, help string) prometheus.Gauge {
	return registered(s, prometheus.NewGauge(prometheus.GaugeOpts(s.opts(name, help))))
}

// Gauges is a level by labels.
func (s Set) Gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return registered(s, prometheus.NewGaugeVec(prometheus.GaugeOpts(s.opts(name, help)), labels))
}

// GaugeFunc is a level that is asked for at each scrape.
func (s Set) GaugeFunc(name, help string, value func() float64) {
	registered(s, prometheus.NewGaugeFunc(prometheus.GaugeOpts(s.opts(name, help)), value))
}

// CounterFunc is a count that is asked for at each scrape.
func (s Set) CounterFunc(name, help string, value func() float64) {
	registered(s, prometheus.NewCounterFunc(prometheus.CounterOpts(s.opts(name, help)), value))
}

// Durations are seconds by labels, in buckets from 1 ms on, each four times the
// one before.
func (s Set) Durations(name, help string, buckets int, labels ...string) *prometheus.HistogramVec {
	return s.Histograms(name, help, prometheus.ExponentialBuckets(0.001, 4, buckets), labels...)
}

// Histograms counts values by their bucket and by labels.
func (s Set) Histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return registered(s, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: s.prefix + name, Help: help,
		Buckets: buckets,
	}, labels))
}

// Zero shows the counters of label values before the first event: an alert on an
// increase from a series that isn't there yet would miss it.
func Zero(counters *prometheus.CounterVec, values ...string) {
	for _, v := range values {
		counters.WithLabelValues(v)
	}
}
