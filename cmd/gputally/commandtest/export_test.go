package commandtest

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/placetest"
)

// A file carries the names that the configuration gives, breaks no rule, and
// each rule that is broken in it by hand is found where it is.
func TestExportCheckFindsWhatIsWrong(t *testing.T) {
	data := programtest.NewLedger(t)
	config := filepath.Join(t.TempDir(), settings.ConfigName)
	placetest.WriteFile(t, config, "billing: {focus: {issuer: ACME HPC, account: acme/gpus, account_name: All GPUs}}\n")
	path := strings.TrimSpace(programtest.MustInvoke(t, "export", "focus", "--data", data, "--period", "2026-10",
		"--config", config))
	header, first := firstRecord(t, path)
	got, want := map[string]string{}, map[string]string{
		"InvoiceIssuerName": "ACME HPC", "ProviderName": "ACME HPC", "PublisherName": "ACME HPC",
		"BillingAccountId": "acme/gpus", "BillingAccountName": "All GPUs",
	}
	for i, name := range header {
		if _, asked := want[name]; asked {
			got[name] = first[i]
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if got := programtest.Invoke(t, "export", "check", path); got != programtest.Came(cli.ExitOK,
		path+": violates no rule of FOCUS 1.2\n", "") {
		t.Errorf("a right file: got %+v", got)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	placetest.WriteFile(t, path, strings.Replace(string(text), `"USD"`, `"usd"`, 1))
	found := programtest.Invoke(t, "export", "check", path, "--output", "json")
	var violations []struct {
		Line                             int
		Column, Rule, Value, Requirement string
	}
	if err := json.Unmarshal([]byte(found.Stdout),
		&violations); err != nil || len(violations) != 1 || found.Code != cli.ExitFailed {
		t.Fatalf("a broken file: got %+v, %v", found, err)
	}
	if v := violations[0]; v.Line != 2 || v.Column != "BillingCurrency" || v.Value != "usd" || v.Rule == "" ||
		v.Requirement == "" {
		t.Errorf("violation: got %+v", v)
	}
	found = programtest.Invoke(t, "export", "check", path)
	if found.Code != cli.ExitFailed || !strings.Contains(found.Stdout,
		"BillingCurrency") || !strings.Contains(found.Stderr, "1 violation of FOCUS 1.2") {
		t.Errorf("for reading: got %+v", found)
	}
	if found = programtest.Invoke(t, "export", "check", path, "--output",
		"csv"); found.Code != cli.ExitFailed || strings.Count(found.Stdout, "\n") != 2 {
		t.Errorf("as CSV: got %+v", found)
	}
}

func firstRecord(t *testing.T, path string) (header, first []string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader := csv.NewReader(file)
	for _, record := range []*[]string{&header, &first} {
		if *record, err = reader.Read(); err != nil {
			t.Fatal(err)
		}
	}
	return header, first
}

func TestExportCheckRefusesWhatItCannotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "costs.csv")
	placetest.WriteFile(t, path, "A,\"B\n")
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{path}, cli.ExitFailed, "costs.csv: check FOCUS: read header"},
		{[]string{path + "x"}, cli.ExitEnvironment, "costs.csvx: no such file"},
		{[]string{path, "--focus-version", "1.3"}, cli.ExitUsage, `FOCUS version "1.3"`},
		{nil, cli.ExitUsage, "FILE is missing"},
	} {
		got := programtest.Invoke(t, append([]string{"export", "check"}, test.args...)...)
		if got.Code != test.code || !strings.Contains(got.Stderr, test.want) {
			t.Errorf("%v: got %+v, want %d and %q", test.args, got, test.code, test.want)
		}
	}
}

func TestConfigCheckReadsFocusNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), settings.ConfigName)
	for text, want := range map[string]string{
		`{issuer: ACME, account: acme/1, account_name: "GPUs, all"}`: "",
		`{}`:                      "",
		`{account: "12345"}`:      `billing: focus: account "12345": `,
		`{issuer: "=ACME"}`:       `billing: focus: issuer "=ACME": `,
		`{account_name: " ACME"}`: `billing: focus: account_name " ACME": has space at an end`,
		`{issuer: "A\nB"}`:        `billing: focus: issuer "A\nB": has a control character`,
		`{acount: a}`:             `acount`,
	} {
		placetest.WriteFile(t, path, "billing: {focus: "+text+"}\n")
		got := programtest.Invoke(t, "config", "check", path)
		if want == "" && got.Code != cli.ExitOK || want != "" && (got.Code != cli.ExitUsage ||
			!strings.Contains(got.Stderr, want)) {
			t.Errorf("%s: got %+v, want %q", text, got, want)
		}
	}
	if got := programtest.MustInvoke(t, "config", "show"); !strings.Contains(got, "issuer: gputally") {
		t.Errorf("config show doesn't tell the issuer:\n%s", got)
	}
}
