package prometheus

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/gputally/gputally/collector/source/exporter"
	"github.com/gputally/gputally/collector/source/field"
)

// series is one series of a window, with a cursor over its samples.
type series struct {
	name   field.Series
	labels map[string]string
	node   string // according to its own labels; empty: none
	gpu    string
	text   string  // all labels, including the name
	points []point // ascending
	next   int
}

// scraped are all series of one scrape target of Prometheus.
type scraped struct {
	job, instance string
	series        []*series
	// target identifies the exporter: the job on a node, whatever the address.
	target string
	node   string // of rows without a node
	// shared: the same exporter had another address in this window.
	shared bool
}

// window has the stored samples of [from, to), by scrape target, in a fixed order.
type window struct {
	from, to time.Time
	scraped  []*scraped
	points   int
}

// newWindow groups the series of an answer. Unknown series are dropped.
func newWindow(from, to time.Time, got []matrixSeries) *window {
	w := &window{from: from, to: to}
	byPlace := map[[2]string]*scraped{}
	for _, g := range got {
		s := newSeries(g, from.UnixMilli(), to.UnixMilli())
		if s == nil {
			continue
		}
		w.points += len(s.points)
		place := [2]string{s.labels["job"], s.labels["instance"]}
		if byPlace[place] == nil {
			byPlace[place] = &scraped{job: place[0], instance: place[1]}
		}
		byPlace[place].series = append(byPlace[place].series, s)
	}
	w.scraped = slices.SortedFunc(maps.Values(byPlace), func(a, b *scraped) int {
		return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.instance, b.instance))
	})
	addresses := map[string]int{}
	for _, t := range w.scraped {
		t.name()
		addresses[t.target]++
	}
	for _, t := range w.scraped {
		t.shared = addresses[t.target] > 1
	}
	return w
}

func newSeries(g matrixSeries, fromMS, toMS int64) *series {
	name, known := field.ByName(g.Metric["__name__"])
	if !known {
		return nil
	}
	s := &series{name: name, labels: make(map[string]string, len(g.Metric))}
	for k, v := range g.Metric {
		if k != "__name__" && v != "" {
			s.labels[k] = v
		}
	}
	// A range of Prometheus 2 includes its first instant, one of 3 doesn't; a window is [from, to).
	s.points = slices.DeleteFunc(g.Values, func(p point) bool { return p.ms < fromMS || p.ms >= toMS })
	if len(s.points) == 0 {
		return nil
	}
	s.text = labelText(g.Metric)
	s.node, s.gpu = exporter.NodeOf(s.labels), exporter.GPUOf(s.labels)
	return s
}

// name sets the exporter's identity. One with several nodes, or none, is identified by its address only.
func (t *scraped) name() {
	slices.SortFunc(t.series, func(a, b *series) int { return cmp.Compare(a.text, b.text) })
	nodes := map[string]bool{}
	for _, s := range t.series {
		if s.node != "" {
			nodes[s.node] = true
		}
		t.node = cmp.Or(t.node, s.labels["node"], s.labels["kubernetes_node"])
	}
	t.node = cmp.Or(t.node, host(t.instance))
	t.target = t.job + " at " + t.instance
	if len(nodes) == 1 {
		for node := range nodes {
			t.node, t.target = node, t.job+" on "+node
		}
	}
}

// host is the host of host:port.
func host(instance string) string {
	if h, _, err := net.SplitHostPort(instance); err == nil {
		return h
	}
	return instance
}

// labelText orders series.
func labelText(labels map[string]string) string {
	var text strings.Builder
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		text.WriteString(k + "\x00" + labels[k] + "\x00")
	}
	return text.String()
}

// slot returns the samples of each target's last scrape in the slot that ends at toMS; before counts those of
// earlier scrapes. Slots must ascend.
func (w *window) slot(toMS int64) (seen []*exposed, before int) {
	for _, t := range w.scraped {
		e := &exposed{scraped: t}
		newest := map[string]int64{} // scrape by node; of rows that name none under ""
		for _, s := range t.series {
			from := s.next
			for s.next < len(s.points) && s.points[s.next].ms < toMS {
				s.next++
			}
			if s.next == from {
				continue
			}
			p := s.points[s.next-1]
			newest[s.node] = max(newest[s.node], p.ms)
			e.taken = append(e.taken, taken{s, p})
			before += s.next - from - 1
		}
		before += e.keep(func(t taken) bool { return t.ms == newest[t.node] })
		if len(e.taken) > 0 {
			seen = append(seen, e)
		}
	}
	return seen, before + keepNewestAddress(seen)
}

// exposed are the samples of a target in a slot.
type exposed struct {
	*scraped
	taken []taken
}

// taken is a series' sample of the slot.
type taken struct {
	*series
	point
}

// keep drops the samples that aren't wanted, and counts them.
func (e *exposed) keep(wanted func(taken) bool) (dropped int) {
	had := len(e.taken)
	e.taken = slices.DeleteFunc(e.taken, func(t taken) bool { return !wanted(t) })
	return had - len(e.taken)
}

// gpuOf is a GPU of an exporter.
type gpuOf struct{ target, gpu string }

// keepNewestAddress keeps each GPU at one address of an exporter only: the one that was scraped last.
func keepNewestAddress(seen []*exposed) (dropped int) {
	type shown struct {
		ms int64
		by *exposed
	}
	newest := map[gpuOf]shown{}
	for _, e := range seen {
		if !e.shared {
			continue
		}
		for _, t := range e.taken {
			at := gpuOf{e.target, t.gpu}
			if old, ok := newest[at]; !ok || t.ms > old.ms {
				newest[at] = shown{t.ms, e}
			}
		}
	}
	for _, e := range seen {
		if e.shared {
			dropped += e.keep(func(t taken) bool { return newest[gpuOf{e.target, t.gpu}].by == e })
		}
	}
	return dropped
}

// exposition converts it to package exporter's type.
func (e *exposed) exposition(renamed bool) exporter.Exposition {
	out := exporter.Exposition{
		Target: e.target, Node: e.node, Renamed: renamed,
		Samples: make([]exporter.Sample, len(e.taken)),
	}
	for i, t := range e.taken {
		out.Samples[i] = exporter.Sample{
			Series: t.name, Labels: t.labels, Value: t.value, At: time.UnixMilli(t.ms).UTC(),
		}
	}
	return out
}

// interval is the median time between two samples of a series; 0: no series has two.
func (w *window) interval() time.Duration {
	var steps []int64
	for _, t := range w.scraped {
		for _, s := range t.series {
			for i := 1; i < len(s.points); i++ {
				steps = append(steps, s.points[i].ms-s.points[i-1].ms)
			}
		}
	}
	if len(steps) == 0 {
		return 0
	}
	slices.Sort(steps)
	return (time.Duration(steps[(len(steps)-1)/2]) * time.Millisecond).Round(time.Second / 2)
}
