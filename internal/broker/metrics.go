package broker

import (
	"errors"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	produced      *prometheus.CounterVec
	producedBytes *prometheus.CounterVec
	retries       *prometheus.CounterVec
	produceTime   *prometheus.HistogramVec
	fetched       *prometheus.CounterVec
	fetchedBytes  *prometheus.CounterVec
	holes         *prometheus.CounterVec
	lag           *prometheus.GaugeVec
	rebalances    *prometheus.CounterVec
	errors        *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "gputally", Subsystem: "broker", Name: name, Help: help,
		}, labels))
	}
	return &metrics{
		produced:      counter("produced_messages_total", "Messages acknowledged by the broker.", "topic"),
		producedBytes: counter("produced_bytes_total", "Key, value and header bytes of acknowledged messages.", "topic"),
		retries:       counter("produce_retries_total", "Produce requests sent again after an error.", "topic"),
		fetched:       counter("fetched_messages_total", "Messages handed to the consumer.", "topic", "group"),
		fetchedBytes:  counter("fetched_bytes_total", "Key, value and header bytes of fetched messages.", "topic", "group"),
		holes:         counter("hole_offsets_total", "Offsets skipped because the broker no longer had them.", "topic", "group"),
		rebalances:    counter("rebalances_total", "Generations of the group this consumer joined.", "topic", "group"),
		errors:        counter("errors_total", "Failed requests and refused messages, by operation.", "operation"),
		produceTime: register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "gputally", Subsystem: "broker", Name: "produce_seconds",
			Help:    "Time from a produce call to its last acknowledgement.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
		}, nil)),
		lag: register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "gputally", Subsystem: "broker", Name: "consumer_lag_messages",
			Help: "Messages between the position fetched last and the end of the partition.",
		}, []string{"topic", "group", "partition"})),
	}
}

// register shares a collector between the clients of one registry: standalone
// runs several in one process.
func register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	err := reg.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing
		}
	}
	if err != nil {
		// A clash of names is a programming error that no input can cause.
		panic(err)
	}
	return c
}

func (m *metrics) setLag(topic, group string, partition int, lag int64) {
	m.lag.WithLabelValues(topic, group, strconv.Itoa(partition)).Set(float64(lag))
}

func (m *metrics) dropLag(topic, group string, partition int) {
	m.lag.DeleteLabelValues(topic, group, strconv.Itoa(partition))
}
