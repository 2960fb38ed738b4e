package commandtest

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/clock"
)

// anomalyRow is the only finding of the ledger, by column.
func anomalyRow(t *testing.T, data string) map[string]string {
	t.Helper()
	got := programtest.Invoke(t, "anomalies", "--data", data, "--output", "csv")
	records, err := csv.NewReader(strings.NewReader(got.Stdout)).ReadAll()
	if err != nil || len(records) != 2 {
		t.Fatalf("anomalies: %+v, %v", got, err)
	}
	row := map[string]string{}
	for i, name := range records[0] {
		row[name] = records[1][i]
	}
	return row
}

// TestFindingsAreAcknowledgedMutedJudgedAndCleared, each of which the next list has.
func TestFindingsAreAcknowledgedMutedJudgedAndCleared(t *testing.T) {
	data := programtest.NewLedger(t)
	id := anomalyRow(t, data)["id"]
	until := clock.Real().Now().Add(48 * time.Hour).UTC().Truncate(time.Second).Format(time.RFC3339)
	do := func(args ...string) {
		t.Helper()
		if got := programtest.Invoke(t, append([]string{"anomalies", "--data", data}, args...)...); got.Code != cli.ExitOK {
			t.Fatalf("anomalies %v: %+v", args, got)
		}
	}
	wantMarks := func(want map[string]string) {
		t.Helper()
		row, got := anomalyRow(t, data), map[string]string{}
		for _, name := range []string{"state", "acknowledged_by", "muted_until", "mute_owner", "mute_reason", "judged"} {
			if row[name] != "" {
				got[name] = row[name]
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("marks (-want +got):\n%s", diff)
		}
	}
	wantMarks(map[string]string{"state": "open"})
	do("ack", id, "--by", "alice")
	do("mute", id, "--until", until, "--reason", "=rollout", "--owner", "ops")
	do("judge", id, "planned", "--by", "bob", "--key", "k1")
	do("judge", id, "planned", "--by", "bob", "--key", "k1")
	wantMarks(map[string]string{
		"state": "open", "acknowledged_by": "alice", "muted_until": until, "mute_owner": "ops", "mute_reason": "'=rollout", "judged": "planned",
	})
	for muted, want := range map[string]bool{"--muted=false": false, "--muted": true} {
		got := programtest.Invoke(t, "anomalies", "--data", data, muted)
		if strings.Contains(got.Stdout, id) != want || strings.Contains(got.Stdout, "not shown: 1 finding") == want || got.Stderr != "" {
			t.Errorf("anomalies %s: %+v", muted, got)
		}
	}
	do("clear", id)
	do("mute", "--kind", "idle_allocation", "--tenant", "ml-train", "--until", until, "--reason", "planned", "--by", "carol")
	wantMarks(map[string]string{"state": "open", "muted_until": until, "mute_owner": "carol", "mute_reason": "planned"})
	do("clear", "--kind", "idle_allocation", "--tenant", "ml-train")
	wantMarks(map[string]string{"state": "open"})

	audit := programtest.Invoke(t, "audit", "--data", data, "--output", "csv").Stdout
	if n := strings.Count(audit, ",finding,"); n != 6 || !strings.Contains(audit, "finding,bob,judge "+id+": planned,accepted") {
		t.Errorf("the audit has %d records of findings, want 6:\n%s", n, audit)
	}
}

func TestScoresOfFindings(t *testing.T) {
	data := programtest.NewLedger(t)
	scores := func() []map[string]any {
		var rows []map[string]any
		got := programtest.Invoke(t, "anomalies", "scores", "--data", data, "--output", "json")
		if err := json.Unmarshal([]byte(got.Stdout), &rows); err != nil {
			t.Fatalf("scores: %+v, %v", got, err)
		}
		return rows
	}
	if rows := scores(); len(rows) != 0 {
		t.Errorf("scores %v, want none", rows)
	}
	id := anomalyRow(t, data)["id"]
	for _, c := range []struct {
		verdict string
		want    map[string]any
	}{
		{"planned", map[string]any{"kind": "idle_allocation", "useful": 0.0, "false": 0.0, "planned": 1.0, "precision": nil}},
		{"useful", map[string]any{"kind": "idle_allocation", "useful": 1.0, "false": 0.0, "planned": 0.0, "precision": "1.000"}},
		{"false", map[string]any{"kind": "idle_allocation", "useful": 0.0, "false": 1.0, "planned": 0.0, "precision": "0.000"}},
	} {
		if got := programtest.Invoke(t, "anomalies", "judge", id, c.verdict, "--data", data); got.Code != cli.ExitOK {
			t.Fatalf("judge: %+v", got)
		}
		if diff := cmp.Diff([]map[string]any{c.want}, scores()); diff != "" {
			t.Errorf("scores after %s (-want +got):\n%s", c.verdict, diff)
		}
	}
}

func TestMarksThatMakeNoSense(t *testing.T) {
	data := programtest.NewLedger(t)
	id := anomalyRow(t, data)["id"]
	for line, want := range map[string]int{
		"ack":                                cli.ExitUsage,
		"ack " + strings.Repeat("0", 32):     cli.ExitFailed,
		"ack x":                              cli.ExitFailed,
		"judge " + id + " wrong":             cli.ExitUsage,
		"judge " + id:                        cli.ExitUsage,
		"mute " + id + " --reason r":         cli.ExitUsage,
		"mute " + id + " --until 2099-01-01": cli.ExitUsage,
		"mute " + id + " --until 2026-01-01 --reason r":                   cli.ExitUsage,
		"mute " + id + " --until 2099-01-01 --reason r":                   cli.ExitUsage,
		"mute --until 2099-01-01 --reason r":                              cli.ExitUsage,
		"mute " + id + " --tenant ml-train --until 2099-01-01 --reason r": cli.ExitUsage,
		"mute --kind odd --until 2099-01-01 --reason r":                   cli.ExitUsage,
		"clear " + id:             cli.ExitFailed,
		"clear --tenant ml-train": cli.ExitFailed,
		"forget " + id:            cli.ExitUsage,
	} {
		got := programtest.Invoke(t, append(strings.Fields("anomalies "+line), "--data", data)...)
		if got.Code != want || got.Stderr == "" {
			t.Errorf("anomalies %s: %+v, want exit code %d", line, got, want)
		}
	}
	if got := programtest.Invoke(t, "audit", "--data", data, "--output", "csv"); strings.Contains(got.Stdout, "finding") {
		t.Errorf("the audit has %s", got.Stdout)
	}
}

// TestAFindingIsExplained: by the beginning of its id; its runs and its cost sum to the finding, and the rule's value
// would not be found by a stricter limit.
func TestAFindingIsExplained(t *testing.T) {
	data := programtest.NewLedger(t)
	row := anomalyRow(t, data)
	got := programtest.Invoke(t, "anomalies", "explain", row["id"][:8], "--data", data, "--output", "json")
	var doc struct {
		ID    string `json:"id"`
		Facts struct {
			Rules []struct{ Key, Value, Limit string }
			Runs  []struct {
				From, To time.Time
				Hours    string `json:"gpu_hours"`
			}
			Cost []struct{ Model, Rate, Cost string }
		}
	}
	if err := json.Unmarshal([]byte(got.Stdout), &doc); err != nil || got.Code != cli.ExitOK {
		t.Fatalf("explain: %+v, %v", got, err)
	}
	if doc.ID != row["id"] || len(doc.Facts.Runs) != 1 || doc.Facts.Runs[0].Hours != row["wasted_gpu_hours"] ||
		len(doc.Facts.Cost) != 1 || doc.Facts.Cost[0].Cost != row["wasted_cost"] ||
		doc.Facts.Runs[0].From.Format(time.RFC3339) != row["start"] || doc.Facts.Runs[0].To.Format(time.RFC3339) != row["end"] {
		t.Errorf("explained %+v, listed %v", doc, row)
	}
	value, err := time.ParseDuration(doc.Facts.Rules[0].Value)
	if err != nil || doc.Facts.Rules[0].Key != "idle.min_duration" || value != doc.Facts.Runs[0].To.Sub(doc.Facts.Runs[0].From) {
		t.Errorf("rule %+v, %v: want the run's length", doc.Facts.Rules[0], err)
	}
	text := programtest.Invoke(t, "anomalies", "explain", row["id"], "--data", data)
	for _, want := range []string{row["id"], "analyzer.idle.min_duration", "ml-train", "H100", "anomalies mute"} {
		if !strings.Contains(text.Stdout, want) {
			t.Errorf("explain %s lacks %q:\n%s", row["id"], want, text.Stdout)
		}
	}
	for _, id := range []string{"", "abc", "ffffffffffffffffffffffffffffffff"} {
		if got := programtest.Invoke(t, "anomalies", "explain", id, "--data", data); got.Code == cli.ExitOK {
			t.Errorf("explain %q: %+v, want an error", id, got)
		}
	}
}
