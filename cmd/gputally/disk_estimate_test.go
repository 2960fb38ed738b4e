package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestConfigCheckEstimatesDisk: what a fleet takes, under the file's slot,
// retention and spool.
func TestConfigCheckEstimatesDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gputally.yaml")
	writeFile(t, path, "cluster: {slot: 20s}\nledger: {raw_retention: 960h}\ncollector: {spool_max_bytes: 1000000000}\n")
	got := invoke(t, "config", "check", path, "--gpus", "1000", "--mig", "100")
	want := outcome{exitOK, path + `: ok
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
`, ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("estimate (-want +got):\n%s", diff)
	}
	for args, want := range map[string]string{
		"--gpus -1":          "--gpus -1: want 0 to 10000000",
		"--mig 3":            "--mig 3: want 0 to the 0 of --gpus",
		"--gpus 10 --mig 11": "--mig 11: want 0 to the 10 of --gpus",
	} {
		got := invoke(t, append([]string{"config", "check", path}, strings.Fields(args)...)...)
		if got.Code != exitUsage || !strings.Contains(got.Stderr, want) {
			t.Errorf("config check %s: got %+v, want exit %d and %q", args, got, exitUsage, want)
		}
	}
}

// TestLedgerRowsDontDependOnTheSlot: all else halves when slots double.
func TestLedgerRowsDontDependOnTheSlot(t *testing.T) {
	fleet := fleetSize{gpus: 10, mig: 4}
	ten, twenty := estimateDisk(fleet, 10*time.Second), estimateDisk(fleet, 20*time.Second)
	want := diskPerDay{holds: ten.holds / 2, samples: ten.samples / 2, journal: ten.journal / 2, usage: ten.usage}
	if diff := cmp.Diff(want, twenty, cmp.AllowUnexported(diskPerDay{})); diff != "" {
		t.Errorf("a day in slots twice as long (-want +got):\n%s", diff)
	}
}
