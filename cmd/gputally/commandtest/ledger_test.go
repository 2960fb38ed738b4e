package commandtest

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

func TestUsageInThreeFormats(t *testing.T) {
	data := programtest.NewLedger(t)
	got := programtest.Invoke(t, "usage", "--data", data, "--by", "tenant,hour", "--from", "2026-10-01T00:00:00Z", "--to",
		"2026-10-01T02:00:00Z", "--output", "csv")
	want := programtest.Came(cli.ExitOK,
		"tenant,hour,active_slice_ms,idle_slice_ms,unproven_slice_ms,free_slice_ms,stranded_slice_ms,unhealthy_slice_ms,unobserved_slice_ms,gpu_hours,energy_joules\n"+
			",2026-10-01T01:00:00Z,0,0,0,1800000,0,0,0,0.5,0.000\n"+
			"ml-train,2026-10-01T00:00:00Z,3600000,0,0,0,0,0,0,1,1800000.500\n"+
			"ml-train,2026-10-01T01:00:00Z,0,1800000,0,0,0,0,0,0.5,0.000\n", "")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("csv (-want +got):\n%s", diff)
	}
	got = programtest.Invoke(t, "usage", "--data", data)
	want = programtest.Came(cli.ExitOK, "2026-10-01T00:00:00Z to 2026-10-01T05:00:00Z\n"+
		"TENANT      GPU-HOURS  ACTIVE %  IDLE %  UNPROVEN %  FREE %  STRANDED %  UNHEALTHY %  UNOBSERVED %  KWH\n"+
		"(platform)        2.0         –       –           –   100.0           –            –             –  0.0\n"+
		"ml-train          3.0      33.3    66.7           –       –           –            –             –  0.5\n", "")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	got = programtest.Invoke(t, "usage", "--data", data, "--by", "node,tenant", "--tenant", "ml-train", "-o", "json")
	var rows []map[string]any
	if err := json.Unmarshal([]byte(got.Stdout), &rows); err != nil {
		t.Fatalf("json %+v: %v", got, err)
	}
	wantRows := []map[string]any{{
		"node": "n1", "tenant": "ml-train", "active_slice_ms": 3.6e6, "idle_slice_ms": 7.2e6, "unproven_slice_ms": 0.,
		"free_slice_ms":     0.,
		"stranded_slice_ms": 0., "unhealthy_slice_ms": 0., "unobserved_slice_ms": 0., "gpu_hours": 3.,
		"energy_joules": 1800000.5,
	}}
	if diff := cmp.Diff(wantRows, rows); diff != "" {
		t.Errorf("json (-want +got):\n%s", diff)
	}
}

// TestAnalyzeReplacesARangesFindings: published once; again there is nothing to write; with a stricter rule the finding
// is deleted.
func TestAnalyzeReplacesARangesFindings(t *testing.T) {
	data := programtest.NewLedger(t)
	strict := filepath.Join(t.TempDir(), "strict.yaml")
	if err := os.WriteFile(strict, []byte("analyzer: {idle: {min_duration: 100h}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ config, want string }{
		{"", "1 written, 0 deleted, 0 unchanged"},
		{"", "0 written, 0 deleted, 1 unchanged"},
		{strict, "0 written, 1 deleted, 0 unchanged"},
		{strict, "0 written, 0 deleted, 0 unchanged"},
	} {
		args := []string{"analyze", "--data", data}
		if step.config != "" {
			args = append(args, "--config", step.config)
		}
		if got := programtest.MustInvoke(t, args...); !strings.Contains(got, step.want) {
			t.Errorf("analyze %v: %q, want %q", args, got, step.want)
		}
	}
}

// TestIdleTimeIsInFindingsOrInNone: both sum to what the draft has.
func TestIdleTimeIsInFindingsOrInNone(t *testing.T) {
	data := programtest.NewLedger(t)
	got := programtest.Invoke(t, "anomalies", "idle", "--data", data, "--period", "2026-10", "--output", "csv")
	want := "tenant,found_gpu_hours,rest_gpu_hours,found_cost,rest_cost,invoice_idle,difference,currency\n" +
		"ml-train,2,0,4.98,0,4.98,0,USD\n"
	if diff := cmp.Diff(programtest.Came(cli.ExitOK, want, ""), got); diff != "" {
		t.Errorf("idle time (-want +got):\n%s", diff)
	}
}

func TestAnomaliesOfTheWholeLedger(t *testing.T) {
	data := programtest.NewLedger(t)
	got := programtest.Invoke(t, "anomalies", "--data", data, "--output", "csv")
	records, err := csv.NewReader(strings.NewReader(got.Stdout)).ReadAll()
	if err != nil || got.Code != cli.ExitOK || len(records) != 2 {
		t.Fatalf("anomalies: got %+v, %v; want one episode", got, err)
	}
	want := []string{
		"idle_allocation", "ml-train", "llm", "job 7", "n1", "GPU-1", "GPU-1",
		"2026-10-01T01:00:00Z", "2026-10-01T05:00:00Z", "2",
	}
	if diff := cmp.Diff(want, records[1][1:11]); diff != "" {
		t.Errorf("episode (-want +got):\n%s", diff)
	}
	for _, flags := range [][]string{
		{"--tenant", "other"},
		{"--kind", "off_hours_spike"},
		{"--to", "2026-10-01T01:00:00Z"},
	} {
		got := programtest.Invoke(t, append([]string{"anomalies", "--data", data, "--output", "csv"}, flags...)...)
		if got.Code != cli.ExitOK || strings.Count(got.Stdout, "\n") != 1 {
			t.Errorf("anomalies %v: got %+v, want a header alone", flags, got)
		}
	}
}

func TestQuestionsThatMakeNoSense(t *testing.T) {
	data := programtest.NewLedger(t)
	for line, want := range map[string]string{
		"usage --by tennant":   `group usage by "tennant": not one of tenant`,
		"usage --from noon":    `invalid argument "noon" for "--from" flag: want a time such as 2026-10-01T00:00:00Z`,
		"usage --output xml":   `want one of table, json, csv`,
		"anomalies --kind odd": `want one of idle_allocation`,
		"usage --from 2026-10-02T00:00:00Z --to 2026-10-01T00:00:00Z":     "is not before to",
		"anomalies --from 2026-10-02T00:00:00Z --to 2026-10-01T00:00:00Z": "is not before to",
		"usage --from 2026-10-01T00:30:00Z --to 2026-10-02T00:00:00Z":     "is not the start of a UTC hour",
	} {
		got := programtest.Invoke(t, append(strings.Fields(line), "--data", data)...)
		if got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, want) {
			t.Errorf("gputally %s: got %+v, want %q", line, got, want)
		}
	}
}

func TestQuestionsNeedALedger(t *testing.T) {
	t.Chdir(t.TempDir())
	got := programtest.Invoke(t, "usage")
	if got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, "give --data DIR") {
		t.Errorf("no --data: got %+v", got)
	}
	got = programtest.Invoke(t, "usage", "--data", "nowhere")
	if got.Code != cli.ExitEnvironment || !strings.Contains(got.Stderr, "nowhere: no ledger found") {
		t.Errorf("a directory that is not there: got %+v", got)
	}
	if _, err := os.Stat("nowhere"); err == nil {
		t.Error("a question made a data directory")
	}
}

func TestMissingLibraryNamesTheCommandThatMendsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	dir, err := datadir.Open(path, datadir.Holder{})
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GPUTALLY_LIBCHDB", filepath.Join(path, "libchdb.so"))
	got := programtest.Invoke(t, "usage", "--data", path)
	if got.Code != cli.ExitEnvironment || !strings.Contains(got.Stderr, "`make build` fetches it") {
		t.Errorf("missing library: got %+v", got)
	}
	if _, err := os.Stat(filepath.Join(path, "run.json")); err == nil {
		t.Error("run.json was left behind")
	}
}

func TestQuestionsUseTheRunningEngine(t *testing.T) {
	storetest.Library(t)
	path := filepath.Join(t.TempDir(), "data")
	a := programtest.OpenNew(t, path)
	defer func() {
		if err := a.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	if err := a.Dir.Publish(datadir.Run{EngineSocket: filepath.Join(a.Dir.TempDir(), app.SocketName)}); err != nil {
		t.Fatal(err)
	}
	usagetest.Insert(t, a.DB, usagetest.GPUHour{
		Hour: time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC), GPU: "GPU-1", Node: "n1", Model: "m", Slices: 7, Version: 1,
	})
	got := programtest.Invoke(t, "usage", "--data", path, "--by", "gpu", "--output", "csv")
	if got.Code != cli.ExitOK || !strings.HasSuffix(got.Stdout, "\nGPU-1,0,0,0,25200000,0,0,0,1,0.000\n") {
		t.Errorf("usage beside a running process: got %+v", got)
	}
}

func TestUsageOfAnEmptyLedgerIsAHeader(t *testing.T) {
	storetest.Library(t)
	path := filepath.Join(t.TempDir(), "data")
	if err := programtest.OpenNew(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"usage", "anomalies", "forecast"} {
		got := programtest.Invoke(t, command, "--data", path, "--output", "csv")
		if got.Code != cli.ExitOK || strings.Count(got.Stdout, "\n") != 1 {
			t.Errorf("%s: got %+v, want a header alone", command, got)
		}
		got = programtest.Invoke(t, command, "--data", path, "--output", "json")
		if got != programtest.Came(cli.ExitOK, "[]\n", "") {
			t.Errorf("%s: got %+v, want an empty list", command, got)
		}
	}
}

func TestEmptyAnswersSayWhatThereIs(t *testing.T) {
	data := programtest.NewLedger(t)
	const has = "; the ledger has 2026-10-01T00:00:00Z to 2026-10-01T05:00:00Z\n"
	for line, want := range map[string]string{
		"usage --from 2026-09-01 --to 2026-10-01": "nothing from 2026-09-01T00:00:00Z to 2026-10-01T00:00:00Z" + has,
		"usage --from 2026-11-01":                 "nothing from 2026-11-01T00:00:00Z on" + has,
		"usage --to 2026-09-01":                   "nothing before 2026-09-01T00:00:00Z" + has,
		"usage --tenant nobody":                   "nothing found" + has,
		"anomalies --from 2026-11-01":             "nothing from 2026-11-01T00:00:00Z on" + has,
		"invoice list --period 2026-09":           "nothing in 2026-09" + has,
	} {
		got := programtest.Invoke(t, append(strings.Fields(line), "--data", data)...)
		if got.Code != cli.ExitOK || got.Stderr != want || strings.Count(got.Stdout, "\n") > 2 {
			t.Errorf("gputally %s: got %+v, want %q", line, got, want)
		}
		got = programtest.Invoke(t, append(strings.Fields(line), "--data", data, "--output", "csv")...)
		if got.Code != cli.ExitOK || got.Stderr != "" {
			t.Errorf("gputally %s for scripts: got %+v", line, got)
		}
	}
}

func TestInvoicesOfAMonth(t *testing.T) {
	data := programtest.NewLedger(t)
	month := []string{"--data", data, "--period", "2026-10"}
	got := programtest.Invoke(t, append([]string{"invoice", "list", "--output", "csv"}, month...)...)
	const content = "1aafff130f4c02cfac22f8913c849c41002c31b59c2e251b5456e6ea1a5394f4"
	want := programtest.Came(cli.ExitOK,
		"number,kind,tenant,period,status,currency,total,content_sha256\n2026-10-ml-train-r0,invoice,ml-train,2026-10,draft,USD,7.53,"+content+"\n", "")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	got = programtest.Invoke(t, append([]string{"invoice", "list"}, month...)...)
	want = programtest.Came(cli.ExitOK, ""+
		"NUMBER               KIND     TENANT      PERIOD   STATUS                  CURRENCY  TOTAL  CONTENT SHA-256\n"+
		"2026-10-ml-train-r0  invoice  ml-train    2026-10  draft                   USD        7.53  "+content[:16]+"\n"+
		"                              (platform)  2026-10  list value, not billed  USD        4.98\n", "")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("list for reading (-want +got):\n%s", diff)
	}
	show := append([]string{"invoice", "show", "--tenant", "ml-train"}, month...)
	got = programtest.Invoke(t, append(show, "--output", "json")...)
	var document struct {
		Number, Total string
		Buckets       map[string]string
		Lines         []map[string]string
	}
	if err := json.Unmarshal([]byte(got.Stdout), &document); err != nil || got.Code != cli.ExitOK {
		t.Fatalf("show: got %+v, %v", got, err)
	}
	if document.Number != "2026-10-ml-train-r0" || document.Total != "7.53" ||
		document.Buckets["idle"] != "2.000000000" || len(document.Lines) == 0 {
		t.Errorf("document: got %+v", document)
	}
	if again := programtest.Invoke(t, append(show, "--output", "json")...); again != got {
		t.Errorf("shown twice: got %s, then %s", got.Stdout, again.Stdout)
	}
	got = programtest.Invoke(t, show...)
	if got.Code != cli.ExitOK || !strings.Contains(got.Stdout,
		"Invoice 2026-10-ml-train-r0 (draft)") || !strings.HasSuffix(got.Stdout, "\nTotal 7.53 USD\n") {
		t.Errorf("shown for reading: got %+v", got)
	}
	got = programtest.Invoke(t, "invoice", "show", "--tenant", "nobody", "--data", data, "--period", "2026-10")
	if got.Code != cli.ExitFailed || !strings.Contains(got.Stderr, `tenant "nobody" in 2026-10: no invoice`) {
		t.Errorf("a tenant without an invoice: got %+v", got)
	}
	for _, wrong := range []string{"2026-13", "october", "9999-12", "0000-01"} {
		got = programtest.Invoke(t, "invoice", "list", "--data", data, "--period", wrong)
		if got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, "want a month such as 2026-10") {
			t.Errorf("period %s: got %+v", wrong, got)
		}
	}
}

func TestExportWritesTheChargeback(t *testing.T) {
	data := programtest.NewLedger(t)
	got := programtest.Invoke(t, "export", "csv", "--data", data, "--period", "2026-10")
	path := filepath.Join(data, "export", "chargeback-2026-10.csv")
	if got != programtest.Came(cli.ExitOK, path+"\n", "") {
		t.Fatalf("export: got %+v", got)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "2026-10-ml-train-r0") {
		t.Errorf("chargeback: got %q, %v", text, err)
	}
	if got := programtest.Invoke(t, "export", "csv", "--period", "2026-10"); got.Code != cli.ExitUsage {
		t.Errorf("export to nowhere: got %+v", got)
	}
}

func TestExportWritesFocus(t *testing.T) {
	data := programtest.NewLedger(t)
	got := programtest.Invoke(t, "export", "focus", "--data", data, "--period", "2026-10")
	path := filepath.Join(data, "export", "focus-1.2-2026-10.csv")
	if got != programtest.Came(cli.ExitOK, path+"\n", "") {
		t.Fatalf("export: got %+v", got)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	records, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	cost, list := slices.Index(records[0], "BilledCost"), slices.Index(records[0], "x_WholeGPUListCost")
	billed, whole := decimal.Zero, decimal.Zero
	for _, record := range records[1:] {
		billed = billed.Add(decimal.RequireFromString(record[cost]))
		if record[list] != "" {
			whole = whole.Add(decimal.RequireFromString(record[list]))
		}
	}
	// What the month's drafts come to, and with the platform's 4.98 by list.
	if billed.String() != "7.53" || whole.String() != "12.45" {
		t.Errorf("billed %s, list value %s; want 7.53 and 12.45", billed, whole)
	}
	if _, err := os.Stat(filepath.Join(data, "export", "focus-1.2-2026-10.metadata.json")); err != nil {
		t.Error(err)
	}
	got = programtest.Invoke(t, "export", "focus", "--data", data, "--period", "2026-10", "--focus-version", "1.4",
		"--out", filepath.Join(data, "x"))
	if got != programtest.Came(cli.ExitOK, filepath.Join(data, "x", "export", "focus-1.4-2026-10.csv")+"\n", "") {
		t.Errorf("export of 1.4: got %+v", got)
	}
	for _, wrong := range [][]string{{"--focus-version", "1.3"}, {"--focus-version", "1.4", "--validator"}} {
		got := programtest.Invoke(t, append([]string{"export", "focus", "--data", data, "--period", "2026-10"}, wrong...)...)
		if got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, "FOCUS version") {
			t.Errorf("%v: got %+v", wrong, got)
		}
	}
}

func TestDashboardsAreWritten(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new")
	got := programtest.Invoke(t, "dashboards", "write", folder)
	paths := []string{filepath.Join(folder, "gputally.json"), filepath.Join(folder, "gputally.rules.yml")}
	if got != programtest.Came(cli.ExitOK, strings.Join(paths, "\n")+"\n", "") {
		t.Errorf("dashboards write: got %+v", got)
	}
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || info.Size() < 1000 || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: got %v, %v; want it readable for all", path, info, err)
		}
	}
}
