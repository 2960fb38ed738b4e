package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A target's URL is shown in metrics, logs, LOCK, run.json and status, so none
// may hold a secret; the refusal shows none either, and writes no LOCK.
func TestSecretsInURLsAreRefusedAndNotShown(t *testing.T) {
	dir := t.TempDir()
	for _, url := range []string{
		"http://me:s3cret@127.0.0.1:1/metrics", "http://s3cret@127.0.0.1:1/metrics", "http://127.0.0.1:1/metrics?token=s3cret",
		"http://127.0.0.1:1/metrics#s3cret", "http://127.0.0.1:1/%zz?s3cret",
	} {
		data := filepath.Join(dir, "data")
		config := filepath.Join(dir, configName)
		writeFile(t, config, "exporter: {targets: [{url: \""+url+"\"}]}\nclickhouse: {library: /nonexistent}\n")
		for _, args := range [][]string{{"standalone", "--data", data, "--scrape", url}, {"config", "check", config}} {
			got := invoke(t, args...)
			if got.Code != exitUsage || !strings.Contains(got.Stderr, "targets[0].url") || strings.Contains(got.Stdout+got.Stderr, "s3cret") {
				t.Errorf("%s: got %+v, want it refused without the secret", args[0], got)
			}
		}
		if _, err := os.Stat(data); err == nil {
			t.Errorf("%s: a data directory was made, whose LOCK shows the command line", url)
		}
	}
}

func TestConfigCheckTakesTheClickHouseAddressApart(t *testing.T) {
	path := filepath.Join(t.TempDir(), configName)
	for address, want := range map[string]string{
		"http://ch:8123": "", "https://ch:8443": "", "http://[::1]:8123": "",
		"ch:8123":                   `address "ch:8123": want http://host:port or https://host:port`,
		"tcp://ch:9000":             `address "tcp://ch:9000": want http`,
		"http://ch":                 `address "http://ch": want http`,
		"http://:8123":              `address "http://:8123": want http`,
		"http://ch:8123/db":         `address "http://ch:8123/db": want http`,
		"unix:///run/ch.sock":       `want http://host:port`,
		"http://u:s3cret@ch:8123":   `address "http://ch:8123": has a user or password, which belong in user and password_file`,
		"http://ch:8123?pw=s3cret":  `address "http://ch:8123": want`,
		"http://ch:s3cret%zz:81230": `want http://host:port`,
	} {
		writeFile(t, path, "clickhouse: {address: \""+address+"\"}\n")
		got := invoke(t, "config", "check", path)
		if want == "" {
			if got.Code != exitOK {
				t.Errorf("%s: got %+v, want it taken", address, got)
			}
			continue
		}
		if got.Code != exitUsage || !strings.Contains(got.Stderr, "clickhouse: ") || !strings.Contains(got.Stderr, want) || strings.Contains(got.Stderr, "s3cret") {
			t.Errorf("%s: got %+v, want %q", address, got, want)
		}
	}
}

func TestConfigCheckReadsTheFilesItNames(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, configName)
	writeFile(t, filepath.Join(dir, "tenants.yaml"), "versions:\n- effective: 2026-01-01T00:00:00Z\n  rules:\n  - {match: {namespace: a}}\n")
	writeFile(t, filepath.Join(dir, "empty"), "\n")
	writeFile(t, filepath.Join(dir, "open"), "secret\n")
	if err := os.Chmod(filepath.Join(dir, "open"), 0o644); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]string{
		"ledger: {tenants_file: none.yaml}":                               {"ledger: tenants_file: ", "none.yaml"},
		"ledger: {tenants_file: none.yaml}\nbilling: {prices: away.yaml}": {"none.yaml", "away.yaml"},
		"ledger: {tenants_file: tenants.yaml}":                            {"ledger: tenants_file: ", "tenants.yaml"},
		"clickhouse: {password_file: none}":                               {"clickhouse: password_file: ", "none: no such file"},
		"clickhouse: {password_file: empty}":                              {"clickhouse: password_file: ", "empty: is empty"},
		"clickhouse: {ca_file: none.pem}":                                 {"clickhouse: ca_file: ", "none.pem: no such file"},
		"clickhouse: {ca_file: empty}":                                    {"clickhouse: ca_file: ", "empty: holds no PEM certificate"},
		"decisions: {witness: {https: 'https://w.example', ca_file: none.pem, token_file: none}}": {
			"decisions: witness: ", "none.pem: no such file", "none: no such file",
		},
		"decisions: {witness: {https: 'https://w.example', ca_file: empty, token_file: empty}}": {"empty holds no PEM", "empty is empty"},
		"decisions: {witness: {https: 'https://w.example', token_file: open}}":                  {"open has mode 0644"},
		"clickhouse: {library: none.so}":                                                        {"clickhouse: library: ", "none.so: no such file"},
	} {
		writeFile(t, path, text)
		got := invoke(t, "config", "check", path)
		for _, part := range want {
			if got.Code != exitUsage || !strings.Contains(got.Stderr, part) {
				t.Errorf("%s: got %+v, want %q", text, got, part)
			}
		}
	}
}
