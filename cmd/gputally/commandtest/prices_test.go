package commandtest

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/placetest"
)

const checkedPrices = `currency: EUR
time_zone: Europe/Berlin
tenants: {"=cmd": {time_zone: UTC}}
skus: {Small: {profile: 1g.10gb}, Large: {gpus: 1}}
versions:
- effective: 2026-01-01T00:00:00Z
  models:
    NVIDIA H100 80GB HBM3:
      gpu_hour: "2.50"
      profiles: {1g.10gb: "0.4125"}
      tiers: [{above: "1000", gpu_hour: "2.20"}]
  tenants:
    "=cmd":
      discount: "0.20"
      minimum: "5000"
      reserved: [{model: NVIDIA H100 80GB HBM3, gpus: "4", unused_gpu_hour: "1.80"}]
- effective: 2026-02-01T00:00:00Z
  kwh: "0.28"
  models: {NVIDIA H100 80GB HBM3: {gpu_hour: "2.50"}}
  tenants: {"=cmd": {discount: "0.20", minimum: "5000"}}
`

// priceFile writes a book and returns its path.
func priceFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "prices.yaml")
	placetest.WriteFile(t, path, text)
	return path
}

func TestPricesCheckPrintsTheBook(t *testing.T) {
	path := priceFile(t, checkedPrices)
	got := programtest.Invoke(t, "prices", "check", path)
	got.Stdout = strings.ReplaceAll(got.Stdout, path, "FILE")
	head, rest, _ := strings.Cut(got.Stdout, "SHA-256    ")
	got.Stdout = head + rest[65:] // the hash is of the file's bytes, and tested with the book
	want := programtest.Came(cli.ExitOK, `FILE: ok
Currency   EUR, totals rounded to 2 places
Time zone  Europe/Berlin, =cmd UTC
SKUs       Small = 1g.10gb, Large = whole GPUs: 1

From 2026-01-01T00:00:00Z until 2026-02-01T00:00:00Z
OF                     WHAT                                 VALUE  UNIT
everybody              a kWh                                 0.00  EUR
                       surcharge on idle time                   0  of its list value
                       free and stranded time is shared      none
NVIDIA H100 80GB HBM3  a GPU-hour                            2.50  EUR
                       an hour of 1g.10gb                  0.4125  EUR
                       a GPU-hour above 1 000 a month        2.20  EUR
=cmd                   discount                               0.2  of list, profile and tier
                       minimum                           5 000.00  EUR a month
                       reserved NVIDIA H100 80GB HBM3           4  GPUs
                       an unused hour of it                  1.80  EUR

From 2026-02-01T00:00:00Z on, in force now
OF                     WHAT                                 VALUE  UNIT
everybody              a kWh                                 0.28  EUR
                       surcharge on idle time                   0  of its list value
                       free and stranded time is shared      none
NVIDIA H100 80GB HBM3  a GPU-hour                            2.50  EUR
=cmd                   discount                               0.2  of list, profile and tier
                       minimum                           5 000.00  EUR a month

Warnings
  2026-01-01T00:00:00Z: models."NVIDIA H100 80GB HBM3".profiles: dearer than the larger of their compute and memory share: 1g.10gb (0.4125 for 1/7 of the GPU, which is 0.3571)
`, "")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("check (-want +got):\n%s", diff)
	}
}

func TestPricesCheckForScripts(t *testing.T) {
	path := priceFile(t, checkedPrices)
	got := programtest.Invoke(t, "prices", "check", path, "--output", "csv")
	for _, want := range []string{
		"effective,until,kind,name,item,value\n",
		"2026-01-01T00:00:00Z,2026-02-01T00:00:00Z,tenant,'=cmd,minimum,5000\n", // no formula
		"2026-02-01T00:00:00Z,,version,,kwh,0.28\n",
	} {
		if !strings.Contains(got.Stdout, want) {
			t.Errorf("csv lacks %q:\n%s", want, got.Stdout)
		}
	}
	if !strings.HasPrefix(got.Stderr, "warning: 2026-01-01T00:00:00Z: ") {
		t.Errorf("warnings beside the csv: %q", got.Stderr)
	}
	var answer struct {
		SHA256   string
		Versions []struct {
			Until  string
			Models []struct {
				GPUHour  string `json:"gpu_hour"`
				Profiles map[string]string
			}
		}
		Warnings []string
	}
	if err := json.Unmarshal([]byte(programtest.Invoke(t, "prices", "check", path, "--output", "json").Stdout),
		&answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.SHA256) != 64 || len(answer.Warnings) != 1 || len(answer.Versions) != 2 ||
		answer.Versions[0].Models[0].Profiles["1g.10gb"] != "0.4125" || answer.Versions[0].Until != "2026-02-01T00:00:00Z" {
		t.Errorf("json = %+v", answer)
	}
}

func TestPricesCheckNamesEveryMistake(t *testing.T) {
	path := priceFile(t, strings.NewReplacer(`"0.4125"`, `0.4125`, `kwh: "0.28"`, `kWh: "0.28"`).Replace(checkedPrices))
	got := programtest.Invoke(t, "prices", "check", path)
	for _, want := range []string{
		path + `:10: versions[0].models."NVIDIA H100 80GB HBM3".profiles."1g.10gb": 0.4125 must be quoted`,
		path + `:18: versions[1].kWh: unknown key, did you mean "kwh"?`,
	} {
		if got.Code != cli.ExitUsage || got.Stdout != "" || !strings.Contains(got.Stderr, want) {
			t.Errorf("got %+v, want code %d and %q", got, cli.ExitUsage, want)
		}
	}
	if got := programtest.Invoke(t, "prices", "check",
		"no/such.yaml"); got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, "no/such.yaml: no such file") {
		t.Errorf("a missing book: %+v", got)
	}
}

func TestPricesDiffMarksThePast(t *testing.T) {
	before := priceFile(t, checkedPrices)
	after := priceFile(t, strings.Replace(checkedPrices, `kwh: "0.28"`, `kwh: "0.35"`, 1)+
		"- {effective: 2100-01-01T00:00:00Z, models: {NVIDIA H100 80GB HBM3: {gpu_hour: \"2\"}}}\n")
	got := programtest.Invoke(t, "prices", "diff", before, after, "--output", "csv")
	want := programtest.Came(cli.ExitOK, `from,until,change,kind,name,item,old,new,percent,past
2026-02-01T00:00:00Z,2100-01-01T00:00:00Z,changed,version,,kwh,0.28,0.35,25.0,past
2100-01-01T00:00:00Z,,changed,version,,kwh,0.28,0,-100.0,
2100-01-01T00:00:00Z,,changed,model,NVIDIA H100 80GB HBM3,gpu_hour,2.5,2,-20.0,
2100-01-01T00:00:00Z,,gone,tenant,'=cmd,discount,0.2,,,
2100-01-01T00:00:00Z,,gone,tenant,'=cmd,minimum,5000,,,
`, "")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("diff (-want +got):\n%s", diff)
	}
	if got := programtest.Invoke(t, "prices", "diff", before, after); !strings.Contains(got.Stdout, "+25.0  past") {
		t.Errorf("table: %+v", got)
	}
	if got := programtest.Invoke(t, "prices", "diff", before, before); got != programtest.Came(cli.ExitOK,
		"no change: both price books have the same rates and terms in every hour\n", "") {
		t.Errorf("the same book: %+v", got)
	}
	if got := programtest.Invoke(t, "prices", "diff", before, before, "--output", "json"); got.Stdout != "[]\n" {
		t.Errorf("the same book in JSON: %+v", got)
	}
	if got := programtest.Invoke(t, "prices", "diff", before, "no/such.yaml"); got.Code != cli.ExitUsage {
		t.Errorf("a missing book: %+v", got)
	}
}

func TestPricesDerivePrintsWhatCanBePasted(t *testing.T) {
	path := priceFile(t, checkedPrices)
	got := programtest.Invoke(t, "prices", "derive", "--policy", "memory", path)
	if got.Code != cli.ExitOK || !strings.Contains(got.Stdout,
		"# memory of each whole GPU's rate, rounded half-even to 4 places\nversions:\n- effective: 2026-01-01T00:00:00Z\n") ||
		!strings.Contains(got.Stdout, `profiles: {1g.10gb: "0.3125", 1g.10gb+me: "0.3125", 1g.20gb: "0.6250",`) {
		t.Errorf("printed: %+v", got)
	}
	got = programtest.Invoke(t, "prices", "derive", "--policy", "memory", path, "--model", "NVIDIA H100 80GB HBM3")
	if got.Code != cli.ExitOK || strings.Count(got.Stdout, "gpu_hour:") != 2 {
		t.Errorf("of one model in two versions: %+v", got)
	}
}

func TestPricesDeriveNamesWhatIsWrong(t *testing.T) {
	book := func(model string) string {
		return priceFile(t,
			"currency: USD\nversions: [{effective: 2026-01-01T00:00:00Z, models: {"+model+": {gpu_hour: \"1\"}}}]\n")
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--policy", "fair", book("NVIDIA A30")}, `policy "fair": want one of compute-slice, memory, sm, dominant`},
		{[]string{book("NVIDIA A30")}, `--policy is missing`},
		{
			[]string{"--policy", "sm", book("NVIDIA X1")},
			"MIG profiles of model \"NVIDIA X1\" are not known (known: A100 40GB, ",
		},
		{[]string{"--policy", "sm", book("NVIDIA B200")}, "--model MODEL derives the rates of one model"},
		{[]string{"--policy", "sm", book("NVIDIA L4")}, "has no model with MIG"},
		{[]string{"--policy", "sm", "--model", "NVIDIA L4", book("NVIDIA L4")}, `model "NVIDIA L4": the model has no MIG`},
		{[]string{"--policy", "sm", "--model", "NVIDIA A30X", book("NVIDIA A30")}, `model "NVIDIA A30X" has no rate`},
	} {
		got := programtest.Invoke(t, append([]string{"prices", "derive"}, c.args...)...)
		if got.Code != cli.ExitUsage || got.Stdout != "" || !strings.Contains(got.Stderr, c.want) {
			t.Errorf("%v: got %+v, want code %d and %q", c.args, got, cli.ExitUsage, c.want)
		}
	}
}

func TestPricesLoadRefusesWhatOthersCouldHaveWritten(t *testing.T) {
	book := priceFile(t, checkedPrices)
	data := filepath.Join(filepath.Dir(book), "data")
	if err := os.Chmod(book, 0o666); err != nil {
		t.Fatal(err)
	}
	got := programtest.Invoke(t, "prices", "load", book, "--data", data)
	if got.Code != cli.ExitEnvironment || !strings.Contains(got.Stderr, book) {
		t.Errorf("prices load: got %+v, want it refused by name", got)
	}
	if _, err := os.Stat(data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("data directory: %v, want none", err)
	}
}
