package commandtest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/placetest"
)

// A GPU-hour is 2.00; bio has a tenth off.
const weekPrices = `currency: USD
versions:
- effective: 2026-01-01T00:00:00Z
  models: {a100: {gpu_hour: "2.00"}}
  tenants:
    bio: {discount: "0.10"}
`

// knownJobs are four of the last day whose corrections a person can rate.
func knownJobs(day time.Time) []slurmJob {
	at := func(hour, minute int) time.Time {
		return day.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
	}
	return []slurmJob{
		{id: "9001", user: "ann", account: "bio", gpus: 2, start: at(8, 0), end: at(12, 0)},
		{id: "9002", user: "ben", account: "phys", gpus: 4, start: at(9, 15), end: at(12, 15)},
		{id: "9003", user: "cid", account: "med", gpus: 1, start: at(10, 0), end: at(10, 30)},
		{id: "9004", user: "dot", account: "geo", gpus: 8, start: at(1, 0), end: at(20, 0)},
	}
}

// corrected is an adjustment in what people ask of it.
type corrected struct{ note, kind, hours, gpuHours, list, discount, total, reason string }

func pendingOf(t *testing.T, data, period string) (found []corrected) {
	t.Helper()
	var pending []invoice.Adjustment
	if err := json.Unmarshal([]byte(programtest.MustInvoke(t, "invoice", "adjustments", "--data", data, "--period",
		period, "--output", "json")), &pending); err != nil {
		t.Fatal(err)
	}
	for _, a := range pending {
		found = append(found, corrected{
			note: a.Note.Number, kind: a.Note.Kind, hours: fmt.Sprintf("%d from %s to %s", a.Hours, a.First, a.Last),
			gpuHours: a.Note.GPUHours.String(),
			list:     a.Note.Effects.List.StringFixed(2), discount: a.Note.Effects.Discount.StringFixed(2),
			total:  a.Note.Total.String(),
			reason: strings.SplitN(a.Reason, ":", 2)[0],
		})
	}
	return found
}

// R20, R17: a week of accounting is imported twice and its months finalised;
// then the last day comes once more, with a job of bio's 90 minutes shorter,
// one of phys' chem's, and med's only one gone. Each is listed with its hours
// and its amount, nobody else is, and notes settle it.
func TestCorrectedAccountingAdjustsFinalisedMonths(t *testing.T) {
	from := time.Date(2026, 2, 25, 5, 0, 0, 0, time.UTC)
	lastDay, to := from.AddDate(0, 0, 6), from.AddDate(0, 0, 7)
	data := programtest.NewDataDir(t)
	load := func(jobs []slurmJob, from time.Time, want string) {
		t.Helper()
		said := programtest.MustInvoke(t, "import", "sacct", sacctFile(t, jobs, from, to, time.UTC), "--data", data,
			"--cluster", "hpc", "--capacity", "a100=400",
			"--window-start", from.Format(time.RFC3339), "--window-end", to.Format(time.RFC3339))
		if !strings.Contains(said, want) {
			t.Fatalf("import said %q, want %q", said, want)
		}
	}
	jobs := append(slurmWeek(from), knownJobs(lastDay)...)
	load(jobs, from, "168 batches imported, 0 bad rows")
	load(jobs, from, "; 0 batches imported")
	placetest.WriteFile(t, filepath.Join(data, "prices.yaml"), weekPrices)
	placetest.WriteFile(t, filepath.Join(data, "gputally.yaml"), "billing: {prices: prices.yaml}\n")
	for _, period := range []string{"2026-02", "2026-03"} {
		programtest.MustInvoke(t, "invoice", "finalise", "--data", data, "--period", period, "--by", "finance")
	}
	if pending := pendingOf(t, data, "2026-03"); len(pending) != 0 {
		t.Fatalf("adjustments before the correction: %+v", pending)
	}

	fixed := slices.Clone(jobs)
	known := len(fixed) - 4
	fixed[known].end = fixed[known].end.Add(-90 * time.Minute)
	fixed[known+1].account = "chem"
	fixed = slices.Delete(fixed, known+2, known+3)
	load(fixed, lastDay, ": 0 records new, 2 changed, 1 deleted, ")

	const late = "late or corrected data"
	want := []corrected{
		// 2 GPUs for 90 minutes: 3 GPU-hours at 2.00, less a tenth, in the hours 15 and 16 UTC.
		{
			"2026-03-bio-r1", "credit_note", "2 from 2026-03-03T15:00:00Z to 2026-03-03T16:00:00Z", "-3.000000000", "-6.00",
			"0.60", "-5.40", late,
		},
		// 4 GPUs for three hours, of which the hours 14 to 17 UTC have a part.
		{
			"2026-03-chem-r1", "debit_note", "4 from 2026-03-03T14:00:00Z to 2026-03-03T17:00:00Z", "12.000000000", "24.00",
			"0.00", "24.00", late,
		},
		// one GPU for half an hour.
		{
			"2026-03-med-r1", "credit_note", "1 from 2026-03-03T15:00:00Z to 2026-03-03T15:00:00Z", "-0.500000000", "-1.00",
			"0.00", "-1.00", late,
		},
		// what chem has now: equal list value, the other sign.
		{
			"2026-03-phys-r1", "credit_note", "4 from 2026-03-03T14:00:00Z to 2026-03-03T17:00:00Z", "-12.000000000", "-24.00",
			"0.00", "-24.00", late,
		},
	}
	allowed := cmp.AllowUnexported(corrected{})
	if diff := cmp.Diff(want, pendingOf(t, data, "2026-03"), allowed); diff != "" {
		t.Errorf("adjustments of March (-want +got):\n%s", diff)
	}
	if pending := pendingOf(t, data, "2026-02"); len(pending) != 0 {
		t.Errorf("adjustments of February, whose days nobody corrected: %+v", pending)
	}
	for _, w := range want {
		tenant := strings.Split(w.note, "-")[2]
		if said := programtest.MustInvoke(t, "invoice", "note", "--data", data, "--period", "2026-03", "--tenant", tenant,
			"--by", "finance", "--output", "csv"); !strings.Contains(said, w.note+","+tenant+","+w.kind+",USD,"+w.total) {
			t.Errorf("note of %s: %q, want %s over %s", tenant, said, w.kind, w.total)
		}
	}
	if pending := pendingOf(t, data, "2026-03"); len(pending) != 0 {
		t.Errorf("adjustments after the notes: %+v", pending)
	}
	if got := programtest.Invoke(t, "invoice", "note", "--data", data, "--period", "2026-03", "--tenant",
		"geo"); got.Code != cli.ExitFailed || !strings.Contains(got.Stderr, "its usage hasn't changed") {
		t.Errorf("a note for geo, which nobody corrected: got %+v", got)
	}
	checks := programtest.MustVerify(t, data)
	// bio, phys and chem in two months, geo and med in March; four notes.
	if figures := checks.Checks["C8"].Figures; !strings.Contains(figures, "12 finalised invoices and notes recomputed") {
		t.Errorf("C8 = %q, want 12 documents", figures)
	}
}
