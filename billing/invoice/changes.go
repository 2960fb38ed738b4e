package invoice

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/store"
)

// changedHours returns the UTC hours whose usage differs between two copies.
func changedHours(tenant string, before, after []byte) ([]time.Time, error) {
	then, err := rowsByHour(tenant, before)
	if err != nil {
		return nil, err
	}
	now, err := rowsByHour(tenant, after)
	if err != nil {
		return nil, err
	}
	var changed []time.Time
	for hour, rows := range now {
		if !slices.Equal(rows, then[hour]) {
			changed = append(changed, hour)
		}
		delete(then, hour)
	}
	for hour := range then {
		changed = append(changed, hour)
	}
	slices.SortFunc(changed, time.Time.Compare)
	return changed, nil
}

func rowsByHour(tenant string, usage []byte) (map[time.Time][]rating.Row, error) {
	hours := map[time.Time][]rating.Row{}
	err := rating.ReadCopy(tenant, bytes.NewReader(usage), func(fact rating.Fact) error {
		if fact.Usage {
			hours[fact.Hour] = append(hours[fact.Hour], fact.Row)
		}
		return nil
	})
	return hours, err
}

// ledgerStateSQL reads the inputs of the ledger's rows of a range. Parameters: from, to.
const ledgerStateSQL = `
SELECT toUInt32(max(epoch)) AS epoch, toUInt64(sum(inputs)) AS inputs
FROM usage_hourly FINAL
WHERE hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')}`

// ledgerState is the state of the ledger's rows of a range: the newest epoch of rules and mapping, and the sum of the
// rows' inputs. Later states are compared with it to explain why usage changed.
type ledgerState struct {
	epoch  uint32
	inputs uint64
}

func readLedgerState(ctx context.Context, db DB, from, to time.Time) (ledgerState, error) {
	fields := func(s *ledgerState) []any { return []any{&s.epoch, &s.inputs} }
	found, err := store.Select(ctx, db, "the ledger's state", ledgerStateSQL, rangeParameters(from, to), fields)
	if err != nil || len(found) == 0 {
		return ledgerState{}, err
	}
	return found[0], nil
}

// ledgerStates reads the state once for all tenants with the same month's bounds.
type ledgerStates struct {
	db DB
	of map[[2]time.Time]ledgerState
}

func (b *ledgerStates) at(ctx context.Context, document *Invoice) (state ledgerState, err error) {
	month := [2]time.Time{document.From, document.To}
	state, known := b.of[month]
	if !known {
		if state, err = readLedgerState(ctx, b.db, document.From, document.To); err == nil {
			b.of[month] = state
		}
	}
	return state, err
}

// Fingerprint changes whenever the ledger's rows or the decisions of a month do.
type Fingerprint struct {
	Rows      uint64 // hash over the versions of the ledger's rows
	Documents int
}

// fingerprintSQL includes each row's version, so that hours which are published again one after the other are
// noticed. Parameters: from, to.
const fingerprintSQL = `
SELECT groupBitXor(cityHash64(cluster, hour, node, gpu, version)) AS fingerprint
FROM usage_hourly FINAL
WHERE hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')}`

// Fingerprint returns a month's fingerprint, of all hours that are in it in some zone.
func (r *Register) Fingerprint(ctx context.Context, period string) (Fingerprint, error) {
	if err := r.refresh(ctx); err != nil {
		return Fingerprint{}, err
	}
	month, err := rating.ParsePeriod(period)
	if err != nil {
		return Fingerprint{}, err
	}
	f := Fingerprint{}
	for _, chain := range r.chains(period) {
		f.Documents += len(chain)
	}
	from, to := month.Range()
	err = store.Each(ctx, r.deps.DB, "the ledger's fingerprint", fingerprintSQL, rangeParameters(from, to),
		func(rows *uint64) []any { return []any{rows} }, func(rows *uint64) error { f.Rows = *rows; return nil })
	return f, err
}

// FinalisedPeriods returns the months with a finalised invoice, ascending.
func (r *Register) FinalisedPeriods(ctx context.Context) ([]string, error) {
	if err := r.refresh(ctx); err != nil {
		return nil, err
	}
	var periods []string
	for _, chain := range r.chains("") { // by period
		if period := chain[0].Period; len(periods) == 0 || periods[len(periods)-1] != period {
			periods = append(periods, period)
		}
	}
	return periods, nil
}

func rangeParameters(from, to time.Time) []any {
	return []any{store.Named("from", from), store.Named("to", to)}
}

// Reasons of adjustments; each is followed by figures.
const (
	reasonMapping = "tenant mapping or metering rules changed"
	reasonLate    = "late or corrected data"
)

// whyChanged returns why the usage of some hours differs from the invoiced one: a newer epoch of rules and mapping,
// or more inputs.
func whyChanged(ctx context.Context, db DB, before decisions.Invoice, changed []time.Time) (string, error) {
	if len(changed) == 0 {
		return reasonLate, nil
	}
	now, err := readLedgerState(ctx, db, changed[0], changed[len(changed)-1].Add(time.Hour))
	if err != nil {
		return "", err
	}
	if now.epoch > before.Epoch {
		return fmt.Sprintf("%s: epoch %d instead of %d, %s", reasonMapping, now.epoch, before.Epoch, hoursText(changed)), nil
	}
	return fmt.Sprintf("%s: %s", reasonLate, hoursText(changed)), nil
}

func hoursText(changed []time.Time) string {
	first := changed[0].Format(time.RFC3339)
	if len(changed) == 1 {
		return "the hour " + first
	}
	return fmt.Sprintf("%d hours from %s to %s", len(changed), first, changed[len(changed)-1].Format(time.RFC3339))
}
