package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigCheckOfSourcesAndOwners(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, configName)
	writeFile(t, filepath.Join(dir, "owners.yaml"), "owners: [{index: 0, tenant: a}]\n")
	writeFile(t, filepath.Join(dir, "wrong.yaml"), "owners: [{index: 0, tenent: a}]\n")
	const target = "exporter: {targets: [{url: \"http://n:9400/metrics\"}]"
	for _, c := range []struct{ config, want string }{ // want: of the refusal; empty: taken
		{"collector: {source: dcgm}\nattribution: {readers: [static], static: {file: owners.yaml}}", ""},
		{"collector: {source: nvml}\nattribution: {readers: [kubelet, static], static: {file: owners.yaml}}", ""},
		{target + ", attribution: none}\nattribution: {readers: [kubelet]}", ""},
		{"collector: {source: dcgm}\nattribution: {readers: [static], static: {file: wrong.yaml}}", `unknown key`},
		{"collector: {source: dcgm}\nattribution: {readers: [static], static: {file: none.yaml}}", `attribution: static: file`},
		{"collector: {source: dcgm}\nattribution: {readers: [static]}", `attribution: readers[0] "static": file ""`},
		{"collector: {source: dcgm}", "attribution: readers: is empty: name kubelet, slurm or static"},
		{"collector: {source: dcgn}\nattribution: {readers: [kubelet]}", `collector: source "dcgn": want exporter, dcgm or nvml`},
		{"collector: {source: exporter}", "exporter.targets is empty"},
		{"collector: {source: dcgm}\nattribution: {readers: [kubelet]}\n" + target + "}", `exporter: targets: collector.source is "dcgm"`},
		{target + "}\nattribution: {readers: [kubelet]}", `exporter: attribution "labels": set it to "none"`},
		{"exporter: {targets: [{url: \"http://n:9400/m\"}, {url: \"http://o:9400/m\"}], attribution: none}\nattribution: {readers: [kubelet]}", "exporter: targets: 2 of them"},
		{"collector: {source: dcgm}\nattribution: {readers: [slurm], slurm: {from: scontrol}}", "stale_after 5s: slurm asks the controller every 10s: want 20s or more"},
		{"collector: {source: dcgm}\nattribution: {readers: [kubelet, kubelet]}", `readers[1] "kubelet": listed twice`},
		{"collector: {source: dcgm}\nattribution: {readers: [pods]}", `readers[0] "pods": want kubelet, slurm or static`},
		{"collector: {source: dcgm}\nattribution: {readers: [kubelet], poll: 10s}", "stale_after 5s: must be two polls of 10s or more"},
		{"dcgm: {address: \"ftp://x\"}", "dcgm: address"},
		{"device_metrics: {max_age_slots: 0}", "device_metrics: max_age_slots 0: must be 1 to 100"},
		{"ledger: {raw_retention: 839h}", "ledger: raw_retention 839h0m0s: must be 0 (for ever), or ingest.max_late (840h0m0s) or more"},
		{"ledger: {raw_retention: 840h}", ""},
	} {
		writeFile(t, path, c.config+"\n")
		got := invoke(t, "config", "check", path)
		switch {
		case c.want == "" && got.Code != exitOK:
			t.Errorf("%s\ngot %+v, want it taken", c.config, got)
		case c.want != "" && (got.Code != exitUsage || !strings.Contains(got.Stderr, c.want)):
			t.Errorf("%s\ngot %+v, want exit %d with %q", c.config, got, exitUsage, c.want)
		}
	}
}
