package commandtest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/cmd/gputally/ask"
	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/placetest"
	"github.com/gputally/gputally/internal/store/storetest"
)

// outageLines are the fleet whose node n1 nobody saw from 01:00 to 02:00.
func outageLines(t *testing.T) (lines []string) {
	t.Helper()
	for _, line := range programtest.FleetLines(t) {
		batch := decodeObject(t, line)
		minute := int(batch["seq"].(float64))
		if batch["node"] == "n1" && minute >= 60 && minute < 120 {
			continue
		}
		if batch["node"] == "n1" && minute >= 120 {
			batch["boot_ms"], batch["seq"] = 2000, minute-120
		}
		lines = append(lines, encodeObject(t, batch))
	}
	return lines
}

func decodeObject(t *testing.T, line string) programtest.Object {
	t.Helper()
	var out programtest.Object
	if err := json.Unmarshal([]byte(line), &out); err != nil {
		t.Fatal(err)
	}
	if out["node"] == "n1" { // instances that records can name
		for i, leaf := range out["gpus"].([]any)[1].(map[string]any)["leaves"].([]any) {
			leaf.(map[string]any)["mig_uuid"] = fmt.Sprintf("MIG-n1-%d", i+1)
		}
	}
	return out
}

func encodeObject(t *testing.T, o programtest.Object) string {
	t.Helper()
	out, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// sliceMSBy are the slice-ms of each tenant and bucket, those of 0 left out.
func sliceMSBy(t *testing.T, data string) map[string]int64 {
	t.Helper()
	var rows []map[string]any
	if err := json.Unmarshal([]byte(programtest.MustInvoke(t, "usage", "--data", data, "--by", "tenant", "--output",
		"json")), &rows); err != nil {
		t.Fatal(err)
	}
	sums := map[string]int64{}
	for _, row := range rows {
		for _, bucket := range ask.BucketNames {
			if ms := int64(row[bucket+"_slice_ms"].(float64)); ms != 0 {
				sums[fmt.Sprintf("%v %s", row["tenant"], bucket)] += ms
			}
		}
	}
	return sums
}

const (
	outageRecords = `job,account,node,device,start,end
1,lab-a,n1,GPU-n1-0,2026-03-01T00:30:00Z,2026-03-01T01:30:00Z
2,lab-b,n1,MIG-n1-1,2026-03-01T01:10:30.500Z,2026-03-01T01:20:00Z
`
	refusedRecords = `3,lab-b,n1,GPU-n1-0,2026-03-01T01:20:00Z,2026-03-01T01:40:00Z
4,lab-b,n1,GPU-n1-1,2026-03-01T01:30:00Z,2026-03-01T01:40:00Z
5,lab-b,,GPU-n1-0,2026-03-01T01:50:00Z,2026-03-01T01:55:00Z
6,lab-b,n1,,2026-03-01T01:50:00Z,2026-03-01T01:55:00Z
7,lab-b,n1,GPU-n1-9,2026-03-01T01:50:00Z,2026-03-01T01:55:00Z
8,lab-b,n2,GPU-n2-0,2026-03-01T01:00:00Z,2026-03-01T02:00:00Z
`
)

// fillLedger imports records into the fleet and answers what is said of it.
func fillLedger(t *testing.T, data, records string, flags ...string) programtest.Outcome {
	t.Helper()
	file := filepath.Join(t.TempDir(), "night.csv")
	if strings.Contains(records, "\n6,") {
		records = strings.Replace(records, "start,end\n", "start,end,gpus\n", 1)
		records = strings.ReplaceAll(records, "Z\n", "Z,1\n")
	}
	placetest.WriteFile(t, file, records)
	return programtest.Invoke(t,
		append([]string{"import", "allocations", file, "--data", data, "--cluster", "fleet"}, flags...)...)
}

// R18: records fill what collectors of a live cluster missed, as unproven; what
// was seen stays; a batch that comes late replaces them, a corrected file corrects.
func TestRecordsFillWhatCollectorsMissed(t *testing.T) {
	storetest.Library(t)
	data := programtest.NewDataDir(t)
	programtest.MustImport(t, data, programtest.WriteLines(t, outageLines(t)))
	want := sliceMSBy(t, data)
	if want[" unobserved"] != 2*7*3_600_000 {
		t.Fatalf("before: %v, want node n1's hour unobserved", want)
	}
	check := func(step string) {
		t.Helper()
		if diff := cmp.Diff(want, sliceMSBy(t, data)); diff != "" {
			t.Errorf("%s: slice-ms by tenant and bucket (-want +got):\n%s", step, diff)
		}
	}
	got := fillLedger(t, data, outageRecords+refusedRecords, "--dry-run")
	if got.Code != cli.ExitFailed || !strings.Contains(got.Stdout,
		"30 batches to import (a dry run: nothing is changed), 5 bad rows") ||
		!strings.Contains(got.Stderr, "records hold 0.567797619 GPU-hours") {
		t.Errorf("dry run: got %+v", got)
	}
	for _, words := range []string{
		":2: 1 on GPU-n1-0 of n1 from 2026-03-01T00:30:00Z to 2026-03-01T01:00:00Z: skipped",
		":4: beyond capacity: 3 holds 1 GPU from 2026-03-01T01:20:00Z on",
		":5: 4 from 2026-03-01T01:30:00Z to 2026-03-01T01:40:00Z: GPU GPU-n1-1 is partitioned into 2 MIG instances there",
		":6: 5 names GPU GPU-n1-0, but no node",
		":7: 6 names no GPU",
		":8: 7 from 2026-03-01T01:50:00Z to 2026-03-01T01:55:00Z: GPU GPU-n1-9 is not listed in the last batch of node n1",
		":9: 8 on GPU-n2-0 of n2 from 2026-03-01T01:00:00Z to 2026-03-01T02:00:00Z: skipped",
	} {
		if !strings.Contains(got.Stderr, words) {
			t.Errorf("dry run said %q, want %q", got.Stderr, words)
		}
	}
	check("dry run")

	if got := fillLedger(t, data, outageRecords); got.Code != cli.ExitOK || !strings.Contains(got.Stdout,
		"30 batches imported, 0 bad rows") {
		t.Errorf("import: got %+v", got)
	}
	// 30 minutes of a board of 7 slices; 569.5 s of an instance of 3.
	fill := func(a, b int64) {
		want[" unobserved"] += want["lab-a unproven"] + want["lab-b unproven"] - a - b
		want["lab-a unproven"], want["lab-b unproven"] = a, b
	}
	fill(1_800_000*7, 569_500*3)
	check("filled")
	programtest.MustVerify(t, data)
	if got := fillLedger(t, data, outageRecords); got.Code != cli.ExitOK || !strings.Contains(got.Stdout,
		"0 records new, 0 changed, 0 deleted, 2 unchanged; 0 batches imported") {
		t.Errorf("again: got %+v", got)
	}
	if got := programtest.MustInvoke(t, "explain", "--gpu", "GPU-n1-0", "--hour", "2026-03-01T01:00:00Z", "--data",
		data); !strings.Contains(got, "allocation records show who held it") {
		t.Errorf("explain: %s, want it to name the records", got)
	}

	if got := fillLedger(t, data,
		strings.Replace(outageRecords, "01:30:00Z", "01:15:00Z", 1)); got.Code != cli.ExitOK || !strings.Contains(got.Stdout,
		"1 changed") {
		t.Errorf("corrected: got %+v", got)
	}
	fill(900_000*7, 569_500*3)
	check("corrected")

	for _, line := range programtest.FleetLines(t) { // the minute of 01:05 was in a spool
		if batch := decodeObject(t, line); batch["node"] == "n1" && batch["seq"] == float64(65) {
			batch["boot_ms"], batch["seq"] = 1500, 0
			programtest.MustImport(t, data, programtest.WriteLines(t, []string{encodeObject(t, batch)}))
		}
	}
	fill(840_000*7, 569_500*3)
	want[" unobserved"] -= 60_000 * 14
	want["team-a idle"] += 60_000 * 7
	want["team-b unproven"] += 60_000 * 3
	want[" free"] += 60_000 * 2
	want[" stranded"] += 60_000 * 2
	check("a late batch")
	if got := fillLedger(t, data, strings.Replace(outageRecords, "01:30:00Z", "01:15:00Z", 1)); got.Code != cli.ExitOK {
		t.Errorf("after a late batch: got %+v", got)
	}
	check("again, after a late batch")
	programtest.MustVerify(t, data)
}
