package episode

import (
	"cmp"
	"math/big"
	"slices"
	"strings"
	"time"
)

// Facts are what a finding was found from, for explain and for column facts of table anomalies. Lists have the first
// mostFacts entries; More says how many were left out of all lists together.
type Facts struct {
	Rules   []Rule   `json:"rules,omitempty"`   // by which it was found
	Runs    []Run    `json:"runs,omitempty"`    // of idle time: each leaf's
	Hours   []Hour   `json:"hours,omitempty"`   // of a spike
	Sources []Source `json:"sources,omitempty"` // of a spike: the hours that its rarest hour was compared with
	By      []Part   `json:"by,omitempty"`      // who or what contributed most, the greatest first
	Cost    []Price  `json:"cost,omitempty"`    // the dearest first
	More    int      `json:"more,omitempty"`
}

// mostFacts bounds each list.
const mostFacts = 50

// Rule is a threshold that the finding passed: with another limit, beyond its value, it would not have been found.
type Rule struct {
	Key   string `json:"key"` // of the configuration, below analyzer
	Value string `json:"value"`
	Limit string `json:"limit"`
	Least bool   `json:"least"` // the limit is the least value that is found, else the greatest
}

// Run is idle time of one leaf.
type Run struct {
	GPU      string    `json:"gpu"`
	Leaf     string    `json:"leaf"`
	Node     string    `json:"node"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Cause    string    `json:"cause"`
	GPUHours string    `json:"gpu_hours"`
}

// Hour is an hour of a spike, in GPU-hours.
type Hour struct {
	At          time.Time `json:"at"`
	Observed    float64   `json:"observed"`
	Expected    float64   `json:"expected"`
	Carried     float64   `json:"carried"` // of Expected: held by the same workloads since working hours
	Probability float64   `json:"probability"`
}

// Source is an hour that was compared with.
type Source struct {
	At       time.Time `json:"at"`
	GPUHours float64   `json:"gpu_hours"`
	Same     string    `json:"same"` // hour_of_week or hour_of_day
}

// Part is what one workload and user had.
type Part struct {
	Workload string `json:"workload,omitempty"`
	User     string `json:"user,omitempty"`
	GPUHours string `json:"gpu_hours"`
}

// Price is a line of the cost.
type Price struct {
	Model    string `json:"model"`
	Profile  string `json:"profile,omitempty"`
	GPUHours string `json:"gpu_hours"`
	Rate     string `json:"rate_per_gpu_hour,omitempty"` // absent: no price is known
	Cost     string `json:"cost,omitempty"`
}

// Bound cuts the lists to their length.
func (f *Facts) Bound() {
	cut(&f.Runs, &f.More)
	cut(&f.Hours, &f.More)
	cut(&f.Sources, &f.More)
	cut(&f.By, &f.More)
	cut(&f.Cost, &f.More)
}

func cut[T any](list *[]T, more *int) {
	if n := len(*list); n > mostFacts {
		*list, *more = (*list)[:mostFacts], *more+n-mostFacts
	}
}

// priceKey is time of one price.
type priceKey struct{ model, profile, rate string }

// prices are the lines of the cost.
func (w *Waste) prices(grade Grade) (lines []Price) {
	type line struct {
		priceKey
		*Amount
	}
	var all []line
	for key, a := range w.byPrice {
		all = append(all, line{key, a})
	}
	slices.SortFunc(all, func(a, b line) int {
		return cmp.Or(b.Cost.Cmp(&a.Cost), b.GPUHours.Cmp(&a.GPUHours), strings.Compare(a.model, b.model),
			strings.Compare(a.profile, b.profile), strings.Compare(a.rate, b.rate))
	})
	for _, l := range all {
		p := Price{Model: l.model, Profile: l.profile, GPUHours: round(&l.GPUHours).String()}
		if rate, ok := new(big.Rat).SetString(l.rate); ok && grade == Proven {
			p.Rate, p.Cost = round(rate).String(), round(&l.Cost).String()
		}
		lines = append(lines, p)
	}
	return lines
}

// PartsOf are contributors with their GPU-hours, the greatest first.
func PartsOf(sums map[Part]*big.Rat) []Part {
	parts := make([]Part, 0, len(sums))
	for p := range sums {
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b Part) int {
		return cmp.Or(sums[b].Cmp(sums[a]), strings.Compare(a.Workload, b.Workload), strings.Compare(a.User, b.User))
	})
	for i, p := range parts {
		parts[i].GPUHours = round(sums[p]).String()
	}
	return parts
}
