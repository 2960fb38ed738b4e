package prices

import (
	"errors"
	"maps"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/internal/meter"
)

// deriveBook has one model of each kind.
const deriveBook = `currency: USD
versions:
- effective: 2026-01-01T00:00:00Z
  models:
    NVIDIA H100 80GB HBM3: {gpu_hour: "2.49"}
    NVIDIA A30: {gpu_hour: "0.59"}
    NVIDIA L4: {gpu_hour: "0.49"}
`

func deriveRates(t *testing.T, policy Policy, model string) map[string]string {
	t.Helper()
	book, err := Parse("b.yaml", []byte(deriveBook))
	if err != nil {
		t.Fatal(err)
	}
	derived, err := Derive(book, policy, []string{model})
	if err != nil || len(derived) != 1 {
		t.Fatalf("derive %s of %s: %d derivations, %v", policy, model, len(derived), err)
	}
	rates := map[string]string{}
	for _, rate := range derived[0].Rates {
		rates[rate.Profile] = rate.Share.RatString() + " " + rate.Rate.StringFixed(4)
	}
	return rates
}

func TestDeriveByEachPolicy(t *testing.T) {
	const h100 = "NVIDIA H100 80GB HBM3"
	for _, c := range []struct {
		policy Policy
		model  string
		want   map[string]string
	}{
		{ByComputeSlice, h100, map[string]string{
			"1g.10gb": "1/7 0.3557", "1g.10gb+me": "1/7 0.3557", "1g.20gb": "1/7 0.3557", "2g.20gb": "2/7 0.7114",
			"3g.40gb": "3/7 1.0671", "4g.40gb": "4/7 1.4229", "7g.80gb": "1 2.4900",
		}},
		{ByMemory, h100, map[string]string{
			// 0.31125 lies half between: to the even 0.3112.
			"1g.10gb": "1/8 0.3112", "1g.10gb+me": "1/8 0.3112", "1g.20gb": "1/4 0.6225", "2g.20gb": "1/4 0.6225",
			"3g.40gb": "1/2 1.2450", "4g.40gb": "1/2 1.2450", "7g.80gb": "1 2.4900",
		}},
		{BySM, h100, map[string]string{
			"1g.10gb": "4/33 0.3018", "1g.10gb+me": "4/33 0.3018", "1g.20gb": "13/66 0.4905", "2g.20gb": "8/33 0.6036",
			"3g.40gb": "5/11 1.1318", "4g.40gb": "16/33 1.2073", "7g.80gb": "1 2.4900",
		}},
		{Dominant, h100, map[string]string{
			"1g.10gb": "1/7 0.3557", "1g.10gb+me": "1/7 0.3557", "1g.20gb": "1/4 0.6225", "2g.20gb": "2/7 0.7114",
			"3g.40gb": "1/2 1.2450", "4g.40gb": "4/7 1.4229", "7g.80gb": "1 2.4900",
		}},
		{BySM, "NVIDIA A30", map[string]string{
			"1g.6gb": "1/4 0.1475", "1g.6gb+me": "1/4 0.1475", "2g.12gb": "1/2 0.2950", "2g.12gb+me": "1/2 0.2950", "4g.24gb": "1 0.5900",
		}},
	} {
		if diff := cmp.Diff(c.want, deriveRates(t, c.policy, c.model)); diff != "" {
			t.Errorf("%s of %s (-want +got):\n%s", c.policy, c.model, diff)
		}
	}
}

func TestDerivedRatesRoundHalfToEven(t *testing.T) {
	for _, c := range []struct {
		rate string
		want string
	}{{"0.00005", "0.0000"}, {"0.00015", "0.0002"}, {"0.00025", "0.0002"}, {"0.000251", "0.0003"}, {"0", "0.0000"}} {
		if got := roundShare(decimal.RequireFromString(c.rate), big.NewRat(1, 1)).StringFixed(ratePlaces); got != c.want {
			t.Errorf("%s rounds to %s, want %s", c.rate, got, c.want)
		}
	}
}

func TestDeriveLeavesModelsWithoutMIGAlone(t *testing.T) {
	book, err := Parse("b.yaml", []byte(deriveBook))
	if err != nil {
		t.Fatal(err)
	}
	derived, err := Derive(book, Dominant, nil)
	if err != nil || len(derived) != 2 {
		t.Fatalf("derived %d models, %v; want 2", len(derived), err)
	}
	if _, err := Derive(book, Dominant, []string{"NVIDIA L4"}); !errors.Is(err, ErrNoMIG) {
		t.Errorf("a model without MIG by its name: %v, want ErrNoMIG", err)
	}
	if _, err := Derive(Default(), Dominant, nil); err != nil {
		t.Errorf("the default book: %v", err)
	}
}

func TestDeriveNamesWhatItDoesNotKnow(t *testing.T) {
	for text, want := range map[string]string{
		`NVIDIA X900: {gpu_hour: "1"}`:                 `model "NVIDIA X900" are not known (known: A100 40GB,`,
		`NVIDIA A100: {gpu_hour: "1"}`:                 `model "NVIDIA A100" are not known`,
		`NVIDIA A100-SXM-64GB: {gpu_hour: "1"}`:        `model "NVIDIA A100-SXM-64GB" are not known`,
		`NVIDIA H20-3e: {gpu_hour: "1"}`:               `model "NVIDIA H20-3e" are not known`,
		`NVIDIA RTX PRO 5000: {gpu_hour: "1"}`:         `model "NVIDIA RTX PRO 5000" are not known`,
		`NVIDIA B200: {gpu_hour: "1"}`:                 `model "NVIDIA B200": the SMs of profiles of B200 are not known`,
		`NVIDIA H100 80GB HBM3: {gpu_hour: "1"}`:       `model "H100" has no rate in b.yaml`,
		`GRID A100-10C: {gpu_hour: "1", profiles: {}}`: `model "GRID A100-10C" are not known`,
	} {
		book, err := Parse("b.yaml", []byte("currency: USD\nversions:\n- effective: 2026-01-01T00:00:00Z\n  models: {"+text+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		var models []string
		if strings.Contains(want, `"H100"`) {
			models = []string{"H100"}
		}
		if _, err := Derive(book, BySM, models); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error of %s = %v, want it to contain %s", text, err, want)
		}
	}
	if _, err := ParsePolicy("fair"); err == nil || !strings.Contains(err.Error(), `"fair": want one of compute-slice, memory, sm, dominant`) {
		t.Errorf("policy fair: %v", err)
	}
}

// A profile that the meter knows must have the compute slices by which usage of
// it is counted, or its price would be of other hours.
func TestBoardsAgreeWithTheMeter(t *testing.T) {
	shared := 0
	for _, candidate := range boards {
		board := candidate.board
		if board == nil {
			continue
		}
		known, ok := meter.ModelByName("NVIDIA " + candidate.words)
		if !ok || known.Slices != board.Compute {
			t.Errorf("%s: the meter has %d slices (known %v), want %d", candidate.words, known.Slices, ok, board.Compute)
		}
		for _, p := range board.Profiles {
			if n, ok := known.Profiles[p.Name]; ok && n != p.Compute {
				t.Errorf("%s %s: the meter has %d slices, want %d", candidate.words, p.Name, n, p.Compute)
			} else if ok {
				shared++
			}
		}
		last := board.Profiles[len(board.Profiles)-1]
		if last.Compute != board.Compute || last.Memory != board.Memory || last.SMs != board.SMs {
			t.Errorf("%s: the largest profile %s is not the whole board", candidate.words, last.Name)
		}
	}
	if shared < 100 {
		t.Errorf("only %d profiles compared", shared)
	}
}

func TestBoardOfFindsTheNamesOfDrivers(t *testing.T) {
	want := map[string]string{
		"NVIDIA A100-SXM4-40GB": "A100 40GB", "NVIDIA A100-PCIE-40GB": "A100 40GB", "NVIDIA A100 80GB PCIe": "A100 80GB",
		"NVIDIA A100-SXM4-80GB": "A100 80GB", "NVIDIA H100 PCIe": "H100 PCIe", "NVIDIA H100 NVL": "H100 NVL",
		"NVIDIA H100 80GB HBM3": "H100 80GB", "NVIDIA H200": "H200", "NVIDIA H200 NVL": "H200", "NVIDIA B200": "B200",
		"NVIDIA GB200": "GB200", "NVIDIA GB300": "GB300", "NVIDIA A30": "A30", "NVIDIA GH200 480GB": "GH200 480GB",
		"NVIDIA GH200 144G HBM3e": "GH200 144GB", "NVIDIA H800": "H100 80GB", "NVIDIA H20": "H20",
		"NVIDIA RTX PRO 6000 Blackwell Server Edition": "RTX PRO 6000",
	}
	got := map[string]string{}
	for model := range maps.Keys(want) {
		if board, err := BoardOf(model); err == nil {
			got[model] = board.Name
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("boards (-want +got):\n%s", diff)
	}
}

const commented = `# our book, edited with care
currency: USD
versions:
# the first
- effective: 2026-01-01T00:00:00Z   # new year
  models:
    # block
    NVIDIA H100 80GB HBM3:
      gpu_hour: "2.49"  # list

      tiers: [{above: "10", gpu_hour: "2.00"}]
    NVIDIA A30: {gpu_hour: '0.59', tiers: []} # flow
    NVIDIA H200:
      profiles: {"1g.18gb": "9", odd.one: "0.10"} # was dear
      gpu_hour: "3.29"
    NVIDIA A100-SXM4-40GB:
      profiles:
        1g.5gb: "0.20" # gone with its line
        3g.20gb: "0.50"
      gpu_hour: "1.19"
- {effective: 2026-02-01T00:00:00Z, models: {"NVIDIA A30": {"gpu_hour": "0.60"}}}
`

func TestDerivedYAMLIsAPartOfABook(t *testing.T) {
	book, err := Parse("b.yaml", []byte(commented))
	if err != nil {
		t.Fatal(err)
	}
	derived, err := Derive(book, Dominant, nil)
	if err != nil {
		t.Fatal(err)
	}
	pasted, err := Parse("pasted.yaml", []byte("currency: USD\n"+YAML(derived)))
	if err != nil {
		t.Fatalf("parse what was printed: %v\n%s", err, YAML(derived))
	}
	if got := pasted.Versions[0].Models["NVIDIA H200"].Profiles["3g.71gb"].String(); got != "1.645" || len(pasted.Versions) != 2 {
		t.Errorf("half of 3.29 is %s in %d versions", got, len(pasted.Versions))
	}
}
