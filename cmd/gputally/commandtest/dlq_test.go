package commandtest

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/store/storetest"
)

// letters are the dead letters of a data directory, as offset and reason.
func letters(t *testing.T, data string, flags ...string) (out []string) {
	t.Helper()
	got := programtest.Invoke(t, append([]string{"dlq", "list", "--data", data, "--output", "csv"}, flags...)...)
	if got.Code != cli.ExitOK {
		t.Fatalf("dlq list: got %+v", got)
	}
	rows, err := csv.NewReader(strings.NewReader(got.Stdout)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := func(name string) int { return slices.Index(rows[0], name) }
	for _, r := range rows[1:] {
		out = append(out, strings.TrimSpace(strings.Join([]string{
			r[column("partition")] + "/" + r[column("offset")], r[column("reason")], r[column("size")], r[column("key")],
			r[column("replay_of")],
		}, " ")))
	}
	return out
}

// TestDeadLettersAreListedAndSentBack: exactly what is whole goes back, as it
// was; what is dead again is one new letter each time, never more.
func TestDeadLettersAreListedAndSentBack(t *testing.T) {
	storetest.Library(t)
	data := programtest.NewDataDir(t)
	sample := func(key string, value []byte) broker.Message {
		return broker.Message{
			Topic: broker.TopicSamples, Key: []byte(key), Value: value,
			Headers: []broker.Header{{Key: "node", Value: []byte(key)}},
		}
	}
	programtest.Produce(t, data, []broker.Message{
		sample("n1", []byte("\xff\x00one")), sample("n1", []byte("\xfftwo")), sample("n1", []byte{0x08, 99}),
		sample("n1", bytes.Repeat([]byte{0xff}, 70_000)),
	})
	want := []string{"0/0 garbage 5 n1", "0/1 garbage 4 n1", "0/2 format 2 n1", "0/3 garbage 70000 n1"}
	if diff := cmp.Diff(want, letters(t, data)); diff != "" {
		t.Fatalf("dead letters (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[2:3], letters(t, data, "--reason", "format")); diff != "" {
		t.Errorf("of one reason (-want +got):\n%s", diff)
	}
	for args, want := range map[string]struct {
		code   int
		stdout string
	}{
		"--all --dry-run": {
			cli.ExitFailed,
			"3 of 4 dead letters would be sent, 0 copies left out, 1 not replayable\n",
		},
		"--offset 0/3":           {cli.ExitFailed, "0 of 1 dead letter sent, 0 copies left out, 1 not replayable\n"},
		"--offset 0/9":           {cli.ExitFailed, ""},
		"--offset 1":             {cli.ExitUsage, ""},
		"--all --reason garbage": {cli.ExitUsage, ""},
		"":                       {cli.ExitUsage, ""},
		"--offset 0/2":           {cli.ExitOK, "1 of 1 dead letter sent, 0 copies left out, 0 not replayable\n"},
	} {
		got := programtest.Invoke(t, append([]string{"dlq", "replay", "--data", data}, strings.Fields(args)...)...)
		if got.Code != want.code || !strings.HasSuffix(got.Stdout, want.stdout) {
			t.Errorf("dlq replay %s: got %+v, want %+v", args, got, want)
		}
	}
	for range 2 {
		got := programtest.Invoke(t, "dlq", "replay", "--data", data, "--all")
		if got.Code != cli.ExitFailed || !strings.Contains(got.Stderr,
			"dead letter 0/3 (garbage) is not replayable: the value was cut: the dead letter keeps only 65536 of 70000 bytes") ||
			!strings.HasPrefix(got.Stdout, "3 of ") {
			t.Errorf("dlq replay --all: got %+v, want 3 sent", got)
		}
		programtest.Produce(t, data, nil) // ingest reads what was sent
	}
	all := letters(t, data)
	if len(all) != 4+1+3+3 {
		t.Errorf("letters after one was sent once and three twice: %q", all)
	}
	if last := all[len(all)-1]; !strings.Contains(last, " 0/") {
		t.Errorf("the last letter does not say what it is a replay of: %q", last)
	}
	for _, m := range programtest.ReadTopic(t, data, broker.TopicSamples)[4:] {
		if string(m.Key) != "n1" || programtest.HeaderOf(m, "node") != "n1" || programtest.HeaderOf(m,
			ingest.HeaderReplayOf) == "" || len(m.Headers) != 2 {
			t.Errorf("sent back with key %q and headers %v", m.Key, m.Headers)
		}
	}
	if r := programtest.VerifyLedger(t, data); r.Code != cli.ExitOK || !r.Checks["C3"].OK {
		t.Errorf("verify: code %d, C3 says %+v", r.Code, r.Checks["C3"])
	}
}

// What is listed is for people and scripts alike.
func TestDeadLettersAsJSON(t *testing.T) {
	storetest.Library(t)
	data := programtest.NewDataDir(t)
	programtest.Produce(t, data,
		[]broker.Message{{Topic: broker.TopicSamples, Key: []byte("=n\x1b1"), Value: []byte("=cmd\x07")}})
	got := programtest.Invoke(t, "dlq", "list", "--data", data, "--output", "json")
	var rows []map[string]any
	if err := json.Unmarshal([]byte(got.Stdout), &rows); err != nil || len(rows) != 1 {
		t.Fatalf("dlq list: got %+v, %v", got, err)
	}
	delete(rows[0], "at")
	delete(rows[0], "error")
	delete(rows[0], "of_partition")
	want := map[string]any{
		"partition": 0.0, "offset": 0.0, "of_offset": 0.0, "reason": "format", "size": 5.0, "replayable": "yes",
		"replay_of": "",
		"key":       `=n\x1b1`, "sha256": rows[0]["sha256"], "first_bytes": `=cmd\a`,
	}
	if diff := cmp.Diff(want, rows[0]); diff != "" || len(rows[0]["sha256"].(string)) != 64 {
		t.Errorf("letter (-want +got):\n%s", diff)
	}
	if got := programtest.Invoke(t, "dlq", "list", "--data", data); strings.ContainsAny(got.Stdout, "\x1b\x07") {
		t.Errorf("a message steers the terminal: %q", got.Stdout)
	}
}

func TestDeadLettersNeedABroker(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(cli.DataEnv, "")
	if got := programtest.Invoke(t, "dlq", "list"); got.Code != cli.ExitUsage || !strings.Contains(got.Stderr,
		"no broker is named") {
		t.Errorf("got %+v", got)
	}
}
