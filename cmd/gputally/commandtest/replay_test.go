package commandtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/cli"
)

// TestReplayMakesALedgerWhole: raw that ClickHouse lost is in the topic still.
func TestReplayMakesALedgerWhole(t *testing.T) {
	data := programtest.NewFleet(t)
	usage := programtest.UsageCSV(t, data)
	programtest.MustVerify(t, data)
	for _, lose := range []string{
		`ALTER TABLE holds DELETE WHERE node = 'n1' SETTINGS mutations_sync = 2`,
		`ALTER TABLE batches DELETE WHERE node = 'n1' AND slot = '` + programtest.TamperedAt +
			`' SETTINGS mutations_sync = 2`,
	} {
		programtest.Alter(t, data, lose)
		if failed := programtest.VerifyLedger(t, data).Failed(); !slices.Contains(failed, "C3") {
			t.Errorf("%s: verify names %v, want C3 among them", lose, failed)
		}
		got := programtest.Invoke(t, "replay", "--data", data, "--from-time", "2020-01-01")
		if got.Code != cli.ExitOK || !strings.HasPrefix(got.Stdout, "360 messages replayed: 360 stored, 0 dead") {
			t.Fatalf("replay: got %+v", got)
		}
		programtest.MustVerify(t, data)
		if diff := cmp.Diff(usage, programtest.UsageCSV(t, data)); diff != "" {
			t.Errorf("usage after %s (-want +got):\n%s", lose, diff)
		}
	}
}

// TestReplayBesideAStandalone: offsets stay, the ledger is the same.
func TestReplayBesideAStandalone(t *testing.T) {
	data := programtest.NewFleet(t)
	usage := programtest.UsageCSV(t, data)
	running := programtest.Start(t, "standalone", "--data", data)
	programtest.Alter(t, data, `ALTER TABLE holds DELETE WHERE node = 'n2' SETTINGS mutations_sync = 2`)
	got := programtest.Invoke(t, "replay", "--data", data, "--from-time", "2020-01-01")
	if got.Code != cli.ExitOK {
		t.Fatalf("replay: got %+v", got)
	}
	programtest.MustVerify(t, data)
	if code := running.Stop(); code != cli.ExitOK {
		t.Errorf("standalone ended with %d", code)
	}
	programtest.MustVerify(t, data)
	if diff := cmp.Diff(usage, programtest.UsageCSV(t, data)); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

func TestReplaySaysWhatItCannotRead(t *testing.T) {
	data := programtest.NewFleet(t)
	for args, want := range map[string]struct {
		code    int
		message string
	}{
		"": {
			cli.ExitUsage,
			"one of --from-offset, --from-time is needed",
		},
		"--from-offset 77/0": {
			cli.ExitFailed,
			"--from-offset 77/0: topic gputally.samples.v1 has 4 partitions",
		},
		"--from-offset 0/123456": {
			cli.ExitFailed,
			"--from-offset 0/123456: partition 0 has the offsets 0 to ",
		},
		"--from-offset 0":                    {cli.ExitUsage, "want PARTITION/OFFSET"},
		"--from-offset 0/0 --from-time 2026": {cli.ExitUsage, "from-time"},
		"--from-time 2026-01-02 --to-time 2026-01-01": {
			cli.ExitUsage,
			"--from-time 2026-01-02T00:00:00Z is not before --to-time 2026-01-01T00:00:00Z",
		},
		"--from-time 2020-01-01 --to-time 2021-01-01": {cli.ExitOK, "0 messages replayed"},
		"--from-time 2099-01-01":                      {cli.ExitOK, "0 messages replayed"},
	} {
		got := programtest.Invoke(t, append([]string{"replay", "--data", data}, strings.Fields(args)...)...)
		if got.Code != want.code || !strings.Contains(got.Stderr+got.Stdout, want.message) {
			t.Errorf("replay %s: got %+v, want %+v", args, got, want)
		}
	}
}
