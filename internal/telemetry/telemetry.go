// Package telemetry declares Prometheus metrics, one per line. Each function creates a metric, registers it and
// returns it; an invalid or already registered name panics, as in prometheus.MustRegister.
package telemetry

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Set is a registry and the prefix of the metrics' names.
type Set struct {
	reg    prometheus.Registerer
	prefix string
	shared bool
}

// In returns a Set; with a nil registry the metrics are not exposed.
func In(reg prometheus.Registerer, prefix string) Set { return Set{reg: reg, prefix: prefix} }

// Shared is In for components with several instances in a process: if a metric with the same name and labels is
// already registered, it is used.
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
		panic(err) // a clash of names, a programming error
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

// Gauge is a current value.
func (s Set) Gauge(name, help string) prometheus.Gauge {
	return registered(s, prometheus.NewGauge(prometheus.GaugeOpts(s.opts(name, help))))
}

// Gauges is a current value by labels.
func (s Set) Gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return registered(s, prometheus.NewGaugeVec(prometheus.GaugeOpts(s.opts(name, help)), labels))
}

// GaugeFunc is a current value that is read at each scrape.
func (s Set) GaugeFunc(name, help string, value func() float64) {
	registered(s, prometheus.NewGaugeFunc(prometheus.GaugeOpts(s.opts(name, help)), value))
}

// CounterFunc is a count that is read at each scrape.
func (s Set) CounterFunc(name, help string, value func() float64) {
	registered(s, prometheus.NewCounterFunc(prometheus.CounterOpts(s.opts(name, help)), value))
}

// Durations are seconds by labels, in buckets from 1 ms on, each four times the one before.
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

// Zero creates the counters of the given label values: an alert on an increase would miss the first event of a series
// that doesn't exist yet.
func Zero(counters *prometheus.CounterVec, values ...string) {
	for _, v := range values {
		counters.WithLabelValues(v)
	}
}
