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

// changedHours are the UTC hours whose usage differs between two copies.
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

// ledgerStateSQL: what the ledger's rows of a range rest on. Parameters: from, to.
const ledgerStateSQL = `
SELECT toUInt32(max(epoch)) AS epoch, toUInt64(sum(inputs)) AS inputs
FROM usage_hourly FINAL
WHERE hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')}`

// ledgerState is the newest epoch of rules and mapping in a range, and the sum
// of its rows' inputs: by them a later reader tells why usage changed.
func ledgerState(ctx context.Context, db DB, from, to time.Time) (epoch uint32, inputs uint64, err error) {
	rows, err := db.Query(ctx, ledgerStateSQL, rangeParameters(from, to)...)
	if err != nil {
		return 0, 0, fmt.Errorf("query the ledger's state: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err has told what matters
	for rows.Next() {
		if err := rows.Scan(&epoch, &inputs); err != nil {
			return 0, 0, fmt.Errorf("read the ledger's state: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return 0, 0, fmt.Errorf("read the ledger's state: %w", err)
	}
	return epoch, inputs, nil
}

// ledgerBasis is what ledgerState says of a month's hours.
type ledgerBasis struct {
	epoch  uint32
	inputs uint64
}

// ledgerBases asks once for all tenants whose months begin and end alike.
type ledgerBases struct {
	db DB
	of map[[2]time.Time]ledgerBasis
}

func (b *ledgerBases) at(ctx context.Context, document *Invoice) (ledgerBasis, error) {
	month := [2]time.Time{document.From, document.To}
	if basis, ok := b.of[month]; ok {
		return basis, nil
	}
	epoch, inputs, err := ledgerState(ctx, b.db, document.From, document.To)
	if err == nil {
		b.of[month] = ledgerBasis{epoch, inputs}
	}
	return ledgerBasis{epoch, inputs}, err
}

// Fingerprint changes whenever the ledger's rows of a month, or what was decided
// of it, do.
type Fingerprint struct {
	Rows      uint64 // a hash over the versions of the ledger's rows
	Documents int
}

// fingerprintSQL: each row's version counts, so that hours which are published
// anew one after the other are seen one after the other. Parameters: from, to.
const fingerprintSQL = `
SELECT groupBitXor(cityHash64(cluster, hour, node, gpu, version)) AS fingerprint
FROM usage_hourly FINAL
WHERE hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')}`

// Fingerprint is a month's, of all hours that lie in it in some zone.
func (r *Register) Fingerprint(ctx context.Context, period string) (Fingerprint, error) {
	state, err := r.view(ctx)
	if err != nil {
		return Fingerprint{}, err
	}
	month, err := rating.ParsePeriod(period)
	if err != nil {
		return Fingerprint{}, err
	}
	f := Fingerprint{}
	for _, chain := range state.chains(period) {
		f.Documents += len(chain)
	}
	from, to := month.Range()
	f.Rows, err = ledgerFingerprint(ctx, r.deps.DB, from, to)
	return f, err
}

func ledgerFingerprint(ctx context.Context, db DB, from, to time.Time) (fingerprint uint64, err error) {
	rows, err := db.Query(ctx, fingerprintSQL, rangeParameters(from, to)...)
	if err != nil {
		return 0, fmt.Errorf("query the ledger's fingerprint: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err has told what matters
	for rows.Next() {
		if err := rows.Scan(&fingerprint); err != nil {
			return 0, fmt.Errorf("read the ledger's fingerprint: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return 0, fmt.Errorf("read the ledger's fingerprint: %w", err)
	}
	return fingerprint, nil
}

// FinalisedPeriods are the months with a finalised invoice, ascending.
func (r *Register) FinalisedPeriods(ctx context.Context) ([]string, error) {
	state, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	var periods []string
	for _, chain := range state.chains("") { // by period
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

// whyChanged says why the usage of some hours is not what was invoiced: an
// epoch of rules and mapping that is newer, or more inputs.
func whyChanged(ctx context.Context, db DB, before decisions.Invoice, changed []time.Time) (string, error) {
	if len(changed) == 0 {
		return reasonLate, nil
	}
	epoch, _, err := ledgerState(ctx, db, changed[0], changed[len(changed)-1].Add(time.Hour))
	if err != nil {
		return "", err
	}
	if epoch > before.Epoch {
		return fmt.Sprintf("%s: epoch %d instead of %d, %s", reasonMapping, epoch, before.Epoch, hoursText(changed)), nil
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
