package commandtest

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

// hostileTenant is a name that a spreadsheet would run.
const hostileTenant = `=HYPERLINK("http://x","y")`

// hostileLedger has five hours of a GPU whose owner's every name is a formula:
// one of work, four idle.
func hostileLedger(t *testing.T) string {
	t.Helper()
	storetest.Library(t)
	path := filepath.Join(t.TempDir(), "data")
	a := programtest.OpenNew(t, path)
	owner := usagetest.Owner{
		Leaf: "-leaf", Tenant: hostileTenant, Project: "+p", User: "@u", Workload: "-w",
		EnergyMJ: -1_500_000,
	}
	for hour := range 5 {
		o := owner
		if hour == 0 {
			o.Active = programtest.HourMS
		} else {
			o.Idle = programtest.HourMS
		}
		usagetest.Insert(t, a.DB, usagetest.GPUHour{
			Hour: time.Date(2026, 10, 1, hour, 0, 0, 0, time.UTC), GPU: "@GPU-1", Node: "=n1", Model: "NVIDIA H100 80GB HBM3",
			Slices: 1, Version: 1, Owners: []usagetest.Owner{o},
		})
	}
	if err := a.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	return path
}

// Every CSV spells a tenant alike, and no text of any can become a formula;
// numbers stay numbers.
func TestNoOutputCarriesAFormula(t *testing.T) {
	data := hostileLedger(t)
	month := []string{"--period", "2026-10"}
	for _, args := range [][]string{
		{"usage", "--by", "tenant,project,user,workload,node,gpu,leaf", "--output", "csv"},
		{"anomalies", "--output", "csv"},
		append([]string{"invoice", "list", "--output", "csv"}, month...),
		append([]string{"invoice", "show", "--tenant", hostileTenant, "--output", "csv"}, month...),
		append([]string{"export", "csv"}, month...),
		append([]string{"export", "focus"}, month...),
	} {
		got := programtest.Invoke(t, append(args, "--data", data)...)
		if got.Code != cli.ExitOK {
			t.Fatalf("%v: got %+v", args, got)
		}
		text := got.Stdout
		if args[0] == "export" {
			file, err := os.ReadFile(strings.TrimSpace(text))
			if err != nil {
				t.Fatal(err)
			}
			text = string(file)
		}
		wantNoFormula(t, args, text)
	}
}

func wantNoFormula(t *testing.T, args []string, text string) {
	t.Helper()
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(records) < 2 {
		t.Fatalf("%v: %d records, %v", args, len(records), err)
	}
	numbers := []string{
		"energy_joules", "quantity", "unit_price", "amount", "total",
		"PricingQuantity", "ConsumedQuantity", "ListCost", "ContractedCost", "EffectiveCost", "BilledCost",
	}
	tenants := map[string]bool{}
	for _, record := range records[1:] {
		for i, cell := range record {
			if records[0][i] == "tenant" {
				tenants[cell] = true
			}
			if !slices.Contains(numbers, records[0][i]) && cell != "" && strings.ContainsRune("=+-@", rune(cell[0])) {
				t.Errorf("%v: %s %q can be taken for a formula", args, records[0][i], cell)
			}
		}
	}
	if slices.Contains(records[0], "tenant") && !tenants["'"+hostileTenant] {
		t.Errorf("%v: tenants %v, want %q among them", args, tenants, "'"+hostileTenant)
	}
}
