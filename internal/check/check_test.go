package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type fakeCheck struct {
	name string
	run  func(ctx context.Context) (Result, error)
}

func (c fakeCheck) Name() string                            { return c.name }
func (c fakeCheck) Run(ctx context.Context) (Result, error) { return c.run(ctx) }

func passing(name string) Check {
	return fakeCheck{name, func(context.Context) (Result, error) {
		r := New(name, "sums agree")
		r.Checked, r.Figures = 744, "744 GPU-hours = 744 GPU-hours"
		return r, nil
	}}
}

func TestRunKeepsOrderAndFailsWhatCannotRun(t *testing.T) {
	broken := fakeCheck{"C3", func(context.Context) (Result, error) {
		return Result{}, errors.New("read journal: connection refused")
	}}
	misnamed := fakeCheck{"C4", func(context.Context) (Result, error) { return New("C5", "other"), nil }}
	got, err := Run(t.Context(), []Check{passing("C1"), broken, misnamed, passing("C6")})
	if err != nil {
		t.Fatalf("run checks: %v", err)
	}
	want := []Result{
		{
			Name: "C1", Title: "sums agree", OK: true, Checked: 744, Figures: "744 GPU-hours = 744 GPU-hours",
			Findings: []string{},
		},
		{
			Name: "C3", Title: "not carried out", Violations: 1,
			Findings: []string{"check could not be completed: read journal: connection refused"},
		},
		{
			Name: "C4", Title: "other", Violations: 1,
			Findings: []string{`check could not be completed: check C4 returned a result named "C5"`},
		},
		{
			Name: "C6", Title: "sums agree", OK: true, Checked: 744, Figures: "744 GPU-hours = 744 GPU-hours",
			Findings: []string{},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if NoneFailed(got) {
		t.Error("NoneFailed with two failures: got true")
	}
}

func TestRunStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	interrupted := fakeCheck{"C2", func(ctx context.Context) (Result, error) {
		cancel()
		return Result{}, ctx.Err()
	}}
	got, err := Run(ctx, []Check{passing("C1"), interrupted, passing("C3")})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error: got %v, want the context's", err)
	}
	if len(got) != 1 || got[0].Name != "C1" {
		t.Errorf("results: got %v, want C1's alone", got)
	}
}

func TestNoneFailedNeedsAProof(t *testing.T) {
	if NoneFailed(nil) {
		t.Error("NoneFailed of nothing: got true")
	}
	if !NoneFailed([]Result{New("C1", "")}) {
		t.Error("NoneFailed of one that passed: got false")
	}
}

func TestNotProvenIsNeitherOKNorAFailure(t *testing.T) {
	r := New("C7", "money")
	r.Say("2026-09: 2 = 2 USD")
	r.NotProve("2026-10 has no prices")
	want := Result{
		Name: "C7", Title: "money", NotProven: true, Figures: "2026-09: 2 = 2 USD; 2026-10 has no prices",
		Findings: []string{},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if r.Failed() || !NoneFailed([]Result{r}) {
		t.Error("what has nothing to prove counts as failed")
	}
	var b bytes.Buffer
	if err := WriteTable(&b, []Result{r}); err != nil || b.String() != "C7  n/a   money  "+want.Figures+"\n" {
		t.Errorf("table: got %q, %v", b.String(), err)
	}
	b.Reset()
	if err := WriteCSV(&b, []Result{r}); err != nil || !strings.Contains(b.String(), "\nC7,money,n/a,0,0,") {
		t.Errorf("csv: got %q, %v", b.String(), err)
	}
	r.Fail("a cent is missing")
	r.NotProve("2026-11 has no prices")
	if !r.Failed() || r.NotProven {
		t.Errorf("a violation beside a month without prices: got %+v, want it to fail", r)
	}
}

func violated() []Result {
	ok := New("C1", "sampled = spooled + dropped")
	ok.Figures = "44,640 batches"
	bad := New("C6", "buckets sum to capacity")
	bad.Figures = "1 of 744 GPU-hours"
	for i := range MaxFindings + 2 {
		bad.Fail("GPU-%d at 2026-10-01T00:00:00Z: 3599999 of 3600000 slice-ms", i)
	}
	return []Result{ok, bad}
}

func TestWriteTable(t *testing.T) {
	var b bytes.Buffer
	if err := WriteTable(&b, violated()); err != nil {
		t.Fatal(err)
	}
	want := `C1  ok    sampled = spooled + dropped  44,640 batches
C6  FAIL  buckets sum to capacity      1 of 744 GPU-hours
    - GPU-0 at 2026-10-01T00:00:00Z: 3599999 of 3600000 slice-ms
    - GPU-1 at 2026-10-01T00:00:00Z: 3599999 of 3600000 slice-ms
    - GPU-2 at 2026-10-01T00:00:00Z: 3599999 of 3600000 slice-ms
    - GPU-3 at 2026-10-01T00:00:00Z: 3599999 of 3600000 slice-ms
    - GPU-4 at 2026-10-01T00:00:00Z: 3599999 of 3600000 slice-ms
    - and 2 more
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestWriteTableShowsLongDecimalsToCents(t *testing.T) {
	r := New("C7", "money")
	r.Figures = "tenants 23154.771428571 + platform 1.245 + rounding -0.000000004 = capacity 23156.016428567 USD"
	var b bytes.Buffer
	if err := WriteTable(&b, []Result{r}); err != nil {
		t.Fatal(err)
	}
	want := "C7  ok    money  tenants 23154.77 + platform 1.245 + rounding 0.00 = capacity 23156.02 USD\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestWriteJSONRoundTrips(t *testing.T) {
	var b bytes.Buffer
	results := violated()
	if err := WriteJSON(&b, results); err != nil {
		t.Fatal(err)
	}
	var got struct {
		OK     bool
		Checks []Result
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("decode %s: %v", b.String(), err)
	}
	if got.OK {
		t.Error("ok: got true with a violated check")
	}
	if diff := cmp.Diff(results, got.Checks); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
	b.Reset()
	if err := WriteJSON(&b, nil); err != nil {
		t.Fatal(err)
	}
	if want := "{\n  \"ok\": false,\n  \"checks\": []\n}\n"; b.String() != want {
		t.Errorf("no checks: got %q, want %q", b.String(), want)
	}
}

func TestWriteCSV(t *testing.T) {
	var b bytes.Buffer
	r := New("C3", "journal")
	r.Checked, r.Figures = 2, "2 rows, 1 promised"
	r.Fail("partition 0 offset 1: no row")
	r.Fail("partition 0 offset 2: no row")
	if err := WriteCSV(&b, []Result{r}); err != nil {
		t.Fatal(err)
	}
	want := "name,title,ok,checked,violations,figures,findings\n" +
		"C3,journal,false,2,2,\"2 rows, 1 promised\",partition 0 offset 1: no row; partition 0 offset 2: no row\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("csv (-want +got):\n%s", diff)
	}
}
