package stream

import (
	"math"
	"slices"

	"github.com/gputally/gputally/analyzer/tail"
)

// refit is after how many values a tail is fitted again; the first fit needs as many.
const refit = 64

// measure is one of the differences with its last values, to which the next is compared.
type measure struct {
	ring   []float64 // in order of time, once full from next on
	next   int
	sorted []float64 // the ring's values
	since  int       // values since the last fit
	fitted []float64 // the sample of tail
	tail   tail.Tail
	ready  bool
}

// surprise is −log of the probability of a value as great as v; 0 before the first fit.
func (m *measure) surprise(v float64) float64 {
	if !m.ready {
		return 0
	}
	return -math.Log(m.tail.P(v))
}

// add appends a value; of more than size values the oldest is dropped.
func (m *measure) add(v float64, size int) {
	if len(m.ring) < size {
		m.ring = append(m.ring, v)
	} else {
		old, _ := slices.BinarySearch(m.sorted, m.ring[m.next])
		m.sorted = slices.Delete(m.sorted, old, old+1)
		m.ring[m.next] = v
		m.next = (m.next + 1) % size
	}
	at, _ := slices.BinarySearch(m.sorted, v)
	m.sorted = slices.Insert(m.sorted, at, v)
	if m.since++; m.since < refit {
		return
	}
	m.since, m.ready = 0, true
	m.fitted = append(m.fitted[:0], m.sorted...)
	n := len(m.fitted)
	least, greatest := m.fitted[0], m.fitted[n-1]
	quarters := m.fitted[n*3/4] - m.fitted[n/4]
	floor := max(quarters/50, (greatest-least)*1e-6, max(math.Abs(least), math.Abs(greatest))*1e-9, 1e-300)
	m.tail = tail.New(m.fitted, floor)
}

// mean is a mean and a mean absolute deviation, over about life values.
type mean struct{ value, deviation, n float64 }

func (m *mean) add(v, life float64) {
	if m.n++; m.n == 1 {
		m.value = v
		return
	}
	weight := max(1/m.n, 1/life)
	m.deviation += weight * (math.Abs(v-m.value) - m.deviation)
	m.value += weight * (v - m.value)
}

// unit is the deviation; of a constant series, what rounding may come to.
func (m *mean) unit() float64 { return max(m.deviation, math.Abs(m.value)*1e-9, 1e-300) }
