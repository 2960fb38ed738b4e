package ledger

import (
	"context"
	_ "embed"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"time"

	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/plural"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/tables"
)

const selectStoredUsage = `
SELECT hour, gpu, node, model, slices, gpu_slices, unknown_capacity, present_ms, free, stranded, unhealthy,
  unobserved, unobserved_attribution,
       platform_energy_mj, unattributed_mj, leaf, profile, profile_slices, owner, tenant, project, user, workload,
       active, idle, unproven, inferred, work, energy_mj, parked, rest_owner, rest_from, rest_ms, rest_slice_ms, rest_grade, rest_released
FROM usage_hourly FINAL
WHERE cluster = {cluster:String} AND hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')} AND present_ms > 0`

// Sums are 128-bit here and below, because 64-bit sums overflow silently. The queries
// are not JIT-compiled: the engine's compiler gets 128-bit comparisons wrong.
//
//go:embed sums.sql
var selectSums string

// Every cluster in the ledger or the journal.
const selectAllClusters = `
SELECT cluster, max(slot_ms) AS slot_ms
FROM (SELECT cluster, slot_ms FROM slot_lengths UNION ALL SELECT DISTINCT cluster,
  toUInt32(0) AS slot_ms FROM usage_hourly)
GROUP BY cluster ORDER BY cluster`

const selectUnique = `
SELECT (SELECT count() FROM usage_hourly FINAL WHERE present_ms > 0) AS rows,
       (SELECT uniqExact(hour, gpu) FROM usage_hourly FINAL WHERE present_ms > 0) AS keys,
       (SELECT countIf(length(owner) != arrayUniq(arrayZip(leaf, profile,
         profile_slices, owner))) FROM usage_hourly FINAL) AS doubled`

// For each GPU-hour: the energy that the winning batches measured, and the energy in
// the ledger. Of several nodes that list a GPU only one counts (R14): those hours are
// left to C6, which recomputes them. Slots that are not over are left out.
//
//go:embed energy.sql
var selectEnergy string

// Checks are the invariants of the ledger: C5, C6 and C9.
func (l *Ledger) Checks() []check.Check {
	return []check.Check{
		check.Func("C5", "one row per GPU-hour, and in it one entry per leaf and owner", l.checkUnique),
		check.Func("C6", "the seven buckets sum to the capacity and equal the hour recomputed from raw", l.checkConservation),
		check.Func("C9", "energy in the ledger equals the counters' movement", l.checkEnergy),
	}
}

func (l *Ledger) checkUnique(ctx context.Context, res *check.Result) error {
	var rows []struct {
		Rows    uint64 `ch:"rows"`
		Keys    uint64 `ch:"keys"`
		Doubled uint64 `ch:"doubled"`
	}
	if err := l.deps.Store.Select(ctx, &rows, selectUnique); err != nil {
		return err
	}
	r := rows[0]
	res.Checked = int64(r.Rows)
	res.Figures = fmt.Sprintf("%d rows for %d GPU-hours, %d with a (leaf, owner) twice", r.Rows, r.Keys, r.Doubled)
	if r.Rows != r.Keys {
		res.Fail("%s for %s: there must be one for each", plural.Of(r.Rows, "row"), plural.Of(r.Keys, "GPU-hour"))
	}
	if r.Doubled > 0 {
		res.Fail("%s with two entries for one leaf and owner", plural.Of(r.Doubled, "row"))
	}
	return nil
}

func (l *Ledger) checkConservation(ctx context.Context, res *check.Result) error {
	var sums []struct {
		Rows      uint64  `ch:"rows"`
		Capacity  big.Int `ch:"capacity"`
		Counted   big.Int `ch:"counted"`
		Wrong     uint64  `ch:"wrong"`
		Unfounded uint64  `ch:"unfounded"`
		OpenPools uint64  `ch:"open_pools"`
	}
	if err := l.deps.Store.Select(ctx, &sums, selectSums); err != nil {
		return err
	}
	s := &sums[0]
	if s.Wrong > 0 {
		res.Fail("%s with buckets that don't sum to slices × present_ms", plural.Of(s.Wrong, "GPU-hour"))
	}
	if s.Unfounded > 0 {
		res.Fail("%s with a version that doesn't match their number of inputs", plural.Of(s.Unfounded, "GPU-hour"))
	}
	clusters, err := l.clusters(ctx, selectAllClusters)
	if err != nil {
		return err
	}
	epochs, isNew, err := l.epochs(ctx, false)
	if err != nil {
		return err
	}
	l.checkMapping(epochs, isNew, res)
	skipped, gone := 0, &goneHours{}
	for _, c := range clusters {
		n, err := l.compareCluster(ctx, c, epochs, gone, res)
		if err != nil {
			return err
		}
		skipped += n
	}
	res.Figures = fmt.Sprintf("%d of %d slice-ms in buckets, %d GPU-hours recomputed from raw", &s.Counted, &s.Capacity,
		res.Checked)
	if skipped > 0 {
		res.Figures += fmt.Sprintf(", left out %s that changed meanwhile", plural.Of(skipped, "hour"))
	}
	if s.OpenPools > 0 {
		res.Figures += fmt.Sprintf(", of them %d of pools of unknown capacity, for which only the sum is proven (R18)",
			s.OpenPools)
	}
	return l.checkDropped(ctx, gone, res)
}

// mismatch is an hour whose stored row differs from the recomputed one.
type mismatch struct {
	hour time.Time
	text string
}

// compareCluster recomputes every hour. While data arrive, a mismatch counts only if
// the journal and the rows of its hour didn't change meanwhile.
func (l *Ledger) compareCluster(ctx context.Context, c cluster, epochs []epoch, gone *goneHours,
	res *check.Result,
) (skipped int, err error) {
	o, err := l.overview(ctx, c, epochs, everything)
	if err != nil {
		return 0, err
	}
	c.ahead = o.ahead
	states := map[time.Time]hourState{}
	var all []hourState
	for _, h := range o.hours {
		states[h.start] = h
		gone.note(h)
		if o.ahead && h.dirty && o.watermarkMS-h.start.UnixMilli() <= 2*meter.HourMS {
			skipped++ // the watermark has moved on since the hour was computed
			continue
		}
		if (h.inputs > 0 || h.published) && !h.gone {
			all = append(all, h)
		}
	}
	var wrong []mismatch
	var findings []string
	for _, chunk := range chunks(all, l.cfg.MaxRowsInMemory) {
		n, found, noted, err := l.compareChunk(ctx, c, o.watermarkMS, chunk)
		if err != nil {
			return skipped, err
		}
		res.Checked += n
		wrong, findings = append(wrong, found...), append(findings, noted...)
	}
	if err := l.noteFindings(ctx, c, all, findings, res); err != nil {
		return skipped, err
	}
	if len(wrong) == 0 && len(o.orphans) == 0 {
		return skipped, nil
	}
	now, err := l.overview(ctx, c, epochs, everything)
	if err != nil {
		return skipped, err
	}
	for _, h := range now.hours {
		if h != states[h.start] {
			delete(states, h.start)
		}
	}
	for _, w := range wrong {
		if _, still := states[w.hour]; !still {
			skipped++
			continue
		}
		res.Fail("%s", w.text)
	}
	reportOrphans(c, o, now, res)
	return skipped, nil
}

// reportOrphans reports the hours beyond the end of the journal that were found twice.
func reportOrphans(c cluster, before, now *overview, res *check.Result) {
	for _, hour := range before.orphans {
		if slices.ContainsFunc(now.orphans, hour.Equal) {
			res.Fail("cluster %s, hour %s: the ledger has rows, but the journal ends before that hour", c.Name,
				hour.Format(time.RFC3339))
		}
	}
}

func (l *Ledger) compareChunk(ctx context.Context, c cluster, watermarkMS int64,
	chunk []hourState,
) (checked int64, wrong []mismatch, findings []string, err error) {
	got, _, err := l.compute(ctx, c, watermarkMS, chunk, nil)
	if err != nil {
		return 0, nil, nil, err
	}
	for _, m := range got.missing {
		wrong = append(wrong,
			mismatch{chunk[0].start, fmt.Sprintf("cluster %s, day from %s: %s", c.Name, chunk[0].start.Format(time.RFC3339), m)})
	}
	if len(got.missing) > 0 {
		return 0, wrong, got.findings, nil
	}
	stored, err := l.storedRows(ctx, c, got.hours)
	if err != nil {
		return 0, nil, nil, err
	}
	for i, h := range got.hours {
		for g := range got.results[i].GPUs {
			checked++
			want := usageRowOf(h.start, &got.results[i].GPUs[g], l.names, l.mapping)
			key := ledgerKey{want.Hour, want.GPU}
			if what := difference(want, stored[key]); what != "" {
				wrong = append(wrong,
					mismatch{h.start, fmt.Sprintf("GPU %s, hour %s: %s", want.GPU, want.Hour.Format(time.RFC3339), what)})
			}
			delete(stored, key)
		}
	}
	for key := range stored {
		wrong = append(wrong,
			mismatch{
				key.Hour,
				fmt.Sprintf("GPU %s, hour %s: the ledger has a row, but recomputing the hour from raw gives none", key.GPU,
					key.Hour.Format(time.RFC3339)),
			})
	}
	return checked, wrong, got.findings, nil
}

func (l *Ledger) storedRows(ctx context.Context, c cluster, hours []hourState) (map[ledgerKey]*tables.Usage, error) {
	var rows []tables.Usage
	if err := l.deps.Store.Select(ctx, &rows, selectStoredUsage, store.Named("cluster", c.Name),
		store.Named("from", hours[0].start), store.Named("to", hours[len(hours)-1].start.Add(time.Hour))); err != nil {
		return nil, fmt.Errorf("read ledger rows of %s: %w", c.Name, err)
	}
	out := make(map[ledgerKey]*tables.Usage, len(rows))
	for i := range rows {
		rows[i].Hour = rows[i].Hour.UTC()
		out[ledgerKey{rows[i].Hour, rows[i].GPU}] = &rows[i]
	}
	return out, nil
}

// difference describes the first column that differs from the recomputed row, or
// returns "".
func difference(want, have *tables.Usage) string {
	if have == nil {
		return "recomputing the hour from raw gives a row, but the ledger has none"
	}
	if all := differences(want, have); len(all) > 0 {
		return all[0]
	}
	return ""
}

// differences describes every column that differs from the recomputed row.
func differences(want, have *tables.Usage) (all []string) {
	w, h := reflect.ValueOf(*want), reflect.ValueOf(*have)
	for i := range w.NumField() {
		x, y := w.Field(i), h.Field(i)
		if x.Kind() == reflect.Slice && x.Len() == 0 && y.Len() == 0 {
			continue
		}
		if !reflect.DeepEqual(x.Interface(), y.Interface()) {
			all = append(all, fmt.Sprintf("%s is %v in the ledger, but %v recomputed from raw", w.Type().Field(i).Tag.Get("ch"),
				y.Interface(), x.Interface()))
		}
	}
	return all
}

func (l *Ledger) checkEnergy(ctx context.Context, res *check.Result) error {
	var rows []struct {
		Rows    uint64  `ch:"rows"`
		Moved   big.Int `ch:"moved_mj"`
		Booked  big.Int `ch:"booked_mj"`
		Wrong   uint64  `ch:"wrong"`
		Example string  `ch:"example"`
		Shared  uint64  `ch:"shared"`
	}
	ahead, until, err := l.ahead(ctx)
	if err != nil {
		return err
	}
	if err := l.deps.Store.Select(ctx, &rows, selectEnergy, store.Named("ahead", ahead),
		store.Named("until", until)); err != nil {
		return err
	}
	r := &rows[0]
	res.Checked = int64(r.Rows)
	res.Figures = fmt.Sprintf("%d mJ in the ledger of %d mJ measured in %d GPU-hours", &r.Booked, &r.Moved, r.Rows)
	if r.Shared > 0 {
		res.Figures += fmt.Sprintf("; %d that several nodes listed are left to C6", r.Shared)
	}
	if r.Wrong > 0 {
		res.Fail("%s with another energy than their counters measured, such as %s", plural.Of(r.Wrong, "GPU-hour"), r.Example)
	}
	return nil
}
