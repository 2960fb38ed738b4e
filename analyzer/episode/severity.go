package episode

import (
	"fmt"
	"time"
)

// Severity says how urgent a finding is, by its cost per day.
type Severity int

// The severities.
const (
	Info Severity = iota // too cheap for an alert
	Low
	Medium
	High
	Critical
	severities
)

// String is the severity's name, as written in table anomalies and metrics.
func (s Severity) String() string {
	return [severities]string{"info", "low", "medium", "high", "critical"}[s]
}

// SeverityOf is the severity of a name; an unknown one is Info.
func SeverityOf(name string) Severity {
	for s := range severities {
		if s.String() == name {
			return s
		}
	}
	return Info
}

// Limits are the least costs per day of the severities above info, in the price book's currency. Where no price is
// known, a GPU-hour counts as one unit of currency.
type Limits struct {
	Low      float64 `yaml:"low"`
	Medium   float64 `yaml:"medium"`
	High     float64 `yaml:"high"`
	Critical float64 `yaml:"critical"`
}

// DefaultLimits are about two hours of a GPU in a day, a GPU for most of a day, a node of eight for a day, and ten such
// nodes.
func DefaultLimits() Limits { return Limits{Low: 5, Medium: 50, High: 500, Critical: 5000} }

// Validate names the first limit that makes no sense.
func (l Limits) Validate() error {
	if !(l.Low > 0 && l.Low <= l.Medium && l.Medium <= l.High && l.High <= l.Critical && l.Critical < 1e15) {
		return fmt.Errorf("low %v, medium %v, high %v, critical %v: want positive amounts in ascending order", l.Low,
			l.Medium, l.High, l.Critical)
	}
	return nil
}

// Reached are the times at which a finding reached the severities, by severity; zero: not reached. They are the ends
// of UTC hours, so that they depend on nothing but the ledger.
type Reached [severities]time.Time

// At is the highest severity that was reached by a time.
func (r *Reached) At(t time.Time) (s Severity) {
	for i, reached := range r {
		if !reached.IsZero() && !reached.After(t) {
			s = max(s, Severity(i))
		}
	}
	return s
}

// highest is the highest severity reached.
func (r *Reached) highest() (s Severity) {
	for i, reached := range r {
		if !reached.IsZero() {
			s = Severity(i)
		}
	}
	return s
}

// Rate sets the episode's severity from what it wasted: the greatest cost per day up to any of its hours, where less
// than a day counts as one. Step raises or lowers the result by whole severities. Nothing is reached before notBefore;
// Least is reached then.
func (e *Episode) Rate(limits Limits, step int, notBefore time.Time) {
	least := [severities]float64{0, limits.Low, limits.Medium, limits.High, limits.Critical}
	var cost float64
	e.Reached = Reached{}
	hours := e.Waste.Hours()
	for _, hour := range hours {
		a := e.Waste.hours[hour]
		if c, _ := a.Cost.Float64(); e.Waste.currency != "" {
			cost += c
		} else {
			c, _ = a.GPUHours.Float64()
			cost += c
		}
		end := hour.Add(time.Hour)
		days := max(1, end.Sub(hours[0]).Hours()/24)
		for s := Info; s < severities; s++ {
			at := max(Info, min(Critical, s+Severity(step)))
			if cost/days >= least[s] && e.Reached[at].IsZero() {
				e.Reached[at] = end
				if end.Before(notBefore) {
					e.Reached[at] = notBefore
				}
			}
		}
	}
	for s := Low; s <= e.Least; s++ {
		e.Reached[s] = notBefore
	}
	e.Severity = e.Reached.highest()
}
