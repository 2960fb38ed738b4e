package settings

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/placetest"
	"github.com/gputally/gputally/internal/trust"
)

func TestDefaultConfigIsValid(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
}

// The working directory may be anybody's, and a configuration names programs
// that are run (M8).
func TestM8FindConfigPrefersTheNearestAndNeverTheWorkingDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(ConfigEnv, "")
	find := func(flag string) string {
		got, err := Find(flag, "data")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := []string{find("")}
	placetest.WriteFile(t, ConfigName, "")
	got = append(got, find(""))
	if err := os.Mkdir("data", 0o700); err != nil {
		t.Fatal(err)
	}
	placetest.WriteFile(t, filepath.Join("data", ConfigName), "")
	got = append(got, find(""))
	t.Setenv(ConfigEnv, "env.yaml")
	got = append(got, find(""), find("flag.yaml"))
	want := []string{"", "", filepath.Join("data", ConfigName), "env.yaml", "flag.yaml"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configurations (-want +got):\n%s", diff)
	}
}

func TestM8LoadConfigRefusesWhatOthersCouldHaveWritten(t *testing.T) {
	dir := t.TempDir()
	path, mapping := filepath.Join(dir, ConfigName), filepath.Join(dir, "tenants.yaml")
	placetest.WriteFile(t, path, "ledger: {tenants_file: tenants.yaml}")
	placetest.WriteFile(t, mapping, "versions: []")
	if _, err := Load(path); err != nil {
		t.Fatalf("private files: %v", err)
	}
	ca, token := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "token")
	placetest.WriteFile(t, ca, "")
	placetest.WriteFile(t, token, "secret")
	placetest.WriteFile(t, path, "ledger: {tenants_file: tenants.yaml}\n"+
		"decisions: {witness: {https: \"https://witness.example\", ca_file: ca.pem, token_file: token}}\n")
	for _, changed := range []string{path, mapping, ca, token} {
		if err := os.Chmod(changed, 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path)
		var refused *trust.Error
		if !errors.As(err, &refused) || refused.Path != changed {
			t.Errorf("%s writable by others: %v, want an error that names it", changed, err)
		}
		if code := cli.ExitCode(t.Context(), err); code != cli.ExitEnvironment {
			t.Errorf("exit code %d, want %d", code, cli.ExitEnvironment)
		}
		if err := os.Chmod(changed, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestL3NoPasswordOverClearHTTPToAnotherMachine(t *testing.T) {
	for address, refused := range map[string]bool{
		"http://clickhouse:8123": true, "http://10.0.0.1:8123": true,
		"https://clickhouse:8443": false, "http://127.0.0.1:8123": false, "http://[::1]:8123": false,
	} {
		cfg := Default().ClickHouse
		cfg.Address, cfg.PasswordFile = address, "/run/password"
		if err := cfg.validate(); (err != nil) != refused {
			t.Errorf("%s: %v, want refused %v", address, err, refused)
		}
	}
}

func TestLoadConfigFindsNeighboursOfTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ConfigName)
	placetest.WriteFile(t, path, "ledger: {tenants_file: tenants.yaml}\n")
	cfg, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "tenants.yaml"); cfg.Ledger.TenantsFile != want {
		t.Errorf("tenants: got %s, want %s", cfg.Ledger.TenantsFile, want)
	}
}
