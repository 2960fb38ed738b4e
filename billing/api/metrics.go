package api

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/internal/decisions"
)

// Outcomes of a decision that was asked for.
const (
	outcomeDecided  = "decided"
	outcomeReplayed = "replayed" // by the same key before
	outcomeAlready  = "already"  // by another key before
	outcomeRefused  = "refused"
	outcomeFailed   = "failed" // nobody knows whether it was made
)

// metrics of decisions; requests are counted where they are served.
type metrics struct{ decisions *prometheus.CounterVec }

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gputally_api_decisions_total", Help: "Decisions asked for over the finance API, by kind and outcome.",
	}, []string{"kind", "outcome"})}
	for _, kind := range []decisions.Kind{decisions.KindInvoice, decisions.KindNote, decisions.KindApproval, decisions.KindPriceBook} {
		for _, outcome := range []string{outcomeDecided, outcomeReplayed, outcomeAlready, outcomeRefused, outcomeFailed} {
			m.decisions.WithLabelValues(string(kind), outcome)
		}
	}
	if err := registry.Register(m.decisions); err != nil {
		return nil, fmt.Errorf("register finance API metrics: %w", err)
	}
	return m, nil
}
