package ask

import (
	"context"
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/plural"
	"github.com/gputally/gputally/internal/store"
)

// proposeSQL reads the power of whole GPUs that nobody held and that did no work, and of working ones, by model.
// Parameters: from, to.
//
//go:embed propose.sql
var proposeSQL string

// power is a model's measured power in W.
type power struct {
	model              string
	slices, gpus       uint64
	rest, busy         uint64 // slots
	median, most, work float64
	known              float64 // what collectors knew as idle power; 0: nothing
}

// How much free time a proposal needs, and how far it is above what was measured: 95 % of the slots are below it.
const (
	leastRestSlots = 360
	leastRestGPUs  = 2
	aboveRest      = 1.05
	proposeReach   = 7 * 24 * time.Hour
)

// watts is the proposed idle power.
func (p *power) watts() float64 { return math.Ceil(p.most * aboveRest) }

// refusal says why nothing is proposed for the model; empty: something is.
func (p *power) refusal() string {
	switch {
	case p.known > 0:
		return fmt.Sprintf("collectors know %g W", p.known)
	case p.rest < leastRestSlots || p.gpus < leastRestGPUs:
		return fmt.Sprintf("only %s of %s were free with a power reading: want %d slots of %d GPUs",
			plural.Of(p.rest, "slot"), plural.Of(p.gpus, "GPU"), leastRestSlots, leastRestGPUs)
	case p.busy > 0 && p.work <= p.watts()+meter.ContextWatts:
		return fmt.Sprintf("its power says nothing: %.0f W at work in half of the slots is not above %g W at rest by the "+
			"%d W of an open CUDA context", p.work, p.watts(), meter.ContextWatts)
	}
	return ""
}

// ProposeModels prints idle watts for the models that lack them, from the power of the cluster's own free GPUs, as YAML
// for the configuration of a collector. Without --from it reads the last seven days.
func ProposeModels(ctx context.Context, s *cli.Session) error {
	return app.WithStore(ctx, s, func(a *app.Access) error {
		from, to, ok, err := app.Resolve(ctx, &s.Range, a)
		if err != nil {
			return err
		}
		if !ok {
			return app.SayNothing(ctx, s, a, s.Range.String())
		}
		if s.Range.From.At.IsZero() && to.Sub(from) > proposeReach {
			from = to.Add(-proposeReach)
		}
		models, err := store.Select(ctx, a.DB, "power of free GPUs", proposeSQL, []any{
			store.Named("from", from.UTC().Format(time.DateTime)), store.Named("to", to.UTC().Format(time.DateTime)),
		}, func(p *power) []any {
			return []any{&p.model, &p.slices, &p.gpus, &p.rest, &p.busy, &p.median, &p.most, &p.work, &p.known}
		})
		if err != nil {
			return err
		}
		return printProposals(s, models, from, to)
	})
}

func printProposals(s *cli.Session, models []power, from, to time.Time) error {
	w := &pageWriter{s: s}
	w.linef("# Measured from %s to %s, for section exporter or device:", minute(from), minute(to))
	w.linef("models:")
	n := 0
	for i := range models {
		p := &models[i]
		if why := p.refusal(); why != "" {
			w.linef("  # %s: %s", cli.Printable(p.model), why)
			continue
		}
		n++
		w.linef("  # %s, %s free: %.0f W in half of them, at most %.0f W in 95 %%; %.0f W at work",
			plural.Of(p.gpus, "GPU"), plural.Of(p.rest, "slot"), p.median, p.most, p.work)
		w.linef("  - name: %s", strconv.Quote(p.model))
		w.linef("    slices: %d", p.slices)
		w.linef("    idle_watts: %g", p.watts())
	}
	if n == 0 {
		w.linef("  [] # nothing to propose")
	}
	return w.err
}
