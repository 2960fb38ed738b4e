package billing_test

import (
	_ "embed"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
)

// monthInsertSQL fills hours of the ledger; its parameters stand in it.
//
//go:embed testdata/month_insert.sql
var monthInsertSQL string

// monthLedger is a ledger of a cluster's hours: October 2026 and a day on each
// side, so that every zone has its month.
type monthLedger struct {
	db            *store.DB
	book          *prices.Book
	gpus, tenants int
	from          time.Time
	hours         int
}

func newMonthLedger(t *testing.T, gpus, tenants int) *monthLedger {
	t.Helper()
	l := &monthLedger{
		db: storetest.Open(t), book: monthBook(t, gpus, tenants), gpus: gpus, tenants: tenants,
		from: time.Date(2026, 9, 30, 0, 0, 0, 0, time.UTC), hours: 33 * 24,
	}
	measure(t, "fill the ledger", func() error { return l.fill(t) })
	var rows, workloads, held, free, stranded, unhealthy, unobserved uint64
	err := l.db.QueryRow(t.Context(), monthSizeSQL).Scan(&rows, &workloads, &held, &free, &stranded, &unhealthy, &unobserved)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d GPUs, %d tenants, %d workloads, %d GPU-hours: %d slice-hours held, %d free, %d stranded, %d unhealthy, %d unobserved",
		gpus, tenants, workloads, rows, held, free, stranded, unhealthy, unobserved)
	if min(held, free, stranded, unhealthy, unobserved) == 0 {
		t.Error("a bucket is empty")
	}
	return l
}

// fill inserts whole days, of at most some 200,000 GPU-hours at a time.
func (l *monthLedger) fill(t *testing.T) error {
	t.Helper()
	const layout = "2006-01-02 15:04:05"
	days := l.hours / 24
	step := min(max(200_000/(24*l.gpus), 1), days)
	for day := 0; day < days; day += step {
		err := l.db.Exec(t.Context(), monthInsertSQL,
			store.Named("gpus", strconv.Itoa(l.gpus)), store.Named("tenants", strconv.Itoa(l.tenants)),
			store.Named("hours", strconv.Itoa(24*min(step, days-day))),
			store.Named("from", l.from.AddDate(0, 0, day).Format(layout)),
			store.Named("arrival", l.from.AddDate(0, 0, 9).Add(7*time.Hour).Format(layout)))
		if err != nil {
			return err
		}
	}
	return nil
}

const monthSizeSQL = `
SELECT count() AS gpu_hours, uniqExactArray(workload),
    intDiv(sum(arraySum(active) + arraySum(idle) + arraySum(unproven)), 3600000),
    intDiv(sum(free), 3600000), intDiv(sum(stranded), 3600000), intDiv(sum(unhealthy), 3600000), intDiv(sum(unobserved), 3600000)
FROM usage_hourly FINAL`

// monthHeldSQL is what tenants held, by hour.
const monthHeldSQL = `
SELECT toString(tenant), hour, toInt64(sum(active_slice_ms + idle_slice_ms + unproven_slice_ms))
FROM usage WHERE kind = 'owner' GROUP BY tenant, hour`

func (l *monthLedger) held(t *testing.T) map[tenantHour]int64 {
	t.Helper()
	rows, err := l.db.Query(t.Context(), monthHeldSQL)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	held := map[tenantHour]int64{}
	for rows.Next() {
		var k tenantHour
		var sliceMS int64
		if err := rows.Scan(&k.Tenant, &k.Hour, &sliceMS); err != nil {
			t.Fatal(err)
		}
		k.Hour = k.Hour.UTC()
		held[k] = sliceMS
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return held
}

// monthCapacitySQL is what there was, by hour and model.
const monthCapacitySQL = `
SELECT hour, toString(model), toInt64(gpu_slices), toInt64(sum(toUInt64(slices) * present_ms))
FROM usage_hourly FINAL GROUP BY hour, model, gpu_slices ORDER BY hour, model`

type hourCapacity struct {
	hour   time.Time
	models []modelCapacity
}

type modelCapacity struct {
	model           string
	slices, sliceMS int64
}

func (l *monthLedger) capacity(t *testing.T) []hourCapacity {
	t.Helper()
	rows, err := l.db.Query(t.Context(), monthCapacitySQL)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []hourCapacity
	for rows.Next() {
		var hour time.Time
		var model modelCapacity
		if err := rows.Scan(&hour, &model.model, &model.slices, &model.sliceMS); err != nil {
			t.Fatal(err)
		}
		if hour = hour.UTC(); len(all) == 0 || !all[len(all)-1].hour.Equal(hour) {
			all = append(all, hourCapacity{hour: hour})
		}
		all[len(all)-1].models = append(all[len(all)-1].models, model)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if len(all) != l.hours {
		t.Fatalf("the ledger has %d hours, want %d", len(all), l.hours)
	}
	return all
}

// worth is a capacity's list value, exactly.
func (l *monthLedger) worth(hour time.Time, c modelCapacity) *big.Rat {
	rate := l.book.Versions[l.book.At(hour)].Models[c.model].GPUHour.Rat()
	return rate.Mul(rate, big.NewRat(c.sliceMS, c.slices*3_600_000))
}

// monthBook has prices that change within the month, all effects, and tenants
// in zones of whole, half and quarter hours.
func monthBook(t *testing.T, gpus, tenants int) *prices.Book {
	t.Helper()
	var text strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&text, format+"\n", args...) }
	zones := []string{"Asia/Kolkata", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns"}
	say("currency: USD\ntime_zone: Europe/Berlin\ntenants:")
	for i := range tenants / 2 {
		say("  tenant-%02d: {time_zone: %s}", i, zones[i%len(zones)])
	}
	say("versions:")
	for _, v := range [][]string{{"2026-01-01T00:00:00Z", "2.49", "1.79"}, {"2026-10-12T07:00:00Z", "2.39", "1.85"}} {
		say("- effective: %s\n  kwh: \"0.28\"\n  idle_surcharge: \"0.05\"\n  distribution: proportional\n  models:", v[0])
		say("    H100: {gpu_hour: %q, profiles: {1g.10gb: \"0.40\", 2g.20gb: \"0.77\"}, tiers: [{above: \"200\", gpu_hour: \"2.20\"}, {above: \"5000\", gpu_hour: \"1.99\"}]}", v[1])
		say("    A100: {gpu_hour: %q, tiers: [{above: \"100.5\", gpu_hour: \"1.60\"}]}", v[2])
		say("    A30: {gpu_hour: \"0.79\"}\n    L40S: {gpu_hour: \"1.05\"}\n  tenants:")
		for i := range tenants {
			say("    tenant-%02d: {%s}", i, monthTerms(i, gpus, tenants))
		}
	}
	book, err := prices.Parse("month.yaml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	return book
}

func monthTerms(tenant, gpus, tenants int) string {
	switch tenant % 4 {
	case 0:
		return `discount: "0.125", fixed_discount: "100.00"`
	case 1:
		return fmt.Sprintf(`discount: "0.2", reserved: [{model: H100, gpus: "%d", unused_gpu_hour: "1.80"}]`, 1+gpus/tenants)
	case 2:
		return fmt.Sprintf(`minimum: "%d.00"`, 1500*gpus/tenants)
	}
	return `fixed_discount: "33.33", reserved: [{model: A30, gpus: "0.5", unused_gpu_hour: "0.50"}]`
}

// forgetPeaks makes the kernel count peak memory anew, in this process and the
// engine's.
func forgetPeaks(t *testing.T) {
	t.Helper()
	for _, pid := range append(children(), os.Getpid()) {
		if err := os.WriteFile(filepath.Join("/proc", strconv.Itoa(pid), "clear_refs"), []byte("5"), 0); err != nil {
			t.Logf("peak memory is since the process began: %v", err)
		}
	}
}

// processUsage is what processes took of the machine.
type processUsage struct {
	cpu       time.Duration
	peakBytes int64 // the most memory since forgetPeaks
}

func (u processUsage) since(before processUsage) string {
	return fmt.Sprintf("%.1f s of CPU, at most %d MB", (u.cpu - before.cpu).Seconds(), u.peakBytes>>20)
}

func usageOf(pids ...int) (sum processUsage) {
	const ticksPerSecond = 100 // USER_HZ, the same on every Linux
	for _, pid := range pids {
		proc := filepath.Join("/proc", strconv.Itoa(pid))
		status, _ := os.ReadFile(filepath.Join(proc, "status"))
		_, rest, _ := strings.Cut(string(status), "VmHWM:")
		line, _, _ := strings.Cut(rest, "kB")
		kilobytes, _ := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		sum.peakBytes += kilobytes << 10
		// Behind the name in brackets, utime and stime are the 12th and 13th.
		stat, _ := os.ReadFile(filepath.Join(proc, "stat"))
		_, rest, _ = strings.Cut(string(stat), ") ")
		if fields := strings.Fields(rest); len(fields) > 12 {
			for _, field := range fields[11:13] {
				ticks, _ := strconv.ParseInt(field, 10, 64)
				sum.cpu += time.Duration(ticks) * time.Second / ticksPerSecond
			}
		}
	}
	return sum
}

// children are the processes that this one started, which is the engine.
func children() []int {
	lists, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(os.Getpid()), "task", "*", "children"))
	var all []int
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				all = append(all, pid)
			}
		}
	}
	return all
}
