package commandtest

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

// forecastLedger has 40 days to 20 October, in which tenant ml holds a GPU; tenant new does
// since 11 October.
func forecastLedger(t *testing.T) string {
	t.Helper()
	storetest.Library(t)
	path := filepath.Join(t.TempDir(), "data")
	a := programtest.OpenNew(t, path)
	start := time.Date(2026, 9, 10, 0, 0, 0, 0, time.UTC)
	var hours []usagetest.GPUHour
	for i := range 40 * 24 {
		for gpu, tenant := range map[string]string{"GPU-1": "ml", "GPU-2": "new"} {
			h := usagetest.GPUHour{
				Hour: start.Add(time.Duration(i) * time.Hour), GPU: gpu, Node: "n1", Model: "NVIDIA H100 80GB HBM3",
				Slices: 1, Version: 1,
			}
			if tenant == "ml" || i >= 31*24 {
				h.Owners = []usagetest.Owner{{Leaf: gpu, Tenant: tenant, Workload: "job", Active: programtest.HourMS}}
			}
			hours = append(hours, h)
		}
	}
	usagetest.Insert(t, a.DB, hours...)
	if err := a.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	return path
}

func TestForecast(t *testing.T) {
	data := forecastLedger(t)
	config := filepath.Join(t.TempDir(), "gputally.yaml")
	budgets := "analyzer: {forecast: {budgets: {ml: {gpu_hours: 700}}}}\n"
	if err := os.WriteFile(config, []byte(budgets), 0o600); err != nil {
		t.Fatal(err)
	}
	got := programtest.Invoke(t, "forecast", "--data", data, "--config", config, "--output", "json")
	var lines []map[string]any
	if err := json.Unmarshal([]byte(got.Stdout), &lines); err != nil || got.Code != cli.ExitOK || len(lines) != 4 {
		t.Fatalf("forecast: got %+v, %v; want two lines of each tenant", got, err)
	}
	pick := func(line map[string]any, keys ...string) (values []any) {
		for _, k := range keys {
			values = append(values, line[k])
		}
		return values
	}
	keys := []string{
		"tenant", "from", "to", "known_to", "measure", "currency", "used", "expected", "low80", "high95", "budget", "origins",
		"inside80",
	}
	want := []any{
		"ml", "2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z", "2026-10-20T00:00:00Z", "gpu_hours", "", 456., 744., 744., 744.,
		700., 26., 1.,
	}
	if diff := cmp.Diff(want, pick(lines[0], keys...)); diff != "" {
		t.Errorf("GPU-hours of ml (-want +got):\n%s", diff)
	}
	price := lines[1]["used"].(float64) / 456
	if lines[1]["measure"] != "spend" || lines[1]["currency"] == "" || price <= 0 ||
		math.Abs(744*price-lines[1]["expected"].(float64)) > 0.01 || lines[1]["budget"] != nil {
		t.Errorf("spend of ml: %+v", lines[1])
	}
	if lines[2]["tenant"] != "new" || lines[2]["used"] != 216. || lines[2]["expected"] != nil || lines[2]["note"] == "" {
		t.Errorf("GPU-hours of new: %+v, want what was used, and why there is no forecast", lines[2])
	}
	got = programtest.Invoke(t, "forecast", "--data", data, "--tenant", "ml", "--month", "2026-09", "--output", "csv")
	if rows := strings.Split(got.Stdout, "\n"); got.Code != cli.ExitOK || len(rows) != 4 ||
		!strings.HasPrefix(rows[1], "ml,2026-09-01T00:00:00Z,2026-10-01T00:00:00Z,") ||
		!strings.Contains(rows[1], ",504.000,504.000,") {
		t.Errorf("September, which is over: got %+v", got)
	}
	got = programtest.Invoke(t, "forecast", "--data", data)
	if got.Code != cli.ExitOK || strings.Count(got.Stdout, "\n") != 6 || !strings.Contains(got.Stdout, "744") {
		t.Errorf("table: got %+v", got)
	}
}

func TestForecastRefusesAMonthThatHasNotBegun(t *testing.T) {
	data := programtest.NewLedger(t)
	for month, want := range map[string]string{"2026-11": "2026-11", "soon": "want a month"} {
		got := programtest.Invoke(t, "forecast", "--data", data, "--month", month)
		if got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, want) {
			t.Errorf("--month %s: got %+v", month, got)
		}
	}
	got := programtest.Invoke(t, "forecast", "--data", data, "--tenant", "nobody")
	if got.Code != cli.ExitOK || strings.Count(got.Stdout, "\n") != 1 || got.Stderr == "" {
		t.Errorf("of nobody: got %+v, want a header, and what the ledger has", got)
	}
}
