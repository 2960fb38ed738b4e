package commandtest

import (
	"encoding/json"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/cmd/gputally/listprice"
	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/ingest/explain"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/placetest"
	"github.com/gputally/gputally/internal/store/storetest"
)

// TestExplain takes a worked case through the command, and then changes what
// the ledger says.
func TestExplain(t *testing.T) {
	storetest.Library(t)
	data := programtest.NewDataDir(t)
	programtest.MustImport(t, data, programtest.ReadCase(t, "r9_mig").File)
	ask := []string{"explain", "--data", data, "--gpu", "GPU-", "--hour", "2026-03-01T00:00Z"}
	got := programtest.Invoke(t, ask...)
	if got.Code != cli.ExitOK || got.Stderr != "" {
		t.Fatalf("explain: got %+v", got)
	}
	for _, want := range []string{
		"GPU GPU-m, NVIDIA H100 80GB HBM3, node n1, cluster k", "a/p: tenant a, leaf gi1 (3g.40gb of 3 slices)",
		"00:00:00-00:00:20: 2 slots, held by a/p → active, 60 000 slice-ms", "GR_ENGINE_ACTIVE 0.5",
		"a (a/p) pays for 0.005 GPU-hours: 0.003 active because",
		"the lines sum to it", "list rate 2.49 USD per GPU-hour", "hours of 3g.40gb × 1.14", "list values sum to it",
	} {
		if !strings.Contains(got.Stdout, want) {
			t.Errorf("explain: %q is not in\n%s", want, got.Stdout)
		}
	}
	for line := range strings.Lines(got.Stdout) {
		if utf8.RuneCountInString(line) > explain.TextWidth+1 {
			t.Errorf("longer than %d columns: %q", explain.TextWidth, line)
		}
	}
	explainAsJSON(t, append(ask, "--time-zone", "Europe/Berlin", "--tenant", "b"))
	for flag, want := range map[string]programtest.Outcome{
		"--gpu=GPU-q":              {Code: cli.ExitFailed, Stderr: "nearest: GPU-m"},
		"--hour=2026-03-02T00:00Z": {Code: cli.ExitFailed, Stderr: "it has 1 hour from 2026-03-01T00:00:00Z"},
		"--hour=2026-03-01T00:10Z": {Code: cli.ExitUsage, Stderr: "the one around it is 2026-03-01T00:00:00Z"},
		"--hour=noon":              {Code: cli.ExitUsage, Stderr: `"noon"`},
		"--gpu=":                   {Code: cli.ExitUsage, Stderr: "give exactly one of --gpu"},
		"--output=csv":             {Code: cli.ExitUsage, Stderr: "want text or json"},
		"--time-zone=Mars":         {Code: cli.ExitUsage, Stderr: "want a zone such as"},
	} {
		if got := programtest.Invoke(t,
			append(ask, flag)...); got.Code != want.Code || got.Stdout != "" || !strings.Contains(got.Stderr, want.Stderr) {
			t.Errorf("explain %s: got %+v, want code %d and %q", flag, got, want.Code, want.Stderr)
		}
	}
	programtest.Alter(t, data,
		`INSERT INTO usage_hourly SELECT * REPLACE (version + 1 AS version, free - 1 AS free, stranded + 1 AS stranded) FROM usage_hourly FINAL`)
	got = programtest.Invoke(t, ask...)
	if got.Code != cli.ExitFailed || !strings.Contains(got.Stdout, "free is 27999 in the ledger, but 28000 recomputed from raw") {
		t.Errorf("explain of a row that was changed: got %+v", got)
	}
}

// explainAsJSON holds the JSON's keys to what scripts read.
func explainAsJSON(t *testing.T, ask []string) {
	t.Helper()
	got := programtest.Invoke(t, append(ask, "--output", "json")...)
	var answer struct {
		GPU       string `json:"gpu"`
		TimeZone  string `json:"time_zone"`
		HourLocal string `json:"hour_local"`
		Lines     []struct {
			Tenant string `json:"tenant"`
			Code   string `json:"code"`
			From   string `json:"from"`
			Local  string `json:"from_local"`
		} `json:"lines"`
		Proof struct{ OK bool }
		Price struct {
			Owners []struct {
				Tenant string                          `json:"tenant"`
				Total  struct{ Decimal, Exact string } `json:"total_before_terms"`
			} `json:"owners"`
		} `json:"price"`
	}
	if err := json.Unmarshal([]byte(got.Stdout), &answer); err != nil || got.Code != cli.ExitOK {
		t.Fatalf("explain as JSON: got %+v: %v", got, err)
	}
	if answer.GPU != "GPU-m" || !answer.Proof.OK || answer.TimeZone != "Europe/Berlin" ||
		answer.HourLocal != "2026-03-01T01:00:00+01:00" || len(answer.Lines) == 0 {
		t.Errorf("explain as JSON: got %+v", answer)
	}
	for _, l := range answer.Lines {
		if l.Tenant != "b" || l.Code == "" || !strings.HasSuffix(l.From, "Z") || !strings.HasSuffix(l.Local, "+01:00") {
			t.Errorf("explain --tenant b: line %+v", l)
		}
	}
	// 72,000 slice-ms of 2 slices are 36 s of the profile at 0.76 per hour.
	if p := answer.Price.Owners; len(
		p) != 1 || p[0].Tenant != "b" || p[0].Total.Decimal != "0.0076" || p[0].Total.Exact != "19/2500" {
		t.Errorf("explain --tenant b: price %+v, want 0.0076", p)
	}
}

func TestPriceOfAnHour(t *testing.T) {
	hour := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	book := &prices.Book{Name: "book", Currency: "EUR", Versions: []prices.Version{{
		Effective: hour, KWh: decimal.RequireFromString("0.30"), IdleSurcharge: decimal.RequireFromString("0.5"),
		Models: map[string]prices.Model{"X": {
			GPUHour:  decimal.RequireFromString("3"),
			Profiles: map[string]decimal.Decimal{"1g": decimal.RequireFromString("0.5")},
		}},
	}}}
	e := &explain.Explanation{Hour: hour, Model: "X", Figures: explain.Figures{
		Slices: 7, GPUSlices: 7, CapacitySliceMS: 7 * 3_600_000, Free: 7*3_600_000 - 3_600_000 - 1_800_000,
	}, Owners: []explain.Owner{
		{Label: "a", Leaf: "gpu", Active: 1_800_000, EnergyMJ: 3_600_000_000},
		{Label: "b", Leaf: "gi1", Profile: "1g", ProfileSlices: 1, Idle: 3_600_000},
	}}
	p := listprice.Of(book, e, explain.Request{})
	if !p.Proved || p.Capacity.Exact != "3" {
		t.Errorf("price: got %+v, want it proved and a capacity of 3", p)
	}
	a, b := p.Owners[0].Total.Rat, p.Owners[1].Total.Rat
	// a: 1/14 GPU-hour × 3 + 1 kWh × 0.30; b: 1 profile hour × 0.5 + 1/7 × 3 × 0.5 surcharge.
	if want := new(big.Rat).Add(big.NewRat(3, 14), big.NewRat(3, 10)); a.Cmp(want) != 0 {
		t.Errorf("a: got %s, want %s", a.RatString(), want.RatString())
	}
	if want := new(big.Rat).Add(big.NewRat(1, 2), big.NewRat(3, 14)); b.Cmp(want) != 0 {
		t.Errorf("b: got %s, want %s", b.RatString(), want.RatString())
	}
	e.Figures.Free--
	if listprice.Of(book, e, explain.Request{}).Proved {
		t.Error("a slice-ms lacks, and the price is proved")
	}
	for _, c := range []struct {
		model string
		hour  time.Time
		want  string
	}{{"Y", hour, `price model "Y"`}, {"X", hour.Add(-time.Hour), "starts at 2026-03-01"}} {
		e.Model, e.Hour = c.model, c.hour
		if got := listprice.Of(book, e, explain.Request{}); !strings.Contains(got.Text(), c.want) || !got.Proved {
			t.Errorf("price of %s at %s: got %+v, want %q", c.model, c.hour, got, c.want)
		}
	}
}

// The GPU-hour of an invoice's line is priced by the invoice's own book, though another is in force, and what changed
// since is beside it; where no usage of the line is left, the error names the note that credited it.
func TestExplainOfAnInvoiceSaysWhatChangedSince(t *testing.T) {
	storetest.Library(t)
	data := programtest.NewFleet(t)
	programtest.MustInvoke(t, "invoice", "finalise", "--data", data, "--period", "2026-03")
	ask := []string{"explain", "--data", data, "--invoice", "2026-03-team-a-r0", "--line", "1"}
	type answer struct {
		Price struct {
			GPUHour string `json:"gpu_hour"`
		} `json:"price"`
		Invoiced *listprice.Invoiced `json:"invoiced"`
	}
	explained := func() (a answer) {
		t.Helper()
		if err := json.Unmarshal([]byte(programtest.MustInvoke(t, append(ask, "--output", "json")...)), &a); err != nil ||
			a.Invoiced == nil {
			t.Fatalf("explain: got %+v, %v, want the invoiced line", a, err)
		}
		return a
	}
	before := explained()
	if i := before.Invoiced; i.InForce != "" || len(i.Moved) > 0 || i.UnitPrice != before.Price.GPUHour {
		t.Errorf("before anything changed: got %+v", i)
	}
	dearer := filepath.Join(t.TempDir(), "dearer.yaml")
	placetest.WriteFile(t, dearer,
		"currency: USD\nversions:\n- effective: 2026-01-01T00:00:00Z\n  models: {NVIDIA H100 80GB HBM3: {gpu_hour: \"9.87\"}}\n")
	programtest.MustInvoke(t, "prices", "load", dearer, "--data", data)
	late := func(minutes, boot int) {
		t.Helper()
		programtest.MustImport(t, data, programtest.WriteLines(t, programtest.FleetLinesUnheld(t, boot, 0, minutes, "n1", "n2")))
	}
	late(90, 2000)
	after := explained()
	if after.Price.GPUHour != before.Price.GPUHour || after.Invoiced.InForce == "" || len(after.Invoiced.Moved) == 0 ||
		after.Invoiced.Amount != before.Invoiced.Amount {
		t.Errorf("after a new book and late batches: got %+v, before %+v", after, before)
	}
	text := programtest.MustInvoke(t, ask...)
	for _, want := range []string{after.Invoiced.Amount, after.Invoiced.PriceBook, after.Invoiced.InForce} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	late(programtest.FleetHours*60, 3000)
	programtest.MustInvoke(t, "invoice", "note", "--data", data, "--period", "2026-03", "--tenant", "team-a")
	if got := programtest.Invoke(t, ask...); got.Code != cli.ExitFailed || !strings.Contains(got.Stderr, "2026-03-team-a-r1") {
		t.Errorf("no usage of the line is left: got %+v, want the note named", got)
	}
}
