package usage_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/usage"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

var start = time.Date(2026, 3, 31, 23, 0, 0, 0, time.UTC)

func fleet(t *testing.T) *store.DB {
	t.Helper()
	db := storetest.Open(t)
	usagetest.Insert(t, db,
		usagetest.GPUHour{
			Hour: start, GPU: "GPU-a", Node: "n1", Model: "H100", Slices: 7, PlatformEnergyMJ: 500, UnattributedMJ: 7_001,
			Owners: []usagetest.Owner{
				{
					Leaf: "MIG-1", Profile: "1g.10gb", ProfileSlices: 1, Tenant: "ml", Project: "p", User: "u", Workload: "w",
					Active: 1_800_000, Idle: 1_800_000, EnergyMJ: 1_500,
				},
				{Leaf: "MIG-2", Profile: "1g.10gb", ProfileSlices: 1, Tenant: "=cmd()", Unproven: 3_600_000, EnergyMJ: -1_002},
			},
		},
		usagetest.GPUHour{
			Hour: start.Add(time.Hour), GPU: "GPU-b", Node: "n2", Model: "T4", Slices: 1,
			Owners: []usagetest.Owner{{Leaf: "GPU-b", Tenant: "ml", Active: 3_600_000}},
		},
		usagetest.GPUHour{
			Hour: start.Add(2 * time.Hour), GPU: "GPU-c", Node: "n2", Model: "T4", Slices: 1, PresentMS: 1,
			Unobserved: 1, Owners: []usagetest.Owner{{Leaf: "GPU-c", Tenant: "zero"}},
		},
	)
	return db
}

func run(t *testing.T, db *store.DB, q usage.Query) string {
	t.Helper()
	if q.From.IsZero() {
		q.From, q.To = start, start.Add(3*time.Hour)
	}
	rows, err := usage.Run(t.Context(), db, q)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := usage.WriteCSV(&out, q, rows); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

const header = ",active_slice_ms,idle_slice_ms,unproven_slice_ms,free_slice_ms,stranded_slice_ms,unhealthy_slice_ms,unobserved_slice_ms,gpu_hours,energy_joules\n"

func TestRunGroups(t *testing.T) {
	db := fleet(t)
	cases := map[string]struct {
		query usage.Query
		want  string
	}{
		"tenant, over GPUs of different slices": {usage.Query{By: []string{"tenant"}}, "tenant" + header +
			",0,0,0,18000000,0,0,1,0.714285992,0.500\n" +
			"(unattributed),0,0,0,0,0,0,0,0,7.001\n" +
			"'=cmd(),0,0,3600000,0,0,0,0,0.142857143,-1.002\n" +
			"ml,5400000,1800000,0,0,0,0,0,1.142857143,1.500\n"},
		"month and node": {usage.Query{By: []string{"month", "node"}}, "month,node" + header +
			"2026-03,n1,1800000,1800000,3600000,18000000,0,0,0,1,7.999\n" +
			"2026-04,n2,3600000,0,0,0,0,0,1,1.000000278,0.000\n"},
		"the order of columns is the query's": {
			usage.Query{By: []string{"hour", "day", "tenant"}, Tenant: "ml"},
			"hour,day,tenant" + header +
				"2026-03-31T23:00:00Z,2026-03-31,ml,1800000,1800000,0,0,0,0,0,0.142857143,1.500\n" +
				"2026-04-01T00:00:00Z,2026-04-01,ml,3600000,0,0,0,0,0,0,1,0.000\n",
		},
		"all of an owner's columns": {usage.Query{
			By:     []string{"project", "user", "workload", "gpu", "leaf", "model", "profile"},
			Tenant: "ml", From: start, To: start.Add(time.Hour),
		}, "project,user,workload,gpu,leaf,model,profile" + header +
			"p,u,w,GPU-a,MIG-1,H100,1g.10gb,1800000,1800000,0,0,0,0,0,0.142857143,1.500\n"},
		"nothing": {usage.Query{By: []string{"tenant"}, Tenant: "zero"}, "tenant" + header},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, run(t, db, c.query)); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}

// A tenant may be called as the platform and the reset's energy are: nothing
// of theirs becomes its own.
func TestRunKeepsKindsApart(t *testing.T) {
	db := storetest.Open(t)
	usagetest.Insert(t, db, usagetest.GPUHour{
		Hour: start, GPU: "GPU-a", Model: "H100", Slices: 1, PlatformEnergyMJ: 5_000, UnattributedMJ: 7_000,
		Owners: []usagetest.Owner{
			{Leaf: "a", Tenant: "(unattributed)", Active: 600_000, EnergyMJ: 1_000},
			{Leaf: "b", Tenant: "", Active: 1_200_000, EnergyMJ: 2_000},
		},
	})
	want := "tenant" + header +
		",1200000,0,0,0,0,0,0,0.333333333,2.000\n" +
		",0,0,0,1800000,0,0,0,0.5,5.000\n" +
		"(unattributed),600000,0,0,0,0,0,0,0.166666667,1.000\n" +
		"(unattributed),0,0,0,0,0,0,0,0,7.000\n"
	if diff := cmp.Diff(want, run(t, db, usage.Query{By: []string{"tenant"}})); diff != "" {
		t.Errorf("by tenant (-want +got):\n%s", diff)
	}
	want = "tenant" + header + "(unattributed),600000,0,0,0,0,0,0,0.166666667,1.000\n"
	if diff := cmp.Diff(want, run(t, db, usage.Query{By: []string{"tenant"}, Tenant: "(unattributed)"})); diff != "" {
		t.Errorf("one tenant's (-want +got):\n%s", diff)
	}
	want = "kind" + header +
		"owner,1800000,0,0,0,0,0,0,0.5,3.000\nplatform,0,0,0,1800000,0,0,0,0.5,5.000\nunattributed,0,0,0,0,0,0,0,0,7.000\n"
	if diff := cmp.Diff(want, run(t, db, usage.Query{By: []string{"kind"}})); diff != "" {
		t.Errorf("by kind (-want +got):\n%s", diff)
	}
}

func TestRunTakesOnlyTheNewestVersion(t *testing.T) {
	db := storetest.Open(t)
	row := usagetest.GPUHour{
		Hour: start, GPU: "GPU-a", Slices: 1, Version: 1,
		Owners: []usagetest.Owner{{Tenant: "old", Active: 1}},
	}
	usagetest.Insert(t, db, row)
	row.Version, row.Owners = 2, []usagetest.Owner{{Tenant: "new", Active: 3_600_000}}
	usagetest.Insert(t, db, row)
	want := "tenant" + header + "new,3600000,0,0,0,0,0,0,1,0.000\n"
	if diff := cmp.Diff(want, run(t, db, usage.Query{By: []string{"tenant"}})); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

func TestRunLimit(t *testing.T) {
	db := fleet(t)
	q := usage.Query{By: []string{"tenant"}, From: start, To: start.Add(3 * time.Hour), Limit: 4}
	if rows, err := usage.Run(t.Context(), db, q); err != nil || len(rows) != 4 {
		t.Errorf("%d rows, %v, want 4", len(rows), err)
	}
	q.Limit = 3
	var many *usage.TooManyRowsError
	if _, err := usage.Run(t.Context(), db, q); !errors.As(err, &many) || many.Limit != 3 {
		t.Errorf("error = %v, want more than 3 rows", err)
	}
}

func TestRunTotals(t *testing.T) {
	db := fleet(t)
	rows, err := usage.Run(t.Context(), db, usage.Query{From: start, To: start.Add(3 * time.Hour)})
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d rows, %v, want the totals", len(rows), err)
	}
	if got, want := rows[0].GPUHours, "2.000000278"; got != want {
		t.Errorf("gpu_hours = %s, want %s", got, want)
	}
}

func TestQueryErrorsNameTheValue(t *testing.T) {
	good := usage.Query{By: []string{"tenant"}, From: start, To: start.Add(time.Hour)}
	for want, change := range map[string]func(*usage.Query){
		`group usage by "tenants": not one of tenant, project`: func(q *usage.Query) { q.By = []string{"tenants"} },
		`group usage by "tenant": named twice`:                 func(q *usage.Query) { q.By = []string{"tenant", "tenant"} },
		"from 2026-03-31T23:00:01Z is not the start":           func(q *usage.Query) { q.From = start.Add(time.Second) },
		"to 2026-03-31T23:30:00Z is not the start":             func(q *usage.Query) { q.To = start.Add(30 * time.Minute) },
		"is not before": func(q *usage.Query) { q.To = q.From },
		"to 9999-12-01T00:00:00Z: want a time in the years 1970 to 2105": func(q *usage.Query) {
			q.To = time.Date(9999, 12,
				1, 0, 0, 0, 0, time.UTC)
		},
		"from 0001-01-01T00:00:00Z: want a time in the years 1970 to 2105": func(q *usage.Query) { q.From = time.Time{} },
		"limit -1 is negative": func(q *usage.Query) { q.Limit = -1 },
	} {
		q := good
		change(&q)
		if _, err := usage.Run(t.Context(), nil, q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want it to contain %s", err, want)
		}
	}
}

func TestParseBy(t *testing.T) {
	by, err := usage.ParseBy("hour, tenant")
	if diff := cmp.Diff([]string{"hour", "tenant"}, by); diff != "" || err != nil {
		t.Errorf("by (-want +got), %v:\n%s", err, diff)
	}
	if by, err := usage.ParseBy(" "); by != nil || err != nil {
		t.Errorf("by of nothing = %v, %v", by, err)
	}
	if _, err := usage.ParseBy("hour,"); err == nil || !strings.Contains(err.Error(), `by ""`) {
		t.Errorf("error = %v, want the empty column named", err)
	}
}

// Pages put together are the whole, whatever their size and the columns.
func TestPagesAreTheWhole(t *testing.T) {
	db := fleet(t)
	for _, by := range [][]string{{"tenant"}, {"hour", "tenant", "kind"}, {"gpu", "project"}, nil} {
		q := usage.Query{By: by, From: start, To: start.Add(3 * time.Hour)}
		want, err := usage.Run(t.Context(), db, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, q.Limit = range []int{1, 2, 3, len(want), len(want) + 1} {
			var got []usage.Row
			var after *usage.Row
			for more := true; more; {
				var page []usage.Row
				if page, more, err = usage.Page(t.Context(), db, q, after); err != nil {
					t.Fatal(err)
				}
				if more && len(page) != q.Limit {
					t.Fatalf("by %v: a page of %d rows with more to come, want %d", by, len(page), q.Limit)
				}
				if got = append(got, page...); len(page) > 0 {
					after = &page[len(page)-1]
				}
			}
			if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 })); diff != "" {
				t.Errorf("by %v in pages of %d (-want +got):\n%s", by, q.Limit, diff)
			}
		}
	}
}

// A row that comes between two pages moves none of the others.
func TestPagesAreStableUnderInserts(t *testing.T) {
	db := storetest.Open(t)
	insert := func(tenants ...string) {
		for _, tenant := range tenants {
			usagetest.Insert(t, db, usagetest.GPUHour{
				Hour: start, GPU: "GPU-" + tenant, Slices: 1,
				Owners: []usagetest.Owner{{Leaf: "l", Tenant: tenant, Active: 3_600_000}},
			})
		}
	}
	insert("b,1", "d'", "f")
	q := usage.Query{By: []string{"tenant"}, From: start, To: start.Add(time.Hour), Limit: 2}
	first, more, err := usage.Page(t.Context(), db, q, nil)
	if err != nil || !more {
		t.Fatalf("first page: more %v, %v", more, err)
	}
	insert("a", "e")
	second, more, err := usage.Page(t.Context(), db, q, &first[1])
	if err != nil || more {
		t.Fatalf("second page: more %v, %v", more, err)
	}
	var got []string
	for _, row := range append(first, second...) {
		got = append(got, row.By[0])
	}
	if diff := cmp.Diff([]string{"b,1", "d'", "e", "f"}, got); diff != "" {
		t.Errorf("tenants of both pages (-want +got):\n%s", diff)
	}
}

func TestOnlyLeavesRowsWithTheValue(t *testing.T) {
	db := fleet(t)
	want := "node" + header + "n2,3600000,0,0,0,0,0,1,1.000000278,0.000\n"
	if diff := cmp.Diff(want,
		run(t, db, usage.Query{
			By:   []string{"node"},
			Only: map[string]string{"node": "n2", "month": "2026-04"},
		})); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	_, err := usage.Run(t.Context(), db,
		usage.Query{From: start, To: start.Add(time.Hour), Only: map[string]string{"colour": "x"}})
	if err == nil || !strings.Contains(err.Error(), `column "colour": not one of tenant`) {
		t.Errorf("error = %v, want the column named", err)
	}
}

// Each of these pools alone fits 64 bits; what they sum to wrapped around 2^64.
func TestH8SumsBeyond64BitsAreExact(t *testing.T) {
	db := storetest.Open(t)
	hours := make([]usagetest.GPUHour, 1300)
	for i := range hours {
		const sliceMS = 4_000_000_000 * 3_600_000
		hours[i] = usagetest.GPUHour{
			Hour: start, GPU: fmt.Sprintf("pool-%d", i), Model: "H100", Slices: 4_000_000_000, GPUSlices: 1000,
			Owners: []usagetest.Owner{{Leaf: "all", Tenant: "evil", Active: sliceMS, EnergyMJ: math.MaxInt64}},
		}
	}
	usagetest.Insert(t, db, hours...)
	want := "tenant" + header + "evil,18720000000000000000,0,0,0,0,0,0,5200000000,11990383647911208549.100\n"
	if diff := cmp.Diff(want, run(t, db, usage.Query{By: []string{"tenant"}})); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}
