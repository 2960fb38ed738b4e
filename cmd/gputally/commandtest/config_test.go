package commandtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/config"
	"github.com/gputally/gputally/internal/placetest"
)

func TestConfigCheckOfSourcesAndOwners(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, settings.ConfigName)
	placetest.WriteFile(t, filepath.Join(dir, "owners.yaml"), "owners: [{index: 0, tenant: a}]\n")
	placetest.WriteFile(t, filepath.Join(dir, "wrong.yaml"), "owners: [{index: 0, tenent: a}]\n")
	const target = "exporter: {targets: [{url: \"http://n:9400/metrics\"}]"
	for _, c := range []struct{ config, want string }{ // want: of the refusal; empty: taken
		{"collector: {source: dcgm}\nattribution: {readers: [static], static: {file: owners.yaml}}", ""},
		{"collector: {source: nvml}\nattribution: {readers: [kubelet, static], static: {file: owners.yaml}}", ""},
		{target + ", attribution: none}\nattribution: {readers: [kubelet]}", ""},
		{"collector: {source: dcgm}\nattribution: {readers: [static], static: {file: wrong.yaml}}", `unknown key`},
		{
			"collector: {source: dcgm}\nattribution: {readers: [static], static: {file: none.yaml}}",
			`attribution: static: file`,
		},
		{"collector: {source: dcgm}\nattribution: {readers: [static]}", `attribution: readers[0] "static": file ""`},
		{"collector: {source: dcgm}", "attribution: readers: is empty: set kubelet, slurm or static"},
		{
			"collector: {source: dcgn}\nattribution: {readers: [kubelet]}",
			`collector: source "dcgn": want exporter, dcgm or nvml`,
		},
		{"collector: {source: exporter}", "exporter.targets is empty"},
		{
			"collector: {source: dcgm}\nattribution: {readers: [kubelet]}\n" + target + "}",
			`exporter: targets: collector.source is "dcgm"`,
		},
		{target + "}\nattribution: {readers: [kubelet]}", `exporter: attribution "labels": set it to "none"`},
		{"exporter: {targets: [{url: \"http://n:9400/m\"}, {url: \"http://o:9400/m\"}], attribution: none}\nattribution: " +
			"{readers: [kubelet]}", "exporter: targets: 2 of them"},
		{
			"collector: {source: dcgm}\nattribution: {readers: [slurm], slurm: {from: scontrol}}",
			"stale_after 5s: slurm asks the controller every 10s: want 20s or more",
		},
		{"collector: {source: dcgm}\nattribution: {readers: [kubelet, kubelet]}", `readers[1] "kubelet": listed twice`},
		{"collector: {source: dcgm}\nattribution: {readers: [pods]}", `readers[0] "pods": want kubelet, slurm or static`},
		{
			"collector: {source: dcgm}\nattribution: {readers: [kubelet], poll: 10s}",
			"stale_after 5s: must be two polls of 10s or more",
		},
		{"dcgm: {address: \"ftp://x\"}", "dcgm: address"},
		{"device_metrics: {max_age_slots: 0}", "device_metrics: max_age_slots 0: must be 1 to 100"},
		{
			"ledger: {raw_retention: 839h}",
			"ledger: raw_retention 839h0m0s: must be 0 (for ever), or ingest.max_late (840h0m0s) or more",
		},
		{"ledger: {raw_retention: 840h}", ""},
	} {
		placetest.WriteFile(t, path, c.config+"\n")
		got := programtest.Invoke(t, "config", "check", path)
		switch {
		case c.want == "" && got.Code != cli.ExitOK:
			t.Errorf("%s\ngot %+v, want it taken", c.config, got)
		case c.want != "" && (got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, c.want)):
			t.Errorf("%s\ngot %+v, want exit %d with %q", c.config, got, cli.ExitUsage, c.want)
		}
	}
}

// A target's URL is shown in metrics, logs, LOCK, run.json and status, so none
// may hold a secret; the refusal shows none either, and writes no LOCK.
func TestSecretsInURLsAreRefusedAndNotShown(t *testing.T) {
	dir := t.TempDir()
	for _, url := range []string{
		"http://me:s3cret@127.0.0.1:1/metrics", "http://s3cret@127.0.0.1:1/metrics",
		"http://127.0.0.1:1/metrics?token=s3cret",
		"http://127.0.0.1:1/metrics#s3cret", "http://127.0.0.1:1/%zz?s3cret",
	} {
		data := filepath.Join(dir, "data")
		config := filepath.Join(dir, settings.ConfigName)
		placetest.WriteFile(t, config, "exporter: {targets: [{url: \""+url+"\"}]}\nclickhouse: {library: /nonexistent}\n")
		for _, args := range [][]string{{"standalone", "--data", data, "--scrape", url}, {"config", "check", config}} {
			got := programtest.Invoke(t, args...)
			if got.Code != cli.ExitUsage || !strings.Contains(got.Stderr,
				"targets[0].url") || strings.Contains(got.Stdout+got.Stderr, "s3cret") {
				t.Errorf("%s: got %+v, want it refused without the secret", args[0], got)
			}
		}
		if _, err := os.Stat(data); err == nil {
			t.Errorf("%s: a data directory was made, whose LOCK shows the command line", url)
		}
	}
}

func TestConfigCheckTakesTheClickHouseAddressApart(t *testing.T) {
	path := filepath.Join(t.TempDir(), settings.ConfigName)
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
		placetest.WriteFile(t, path, "clickhouse: {address: \""+address+"\"}\n")
		got := programtest.Invoke(t, "config", "check", path)
		if want == "" {
			if got.Code != cli.ExitOK {
				t.Errorf("%s: got %+v, want it taken", address, got)
			}
			continue
		}
		if got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, "clickhouse: ") || !strings.Contains(got.Stderr,
			want) || strings.Contains(got.Stderr, "s3cret") {
			t.Errorf("%s: got %+v, want %q", address, got, want)
		}
	}
}

func TestConfigCheckReadsTheFilesItNames(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, settings.ConfigName)
	placetest.WriteFile(t, filepath.Join(dir, "tenants.yaml"),
		"versions:\n- effective: 2026-01-01T00:00:00Z\n  rules:\n  - {match: {namespace: a}}\n")
	placetest.WriteFile(t, filepath.Join(dir, "empty"), "\n")
	placetest.WriteFile(t, filepath.Join(dir, "open"), "secret\n")
	if err := os.Chmod(filepath.Join(dir, "open"), 0o644); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]string{
		"ledger: {tenants_file: none.yaml}":                               {"ledger: tenants_file: ", "none.yaml"},
		"ledger: {tenants_file: none.yaml}\nbilling: {prices: away.yaml}": {"none.yaml", "away.yaml"},
		"ledger: {tenants_file: tenants.yaml}":                            {"ledger: tenants_file: ", "tenants.yaml"},
		"clickhouse: {password_file: none}": {
			"clickhouse: password_file: ",
			"none: no such file",
		},
		"clickhouse: {password_file: empty}": {"clickhouse: password_file: ", "empty is empty"},
		"clickhouse: {ca_file: none.pem}":    {"clickhouse: ca_file: ", "none.pem: no such file"},
		"clickhouse: {ca_file: empty}":       {"clickhouse: ca_file: ", "empty holds no PEM certificate"},
		"decisions: {witness: {https: 'https://w.example', ca_file: none.pem, token_file: none}}": {
			"decisions: witness: ", "none.pem: no such file", "none: no such file",
		},
		"decisions: {witness: {https: 'https://w.example', ca_file: empty, token_file: empty}}": {
			"empty holds no PEM",
			"empty is empty",
		},
		"decisions: {witness: {https: 'https://w.example', token_file: open}}": {"open has mode 0644"},
		"attribution: {readers: [slurm], slurm: {mapping_dir: /m, gres_conf: none.conf, slurm_conf: gone.conf}}": {
			"slurm: gres_conf: ", filepath.Join(dir, "none.conf") + ": no such file", "slurm_conf: ", "gone.conf: no such file",
		},
		"attribution: {readers: [kubelet], kubelet: {kubelet: {ca_file: none.pem}, api: {token_file: none}}}": {
			"kubelet: ca_file: ", filepath.Join(dir, "none.pem") + ": no such file", "api: token_file: ", "none: no such file",
		},
		"clickhouse: {library: none.so}": {
			"clickhouse: library: ",
			"none.so: no such file",
		},
	} {
		placetest.WriteFile(t, path, text)
		got := programtest.Invoke(t, "config", "check", path)
		for _, part := range want {
			if got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, part) {
				t.Errorf("%s: got %+v, want %q", text, got, part)
			}
		}
	}
}

func TestConfigCheckWarnsOfReadersWithoutASource(t *testing.T) {
	path := filepath.Join(t.TempDir(), settings.ConfigName)
	for text, warns := range map[string]bool{
		"attribution: {readers: [kubelet]}\n":                            true,
		"collector: {source: nvml}\nattribution: {readers: [kubelet]}\n": false,
		"cluster: {name: other}\n":                                       false,
	} {
		placetest.WriteFile(t, path, text)
		got := programtest.Invoke(t, "config", "check", path)
		if got.Code != cli.ExitOK || strings.Contains(got.Stderr, "warning: ") != warns {
			t.Errorf("%q: got %+v, want a warning: %t", text, got, warns)
		}
	}
}

// TestConfigCheckTakesTheConfigurationsOfNodes checks those of the pages about Kubernetes and Slurm that begin with a
// cluster; files of the node are left out.
func TestConfigCheckTakesTheConfigurationsOfNodes(t *testing.T) {
	path := filepath.Join(t.TempDir(), settings.ConfigName)
	for page, indent := range map[string]string{"meter-kubernetes.md": "", "meter-slurm.md": "   "} {
		text := string(placetest.ReadFile(t, filepath.Join("..", "..", "..", "docs", "how-to", page)))
		_, text, found := strings.Cut(text, "```yaml\n"+indent+"cluster: ")
		text, _, _ = strings.Cut("cluster: "+text, "```")
		text = strings.ReplaceAll(text, "\n"+indent, "\n")
		placetest.WriteFile(t, path, strings.ReplaceAll(text, ", gres_conf: /etc/slurm/gres.conf", ""))
		if got := programtest.Invoke(t, "config", "check", path); !found || got.Code != cli.ExitOK || got.Stderr != "" {
			t.Errorf("%s: got %+v for %s", page, got, text)
		}
	}
}

// TestConfigCheckEstimatesDisk: what a fleet takes, under the file's slot,
// retention and spool.
func TestConfigCheckEstimatesDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gputally.yaml")
	placetest.WriteFile(t, path,
		"cluster: {slot: 20s}\nledger: {raw_retention: 960h}\ncollector: {spool_max_bytes: 1000000000}\n")
	got := programtest.Invoke(t, "config", "check", path, "--gpus", "1000", "--mig", "100")
	want := programtest.Came(cli.ExitOK, path+`: ok
disk for 1000 GPUs, 100 of them in seven instances, on nodes of 8, in slots of 20s:
TABLE                   A DAY  A YEAR
holds                   39 MB   14 GB
samples                 64 MB   24 GB
batches (the journal)   44 MB   16 GB
usage_hourly           1.9 MB  697 MB
in all                 150 MB   55 GB
raw_retention 960h0m0s: holds and samples come to 4.9 GB and stay there; all else grows by 17 GB a year
spool_max_bytes 1.0 GB: 115.7 days of a node of 8 whole GPUs, 33.1 days of one in instances, while the broker is away
Kafka's log is not counted; merges need about a week's raw in addition
`, "")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("estimate (-want +got):\n%s", diff)
	}
	for args, want := range map[string]string{
		"--gpus -1":          "--gpus -1: want 0 to 10000000",
		"--mig 3":            "--mig 3: want at most 0",
		"--gpus 10 --mig 11": "--mig 11: want at most 10",
	} {
		got := programtest.Invoke(t, append([]string{"config", "check", path}, strings.Fields(args)...)...)
		if got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, want) {
			t.Errorf("config check %s: got %+v, want exit %d and %q", args, got, cli.ExitUsage, want)
		}
	}
}

func TestConfigCheckNamesEveryMistake(t *testing.T) {
	path := filepath.Join(t.TempDir(), settings.ConfigName)
	placetest.WriteFile(t, path, "cluster:\n  slott: 10s\nhttp:\n  listen: 9415\n")
	got := programtest.Invoke(t, "config", "check", path)
	want := programtest.Came(cli.ExitUsage, "",
		"gputally: "+path+`:2: cluster.slott: unknown key, did you mean "slot"?`+"\n"+
			path+`:4: http.listen: want a string in quotes ("9415"), got 9415`+"\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config check (-want +got):\n%s", diff)
	}
}

func TestConfigCheckNamesValuesThatCannotWork(t *testing.T) {
	path := filepath.Join(t.TempDir(), settings.ConfigName)
	for text, want := range map[string]string{
		"cluster: {slot: 7s}": "cluster: slot: 7s: want whole seconds that divide " +
			"the hour",
		"cluster: {slot: 1500ms}":                      "cluster: slot: 1.5s: want whole seconds",
		`cluster: {name: ""}`:                          "cluster: name: is empty",
		"ingest: {chunk_records: 0}":                   "chunk_records 0: must be 1 to 100000",
		"analyzer: {interval: 1ms}":                    "analyzer: interval 1ms",
		"billing: {prices: none.yaml}":                 "billing:",
		"kafka: {brokers: [localhost]}":                `brokers is "localhost", want host:port`,
		"kafka: {user: me}":                            `user "me": give both user and password, or neither`,
		"kafka: {ca_file: ca.pem}":                     "requires tls: true",
		"kafka: {cert_file: c.pem, key_file: k.pem}":   "requires tls: true",
		"kafka: {tls: true, cert_file: c.pem}":         "give both, or neither",
		"kafka: {mechanism: gssapi}":                   `mechanism "gssapi"`,
		"kafka: {brokers: [\"unix:/a\", \"unix:/b\"]}": "one broker where it is behind a Unix socket",
		"clickhouse: {memory_bytes: 1000}":             "memory_bytes 1000: want 268435456",
		"http: {listen: \"0.0.0.0:9415\"}":             "other machines could reach it",
		"clickhouse: {password: hunter2}": "clickhouse.password: unknown key; known here: " +
			"address, ca_file, database, library, memory_bytes, password_file, user",
		"kafka: {tls: true, ca_file: " + filepath.Base(path) + "}": "holds no PEM certificate",
	} {
		placetest.WriteFile(t, path, text)
		got := programtest.Invoke(t, "config", "check", path)
		if got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, want) {
			t.Errorf("config %q: got %+v, want %q", text, got, want)
		}
	}
}

func TestConfigShowIsAConfiguration(t *testing.T) {
	t.Chdir(t.TempDir())
	shown := programtest.Invoke(t, "config", "show")
	if shown.Code != cli.ExitOK || !strings.HasPrefix(shown.Stdout, "# from built-in defaults\ncluster:\n") {
		t.Fatalf("config show: got %+v", shown)
	}
	placetest.WriteFile(t, settings.ConfigName, shown.Stdout)
	if got, want := programtest.Invoke(t, "config", "check", settings.ConfigName), programtest.Came(cli.ExitOK,
		settings.ConfigName+": ok\n", ""); got != want {
		t.Errorf("config check of what was shown: got %+v, want %+v", got, want)
	}
	got := settings.Default()
	if err := config.Load(settings.ConfigName, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(settings.Default(), got, cmp.AllowUnexported(config.Secret{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("round trip (-want +got):\n%s", diff)
	}
}
