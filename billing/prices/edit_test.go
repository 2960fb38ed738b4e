package prices

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/costtest"
)

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

const derivedText = `# our book, edited with care
currency: USD
versions:
# the first
- effective: 2026-01-01T00:00:00Z   # new year
  models:
    # block
    NVIDIA H100 80GB HBM3:
      gpu_hour: "2.49"  # list
      profiles: {1g.10gb: "0.3557", 1g.10gb+me: "0.3557", 1g.20gb: "0.3557", 2g.20gb: "0.7114", 3g.40gb: "1.0671", 4g.40gb: "1.4229", 7g.80gb: "2.4900"}

      tiers: [{above: "10", gpu_hour: "2.00"}]
    NVIDIA A30: {gpu_hour: '0.59', profiles: {1g.6gb: "0.1475", 1g.6gb+me: "0.1475", 2g.12gb: "0.2950", 2g.12gb+me: "0.2950", 4g.24gb: "0.5900"}, tiers: []} # flow
    NVIDIA H200:
      profiles: {1g.18gb: "0.4700", 1g.18gb+me: "0.4700", 1g.35gb: "0.4700", 2g.35gb: "0.9400", 3g.71gb: "1.4100", 4g.71gb: "1.8800", 7g.141gb: "3.2900", "odd.one": "0.1"} # was dear
      gpu_hour: "3.29"
    NVIDIA A100-SXM4-40GB:
      profiles: {1g.5gb: "0.1700", 1g.5gb+me: "0.1700", 1g.10gb: "0.1700", 2g.10gb: "0.3400", 3g.20gb: "0.5100", 4g.20gb: "0.6800", 7g.40gb: "1.1900"}
      gpu_hour: "1.19"
- {effective: 2026-02-01T00:00:00Z, models: {"NVIDIA A30": {"gpu_hour": "0.60", profiles: {1g.6gb: "0.1500", 1g.6gb+me: "0.1500", 2g.12gb: "0.3000", 2g.12gb+me: "0.3000", 4g.24gb: "0.6000"}}}}
`

func deriveText(t *testing.T, text string) ([]byte, error) {
	t.Helper()
	book, err := Parse("b.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	derived, err := Derive(book, ByComputeSlice, nil)
	if err != nil {
		t.Fatal(err)
	}
	return WithProfiles("b.yaml", []byte(text), derived)
}

func TestWithProfilesKeepsAllElse(t *testing.T) {
	got, err := deriveText(t, commented)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(derivedText, "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	again, err := deriveText(t, string(got))
	if err != nil || string(again) != string(got) {
		t.Errorf("a second time it changes again: %v\n%s", err, cmp.Diff(string(got), string(again)))
	}
}

func TestWithProfilesKeepsLineEndsAndUnicode(t *testing.T) {
	const text = "currency: USD\r\nskus: {Größe: {gpus: 1}}\r\nversions:\r\n- effective: 2026-01-01T00:00:00Z\r\n  models:\r\n" +
		"    NVIDIA A30:\r\n      gpu_hour: \"1\"\r\n  tenants: {Ä: {discount: \"0.1\"}}"
	got, err := deriveText(t, text)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(text, "gpu_hour: \"1\"\r\n", "gpu_hour: \"1\"\r\n      profiles: {1g.6gb: \"0.2500\", 1g.6gb+me: \"0.2500\", "+
		"2g.12gb: \"0.5000\", 2g.12gb+me: \"0.5000\", 4g.24gb: \"1.0000\"}\r\n", 1)
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestWithProfilesRefusesWhatItCannotChangeInPlace(t *testing.T) {
	const head = "currency: USD\nversions:\n- effective: 2026-01-01T00:00:00Z\n  models:\n"
	for text, want := range map[string]string{
		head + "    NVIDIA A30: {gpu_hour: \"1\", profiles: }\n":  "can't be changed in place",
		head + "    NVIDIA A30:\n      gpu_hour: |-\n        1\n": "can't be added to in place",
	} {
		if got, err := deriveText(t, text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "b.yaml:") {
			t.Errorf("%q became %q, error %v, want %s", text, got, err, want)
		}
	}
}

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

func FuzzWithProfiles(f *testing.F) {
	f.Add([]byte(commented))
	f.Add([]byte(deriveBook))
	f.Fuzz(func(t *testing.T, data []byte) {
		costtest.Within(t, costtest.Time, 64<<20+4<<10*uint64(len(data)), func() {
			book, err := Parse("fuzz.yaml", data)
			if err != nil {
				return
			}
			derived, err := Derive(book, ByComputeSlice, nil)
			if err != nil {
				return
			}
			edited, err := WithProfiles("fuzz.yaml", data, derived)
			if err != nil {
				return
			}
			if _, err := Parse("fuzz.yaml", edited); err != nil {
				t.Errorf("%q became %q: %v", data, edited, err)
			}
		})
	})
}
