package commandtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/placetest"
)

const moneyCases = "../../../testdata/contract/money"

// simulated is what the contract says of one tenant.
type simulated struct {
	Tenant   string                     `json:"tenant"`
	Period   string                     `json:"period"`
	Currency string                     `json:"currency"`
	GPUHours decimal.Decimal            `json:"gpu_hours"`
	Effects  map[string]decimal.Decimal `json:"effects"`
	Total    decimal.Decimal            `json:"total"`
}

// equalDecimals compares by value: trailing zeros don't matter.
var equalDecimals = cmp.Comparer(func(a, b decimal.Decimal) bool { return a.Equal(b) })

func decodeStrictly(t *testing.T, text string, into any) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
}

func simulateCase(t *testing.T, name string, args ...string) programtest.Outcome {
	t.Helper()
	return programtest.Invoke(t, append([]string{
		"prices", "simulate", "--usage", filepath.Join(moneyCases, name+".csv"),
		"--prices", filepath.Join(moneyCases, name+".yaml"), "--period", "2026-03",
	}, args...)...)
}

func TestSimulateContractCasesEffectByEffect(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(moneyCases, "*.json"))
	if err != nil || len(files) != 20 {
		t.Fatalf("found %d cases, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := simulateCase(t, name, "--output", "json")
			if got.Code != cli.ExitOK || got.Stderr != "" {
				t.Fatalf("simulate: %+v", got)
			}
			var want, rated []simulated
			decodeStrictly(t, string(data), &want)
			decodeStrictly(t, got.Stdout, &rated)
			if diff := cmp.Diff(want, rated, equalDecimals); diff != "" {
				t.Errorf("invoices (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSimulatePrintsOneBookEffectByEffect(t *testing.T) {
	got := simulateCase(t, "discounts")
	want := programtest.Came(cli.ExitOK, ""+
		"TENANT                          GPU-HOURS    LIST  DISCOUNT  FIXED DISCOUNT   TOTAL  CURRENCY\n"+
		"a                                   200.0  498.00    -99.60         -100.00  298.40  USD\n"+
		"b                                     1.0    2.49     -0.50           -1.99    0.00  USD\n"+
		"all tenants                         201.0  500.49   -100.10         -101.99  298.40  USD\n"+
		"(platform) at list, not billed        0.0                                      0.00  USD\n", "")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	got = simulateCase(t, "sevenths", "--output", "csv")
	first, _, _ := strings.Cut(got.Stdout, "\n")
	if want := "tenant,gpu_hours,list,profile,tier,discount,fixed_discount,reservation,idle_surcharge,minimum,energy,distribution,rounding,total,currency"; first != want {
		t.Errorf("header %q, want %q", first, want)
	}
	if want := "a,0.142857143,0.35571428607,0,0,0,0,0,0,0,0,0,0.00428571393,0.36,USD\n"; !strings.Contains(
		got.Stdout, want) {
		t.Errorf("csv %q, want %q in it", got.Stdout, want)
	}
}

func TestSimulatePutsBooksSideBySide(t *testing.T) {
	// 1,200 GPU-hours: 2,910.00 with tiers, 2,988.00 without, 3,600.00 at 3.00.
	args := []string{"--prices", filepath.Join(moneyCases, "plain.yaml"), "--gpu-hour", "3.00"}
	got := simulateCase(t, "tiers", args...)
	want := programtest.Came(cli.ExitOK, ""+
		"TENANT       GPU-HOURS  TIERS.YAML  PLAIN.YAML  DIFFERENCE  PERCENT  GPU-HOUR  DIFFERENCE 3  PERCENT 3  CURRENCY\n"+
		"a              1 200.0    2 910.00    2 988.00       78.00      2.7  3 600.00        690.00       23.7  USD\n"+
		"all tenants    1 200.0    2 910.00    2 988.00       78.00      2.7  3 600.00        690.00       23.7  USD\n", "")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	got = simulateCase(t, "tiers", append(args, "--output", "json")...)
	var answer struct {
		Period, Currency string
		Books            []struct {
			Prices, Total, Difference string
			Hash                      string `json:"price_book_sha256"`
			Invoices                  []simulated
		}
	}
	decodeStrictly(t, got.Stdout, &answer)
	if len(answer.Books) != 3 || answer.Books[2].Total != "3600" || answer.Books[2].Difference != "690" ||
		len(answer.Books[0].Hash) != 64 || answer.Books[2].Hash != "" || len(answer.Books[1].Invoices) != 1 {
		t.Errorf("json = %+v", answer)
	}
}

func TestSimulateRatesOfOneModelAndOfAllOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usage.csv")
	const hour = "2026-03-01T00:00:00Z"
	placetest.WriteFile(t, path, "hour,tenant,project,model,profile,profile_slices,slices,bucket,slice_ms,energy_mj\n"+
		hour+",a,,X=Y,,,1,active,36000000,0\n"+hour+",a,,B,,,1,active,3600000,0\n"+hour+",b,,C,,,1,idle,3600000,7200000000\n"+
		hour+",b,,,,,1,idle,3600000,0\n")
	run := func(flags ...string) programtest.Outcome {
		return programtest.Invoke(t,
			append([]string{"prices", "simulate", "--usage", path, "--period", "2026-03", "--output", "csv"}, flags...)...)
	}
	got := run("--gpu-hour", "X=Y=3.5", "--gpu-hour", "0.25", "--currency", "JPY")
	want := "a,11,35.25,0,0,0,0,0,0,0,0,0,-0.25,35,JPY\nb,2,0.5,0,0,0,0,0,0,0,0,0,-0.5,0,JPY\n"
	if got.Code != cli.ExitOK || !strings.HasSuffix(got.Stdout, want) {
		t.Errorf("got %+v, want rows %q", got, want)
	}
	if got := run("--gpu-hour", "B=1"); got.Code != cli.ExitFailed || !strings.Contains(got.Stderr,
		`price model "C"`) || !strings.Contains(got.Stderr, `price model "X=Y"`) {
		t.Errorf("models without a rate: got %+v", got)
	}
}

func TestSimulateNamesWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	usageFile, book, euros := filepath.Join(dir, "u.csv"), filepath.Join(dir, "p.yaml"), filepath.Join(dir, "e.yaml")
	placetest.WriteFile(t, usageFile,
		"hour,tenant,project,model,profile,profile_slices,slices,bucket,slice_ms,energy_mj\n"+
			"2026-03-01T00:00:00Z,a,,H100,,,7,active,many,0\n")
	placetest.WriteFile(t, book, "currency: USD\nversions: 1\n")
	plain := filepath.Join(moneyCases, "plain.yaml")
	placetest.WriteFile(t, euros, strings.Replace(string(placetest.ReadFile(t, plain)), "USD", "EUR", 1))
	good := filepath.Join(moneyCases, "plain.csv")
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{
			"--usage " + usageFile + " --prices " + plain, cli.ExitFailed,
			usageFile + `: read usage: line 2: slice_ms "many" is not an integer`,
		},
		{"--usage " + plain + " --prices " + plain, cli.ExitUsage, "line 1: header is"},
		{"--usage " + os.DevNull + " --prices " + plain, cli.ExitUsage, "the file is empty"},
		{"--usage " + good + " --prices " + book, cli.ExitUsage, book + `:2: versions: want a list, got 1`},
		{"--usage " + good, cli.ExitUsage, "give --prices FILE or --gpu-hour RATE"},
		{"--usage " + good + " --prices " + plain + " --data x", cli.ExitUsage, "one of them"},
		{"--usage " + good + " --prices " + plain + " --prices " + euros, cli.ExitUsage, "in one currency"},
		{"--usage " + good + " --gpu-hour -1", cli.ExitUsage, `"-1" is not a non-negative decimal`},
		{"--usage " + good + " --gpu-hour A=1 --gpu-hour A=2", cli.ExitUsage, `a second rate for "A"`},
		{"--usage " + good + " --gpu-hour 1 --currency euro", cli.ExitUsage, `"euro" is not an active ISO 4217`},
		{
			"--usage " + good + " --prices " + plain + " --gpu-hour 1 --currency EUR", cli.ExitUsage,
			"is in USD",
		},
		{"--usage no/such.csv --gpu-hour 1", cli.ExitEnvironment, "no/such.csv: no such file"},
		{"--prices " + plain, cli.ExitUsage, "no ledger is named"},
	} {
		got := programtest.Invoke(t,
			append([]string{"prices", "simulate", "--period", "2026-03"}, strings.Fields(c.args)...)...)
		if got.Code != c.code || !strings.Contains(got.Stderr, c.want) || got.Stdout != "" {
			t.Errorf("%s: got %+v, want code %d and %q", c.args, got, c.code, c.want)
		}
	}
}

func TestSimulateRatesALedgersMonth(t *testing.T) {
	data := programtest.NewLedger(t)
	// 1 + 4 × 0.5 hours held; two hours are free.
	got := programtest.Invoke(t, "prices", "simulate", "--data", data, "--period", "2026-10", "--output", "json",
		"--prices", filepath.Join(moneyCases, "plain.yaml"))
	var rated []simulated
	if got.Code != cli.ExitOK {
		t.Fatalf("simulate: %+v", got)
	}
	decodeStrictly(t, got.Stdout, &rated)
	if len(rated) != 1 || !rated[0].GPUHours.Equal(decimal.NewFromInt(3)) || rated[0].Total.String() != "7.47" {
		t.Errorf("rated = %+v, want 3 GPU-hours for 7.47", rated)
	}
	// By the configured book it is what the drafts are.
	got = programtest.Invoke(t, "prices", "simulate", "--data", data, "--period", "2026-10", "--output", "csv")
	drafts := programtest.Invoke(t, "invoice", "list", "--data", data, "--period", "2026-10", "--output", "csv")
	cells := strings.Split(strings.TrimSpace(drafts.Stdout), ",")
	if total := "," + cells[len(cells)-2] + ",USD\n"; got.Code != cli.ExitOK || !strings.HasSuffix(got.Stdout, total) {
		t.Errorf("simulated %+v, drafted %+v", got, drafts)
	}
	got = programtest.Invoke(t, "prices", "simulate", "--data", data, "--period", "2026-10", "--gpu-hour", "2")
	if got.Code != cli.ExitOK || !strings.Contains(got.Stdout, "6.00") || !strings.Contains(got.Stdout, " GPU-HOUR") {
		t.Errorf("beside the configured book: %+v", got)
	}
}
