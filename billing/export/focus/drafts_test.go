package focus_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/billing/export/focus"
	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

// From a ledger full of names that bite, owners of no time, and energy that ran
// backwards: every draft's rows sum to it, and whole-GPU list costs to the
// capacity's list value.
func TestDraftsOfAHostileLedger(t *testing.T) {
	db := storetest.Open(t)
	var ledger []usagetest.GPUHour
	for day := range 3 {
		for hour := range 4 {
			at := march.AddDate(0, 0, 9+day).Add(time.Duration(5+hour) * time.Hour)
			for i, tenant := range hostileTenants {
				share := uint64(1_000_003 * (i + 1))
				ledger = append(ledger, usagetest.GPUHour{
					Hour: at, GPU: "GPU-" + string(rune('a'+i)), Node: "=n", Model: "NVIDIA H100", Slices: 7, Unhealthy: 5, Stranded: 3_600_000,
					PlatformEnergyMJ: -7, UnattributedMJ: 11, Owners: []usagetest.Owner{
						{Leaf: "m1", Profile: "1g.10gb", ProfileSlices: 1, Tenant: tenant, Project: "=p", Active: share, EnergyMJ: -123_456_789},
						{Leaf: "m2", Profile: "2g.20gb", ProfileSlices: 2, Tenant: tenant, Project: "line\nbreak", Idle: share / 7, EnergyMJ: 98_765_432 * int64(i)},
						{Leaf: "m3", Tenant: hostileTenants[(i+1)%len(hostileTenants)], Project: "of no time"},
					},
				})
			}
		}
	}
	usagetest.Insert(t, db, ledger...)
	drafts := invoice.NewDrafts(db, parse(t, hostileBook))
	month, err := drafts.List(t.Context(), "2026-03")
	if err != nil {
		t.Fatal(err)
	}
	path, summary, err := focus.File(t.TempDir(), "2026-03", focus.Options{}, march, focus.Drafts(t.Context(), drafts, "2026-03", nil))
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rows := read(t, content)
	for _, i := range month.Invoices {
		got := rows.sum(t, "BilledCost", row{"x_BillKind": "draft", "SubAccountId": subAccount(i.Tenant)})
		if !got.Equal(i.Total.Decimal) {
			t.Errorf("rows of %q sum to %s, want %s", i.Tenant, got, i.Total)
		}
	}
	if len(month.Invoices) != len(hostileTenants) || summary.Rows != len(rows) {
		t.Errorf("%d invoices, want %d; %d rows, the summary says %d", len(month.Invoices), len(hostileTenants), len(rows), summary.Rows)
	}
	if got := rows.sum(t, "x_WholeGPUListCost", nil).RoundBank(18).String(); got != month.Platform.CapacityList.String() {
		t.Errorf("whole-GPU list costs sum to %s, want the capacity's %s", got, month.Platform.CapacityList)
	}
	negative := false
	for _, r := range rows {
		negative = negative || r["x_Effect"] == "energy" && strings.HasPrefix(r["BilledCost"], "-")
	}
	if !negative {
		t.Error("no tenant's energy is negative")
	}
	if _, _, err := focus.File(t.TempDir(), "2026-03", focus.Options{}, march, focus.Drafts(t.Context(), drafts, "March", nil)); err == nil {
		t.Error("a month that is none has drafts")
	}
}
