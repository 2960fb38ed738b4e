package analyzer

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/analyzer/episode"
)

// sightWindow is the newest part of the ledger that the gauges of unobserved time
// cover.
const sightWindow = 24 * time.Hour

// sight is the observed and unobserved time of a cluster, in GPU-hours.
type sight struct {
	cluster                         string
	capacity, unseen, withoutOwners float64
}

func readSight(ctx context.Context, db DB, to time.Time) ([]sight, error) {
	var clusters []sight
	err := each(ctx, db, func(rows driver.Rows) error {
		var s sight
		if err := rows.Scan(&s.cluster, &s.capacity, &s.unseen, &s.withoutOwners); err != nil {
			return err
		}
		clusters = append(clusters, s)
		return nil
	}, sightSQL, to.Add(-sightWindow), to)
	return clusters, err
}

// mostTenants is how many tenants the metrics name. Of findings those with the dearest; the rest is tenant "other".
const mostTenants = 1000

const otherTenants = "other"

// findings exposes the results of the last successful run. The snapshot is replaced as
// a whole, so a scrape never mixes two runs.
type findings struct {
	open, alerts, hours, cost, capacity, unobserved *prometheus.Desc

	mu       sync.Mutex
	totals   map[ofTenant]*total
	clusters []sight
}

// ofTenant is what findings are summed by.
type ofTenant struct {
	kind     episode.Kind
	tenant   string
	severity episode.Severity
}

// total is the sum for one kind, tenant and severity. Floats are for graphs only; amounts of
// money are read from the table.
type total struct {
	open, alerts int
	hours        float64
	costBy       map[string]float64 // by currency
}

func newFindings() *findings {
	labels := []string{"kind", "tenant", "severity"}
	return &findings{
		open: prometheus.NewDesc("gputally_anomaly_open",
			"Findings that have not ended by their cluster's newest hours. What belongs to a pattern or an outage counts in that.", labels, nil),
		alerts: prometheus.NewDesc("gputally_anomaly_alerts",
			"Open findings that the alert budget let through and nobody muted.", labels, nil),
		hours: prometheus.NewDesc("gputally_anomaly_wasted_gpu_hours",
			"Wasted GPU-hours of the findings in the analyzer's window.", labels, nil),
		cost: prometheus.NewDesc("gputally_anomaly_wasted_cost",
			"Cost of the wasted GPU-hours at the price book's prices.", append(slices.Clone(labels), "currency"), nil),
		capacity: prometheus.NewDesc("gputally_analyzer_capacity_gpu_hours",
			"GPU-hours in the inventory in the ledger's newest 24 hours.", []string{"cluster"}, nil),
		unobserved: prometheus.NewDesc("gputally_analyzer_unobserved_gpu_hours",
			"GPU-hours of the newest 24 hours that no collector observed (cause unseen) or whose owners are unknown (cause "+
				"owners).", []string{"cluster", "cause"}, nil),
	}
}

// set replaces the snapshot. A finding is open if it reaches into one of the two
// newest hours of its cluster: the newest one may have just begun. Clusters may lag
// behind each other. A cluster without a newest hour has ended.
func (f *findings) set(episodes []episode.Episode, clusters []sight, newest map[string]time.Time) {
	totals := map[ofTenant]*total{}
	named := dearest(episodes, mostTenants)
	for i := range episodes {
		e := &episodes[i]
		if e.Parent != "" {
			continue
		}
		key := ofTenant{e.Kind, e.Tenant, e.Severity}
		if !named[e.Tenant] {
			key.tenant = otherTenants
		}
		t := totals[key]
		if t == nil {
			t = &total{costBy: map[string]float64{}}
			totals[key] = t
		}
		if hour, goesOn := newest[e.Cluster]; goesOn && !e.End.Before(hour) {
			t.open++
			if !e.Alerted.IsZero() && !e.Silenced {
				t.alerts++
			}
		}
		t.hours += e.WastedGPUHours.InexactFloat64()
		if e.Currency != "" {
			t.costBy[e.Currency] += e.WastedCost.InexactFloat64()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.totals, f.clusters = totals, clusters
}

// dearest are the tenants with the greatest cost, then GPU-hours.
func dearest(episodes []episode.Episode, most int) map[string]bool {
	type sum struct {
		tenant      string
		cost, hours decimal.Decimal
	}
	sums := map[string]sum{}
	for i := range episodes {
		e := &episodes[i]
		s := sums[e.Tenant]
		sums[e.Tenant] = sum{e.Tenant, s.cost.Add(e.WastedCost), s.hours.Add(e.WastedGPUHours)}
	}
	all := slices.SortedFunc(maps.Values(sums), func(a, b sum) int {
		return cmp.Or(b.cost.Cmp(a.cost), b.hours.Cmp(a.hours), cmp.Compare(a.tenant, b.tenant))
	})
	named := map[string]bool{"": true} // of grade None
	for _, s := range all[:min(len(all), most)] {
		named[s.tenant] = true
	}
	return named
}

// Describe implements prometheus.Collector.
func (f *findings) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.open, f.alerts, f.hours, f.cost, f.capacity, f.unobserved} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (f *findings) Collect(out chan<- prometheus.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for key, t := range f.totals {
		labels := []string{string(key.kind), key.tenant, key.severity.String()}
		gauge(f.open, float64(t.open), labels...)
		gauge(f.alerts, float64(t.alerts), labels...)
		gauge(f.hours, t.hours, labels...)
		for currency, cost := range t.costBy {
			gauge(f.cost, cost, append(slices.Clone(labels), currency)...)
		}
	}
	for _, s := range f.clusters {
		gauge(f.capacity, s.capacity, s.cluster)
		gauge(f.unobserved, s.unseen, s.cluster, "unseen")
		gauge(f.unobserved, s.withoutOwners, s.cluster, "owners")
	}
}
