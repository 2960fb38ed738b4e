package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/cobra"

	"github.com/gputally/gputally/internal/config"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/store/engine"
	"github.com/gputally/gputally/internal/trust"
)

// outcome is what one invocation of the program came to.
type outcome struct {
	Code           int
	Stdout, Stderr string
}

func invoke(t *testing.T, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := Run(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

func TestEveryCommandHasHelpWithExamples(t *testing.T) {
	s := &session{}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Short == "" || (cmd.Example == "" && !cmd.Hidden) {
			t.Errorf("%s: short %q, example %q: want both", cmd.CommandPath(), cmd.Short, cmd.Example)
		}
		got := invoke(t, append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		if got.Code != exitOK || !strings.Contains(got.Stdout, "Usage:") || got.Stderr != "" {
			t.Errorf("%s --help: got %+v", cmd.CommandPath(), got)
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(s.rootCommand())
}

func TestWrongCommandLinesAreUsageErrors(t *testing.T) {
	for line, want := range map[string]string{
		"confg":                       `unknown command "confg" for "gputally"`,
		"config chek":                 `unknown command "chek" for "gputally config"`,
		"config chek --data DIR":      `unknown command "chek" for "gputally config", did you mean check?`,
		"invoice frobnicate --data D": `unknown command "frobnicate" for "gputally invoice"` + "\n",
		"invoice --data D":            "unknown flag: --data",
		"invoice verify":              "NUMBER is missing",
		"invoice evidence 2026-10-a":  "LINE is missing",
		"prices diff a b c":           `"c" is too much: want OLD NEW`,
		"config check a b":            "accepts at most 1 arg(s), received 2",
		"version --frobnicate":        "unknown flag: --frobnicate",
		"version --log-level loud":    `log level "loud": want debug, info, warn or error`,
		"config show --config":        "flag needs an argument",
		"config check no/such/a.yaml": "no/such/a.yaml: no such file or directory",
	} {
		got := invoke(t, strings.Fields(line)...)
		if got.Code != exitUsage || !strings.Contains(got.Stderr, want) || got.Stdout != "" {
			t.Errorf("gputally %s: got %+v, want code %d and %q", line, got, exitUsage, want)
		}
	}
	if got := invoke(t, "invoice", "finalize", "--help"); got.Code != exitOK || !strings.Contains(got.Stdout, "gputally invoice finalise") {
		t.Errorf("the other spelling: got %+v", got)
	}
	if got := invoke(t, "invoice", "show", "--help"); strings.Contains(got.Stdout, "default -1") {
		t.Errorf("help names a revision that there isn't: %s", got.Stdout)
	}
	if got := invoke(t, "verson"); !strings.Contains(got.Stderr, "version") {
		t.Errorf("a near miss: got %q, want a suggestion", got.Stderr)
	}
}

func TestExitCodes(t *testing.T) {
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want int
	}{
		{t.Context(), nil, exitOK},
		{t.Context(), errors.New("query: syntax error"), exitFailed},
		{t.Context(), quietError{"2 checks failed"}, exitFailed},
		{t.Context(), fmt.Errorf("load: %w", usageError{errors.New("x")}), exitUsage},
		{t.Context(), fmt.Errorf("start: %w", &datadir.LockedError{}), exitEnvironment},
		{t.Context(), fmt.Errorf("listen: %w", syscall.EADDRINUSE), exitEnvironment},
		{t.Context(), fmt.Errorf("spool: %w", syscall.ENOSPC), exitEnvironment},
		{t.Context(), fmt.Errorf("open: %w", os.ErrPermission), exitEnvironment},
		{t.Context(), fmt.Errorf("open: %w", engine.ErrLibraryMissing), exitEnvironment},
		{t.Context(), context.Canceled, exitFailed},
		{interrupted, fmt.Errorf("query: %w", context.Canceled), exitInterrupted},
	} {
		if got := exitCode(c.ctx, c.err); got != c.want {
			t.Errorf("exit code of %v: got %d, want %d", c.err, got, c.want)
		}
	}
}

func TestConfigCheckNamesEveryMistake(t *testing.T) {
	path := filepath.Join(t.TempDir(), configName)
	writeFile(t, path, "cluster:\n  slott: 10s\nhttp:\n  listen: 9415\n")
	got := invoke(t, "config", "check", path)
	want := outcome{exitUsage, "", "gputally: " + path + `:2: cluster.slott: unknown key, did you mean "slot"?` + "\n" +
		path + `:4: http.listen: want a string in quotes ("9415"), got 9415` + "\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config check (-want +got):\n%s", diff)
	}
}

func TestConfigCheckNamesValuesThatCannotWork(t *testing.T) {
	path := filepath.Join(t.TempDir(), configName)
	for text, want := range map[string]string{
		"cluster: {slot: 7s}":                                      "cluster: slot: 7s: want whole seconds that divide the hour",
		"cluster: {slot: 1500ms}":                                  "cluster: slot: 1.5s: want whole seconds",
		`cluster: {name: ""}`:                                      "cluster: name: is empty",
		"ingest: {chunk_records: 0}":                               "chunk_records 0: must be 1 to 100000",
		"analyzer: {interval: 1ms}":                                "analyzer: interval 1ms",
		"billing: {prices: none.yaml}":                             "billing:",
		"kafka: {brokers: [localhost]}":                            `brokers is "localhost", want host:port`,
		"kafka: {user: me}":                                        `user "me": user and password come together`,
		"kafka: {ca_file: ca.pem}":                                 "needs tls: true",
		"kafka: {cert_file: c.pem, key_file: k.pem}":               "needs tls: true",
		"kafka: {tls: true, cert_file: c.pem}":                     "they come together",
		"kafka: {mechanism: gssapi}":                               `mechanism "gssapi"`,
		"kafka: {brokers: [\"unix:/a\", \"unix:/b\"]}":             "one broker where it is behind a Unix socket",
		"clickhouse: {memory_bytes: 1000}":                         "memory_bytes 1000: want 268435456",
		"http: {listen: \"0.0.0.0:9415\"}":                         "other machines could reach it",
		"clickhouse: {password: hunter2}":                          "clickhouse.password: unknown key; known here: address, ca_file, database, library, memory_bytes, password_file, user",
		"kafka: {tls: true, ca_file: " + filepath.Base(path) + "}": "holds no PEM certificate",
	} {
		writeFile(t, path, text)
		got := invoke(t, "config", "check", path)
		if got.Code != exitUsage || !strings.Contains(got.Stderr, want) {
			t.Errorf("config %q: got %+v, want %q", text, got, want)
		}
	}
}

func TestConfigShowIsAConfiguration(t *testing.T) {
	t.Chdir(t.TempDir())
	shown := invoke(t, "config", "show")
	if shown.Code != exitOK || !strings.HasPrefix(shown.Stdout, "# from built-in defaults\ncluster:\n") {
		t.Fatalf("config show: got %+v", shown)
	}
	writeFile(t, configName, shown.Stdout)
	if got, want := invoke(t, "config", "check", configName), (outcome{exitOK, configName + ": ok\n", ""}); got != want {
		t.Errorf("config check of what was shown: got %+v, want %+v", got, want)
	}
	got := DefaultConfig()
	if err := config.Load(configName, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(DefaultConfig(), got, cmp.AllowUnexported(config.Secret{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("round trip (-want +got):\n%s", diff)
	}
}

func TestDefaultConfigIsValid(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
}

// The working directory may be anybody's, and a configuration names programs
// that are run (M8).
func TestM8FindConfigPrefersTheNearestAndNeverTheWorkingDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(configEnv, "")
	find := func(flag string) string {
		got, err := findConfig(flag, "data")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := []string{find("")}
	writeFile(t, configName, "")
	got = append(got, find(""))
	if err := os.Mkdir("data", 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join("data", configName), "")
	got = append(got, find(""))
	t.Setenv(configEnv, "env.yaml")
	got = append(got, find(""), find("flag.yaml"))
	want := []string{"", "", filepath.Join("data", configName), "env.yaml", "flag.yaml"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configurations (-want +got):\n%s", diff)
	}
}

func TestM8LoadConfigRefusesWhatOthersCouldHaveWritten(t *testing.T) {
	dir := t.TempDir()
	path, mapping := filepath.Join(dir, configName), filepath.Join(dir, "tenants.yaml")
	writeFile(t, path, "ledger: {tenants_file: tenants.yaml}")
	writeFile(t, mapping, "versions: []")
	if _, err := loadConfig(path); err != nil {
		t.Fatalf("private files: %v", err)
	}
	ca, token := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "token")
	writeFile(t, ca, "")
	writeFile(t, token, "secret")
	writeFile(t, path, "ledger: {tenants_file: tenants.yaml}\n"+
		"decisions: {witness: {https: \"https://witness.example\", ca_file: ca.pem, token_file: token}}\n")
	for _, changed := range []string{path, mapping, ca, token} {
		if err := os.Chmod(changed, 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := loadConfig(path)
		var refused *trust.Error
		if !errors.As(err, &refused) || refused.Path != changed {
			t.Errorf("%s writable by others: %v, want an error that names it", changed, err)
		}
		if code := exitCode(t.Context(), err); code != exitEnvironment {
			t.Errorf("exit code %d, want %d", code, exitEnvironment)
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
		cfg := DefaultConfig().ClickHouse
		cfg.Address, cfg.PasswordFile = address, "/run/password"
		if err := cfg.validate(); (err != nil) != refused {
			t.Errorf("%s: %v, want refused %v", address, err, refused)
		}
	}
}

func TestLoadConfigFindsNeighboursOfTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, configName)
	writeFile(t, path, "ledger: {tenants_file: tenants.yaml}\n")
	cfg, err := loadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "tenants.yaml"); cfg.Ledger.TenantsFile != want {
		t.Errorf("tenants: got %s, want %s", cfg.Ledger.TenantsFile, want)
	}
}

func TestVersion(t *testing.T) {
	got := invoke(t, "version")
	if got.Code != exitOK || !strings.HasPrefix(got.Stdout, "gputally ") || got.Stderr != "" {
		t.Errorf("version: got %+v", got)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
