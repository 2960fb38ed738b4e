package main

import (
	"encoding/csv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/store/storetest"
)

const casesDir = "../../testdata/contract/cases"

// ledgerLine is one row of usage by hour, GPU and tenant.
type ledgerLine struct {
	Hour, GPU, Tenant string
	SliceMS           [7]int64 // in the order of bucketNames
	EnergyMJ          int64
}

func (l ledgerLine) zero() bool { return l.SliceMS == [7]int64{} && l.EnergyMJ == 0 }

// readLedgerLines reads a CSV of hour, gpu, tenant, the seven buckets and an
// energy, which energyMJ turns into millijoules; rows that are zero throughout
// are left out, as usage does.
func readLedgerLines(t *testing.T, text string, energyMJ func(cell string) int64) (lines []ledgerLine) {
	t.Helper()
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records[1:] {
		l := ledgerLine{Hour: r[0], GPU: r[1], Tenant: r[2], EnergyMJ: energyMJ(r[len(r)-1])}
		for i := range l.SliceMS {
			l.SliceMS[i] = whole(t, r[3+i])
		}
		if !l.zero() {
			lines = append(lines, l)
		}
	}
	return lines
}

func whole(t *testing.T, cell string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(cell, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// printedLines are what usage prints: joules of three places.
func printedLines(t *testing.T, text string) []ledgerLine {
	t.Helper()
	return readLedgerLines(t, text, func(cell string) int64 { return whole(t, strings.ReplaceAll(cell, ".", "")) })
}

// withinTwoMJ forgives what largest remainders that tie may do to energy.
var withinTwoMJ = cmp.FilterPath(
	func(p cmp.Path) bool { return p.Last().String() == ".EnergyMJ" },
	cmp.Comparer(func(a, b int64) bool { return max(a-b, b-a) <= 2 }),
)

// contractCase is a worked case of the rules.
type contractCase struct {
	file  string
	lines []string
	want  []ledgerLine
	span  []string // --from and --to around it
}

func readCase(t *testing.T, name string) contractCase {
	t.Helper()
	file := filepath.Join(casesDir, name+".jsonl")
	batches, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(filepath.Join(casesDir, name+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	c := contractCase{file: file, lines: strings.Split(strings.TrimSpace(string(batches)), "\n")}
	c.want = readLedgerLines(t, string(table), func(cell string) int64 { return whole(t, cell) })
	hours := make([]string, len(c.want))
	for i, l := range c.want {
		hours[i] = l.Hour
	}
	last, err := time.Parse(time.RFC3339, slices.Max(hours))
	if err != nil {
		t.Fatal(err)
	}
	c.span = []string{"--from", slices.Min(hours), "--to", last.Add(time.Hour).Format(time.RFC3339)}
	return c
}

func caseNames(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(casesDir, "*.jsonl"))
	if err != nil || len(files) < 13 {
		t.Fatalf("cases: got %d files, %v; want 13 or more", len(files), err)
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), ".jsonl")
	}
	return files
}

// TestContractCases takes each case the whole way by itself; in a short run a third
// of them, while TestContractCasesTogether takes all.
func TestContractCases(t *testing.T) {
	storetest.Library(t)
	for _, name := range someOf(t, caseNames(t)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, data := readCase(t, name), emptyDataDir(t)
			mustImport(t, data, c.file)
			if diff := cmp.Diff(c.want, printedLines(t, usageCSV(t, data, c.span...)), withinTwoMJ); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
			mustVerify(t, data)
		})
	}
}

// TestContractCasesTogether imports all cases as clusters of one ledger, in a
// wild order and with copies, and then once more.
func TestContractCasesTogether(t *testing.T) {
	storetest.Library(t)
	var lines []string
	var want []ledgerLine
	for _, name := range caseNames(t) {
		c := readCase(t, name)
		lines = append(lines, c.as(name)...)
		for _, l := range c.want {
			l.GPU = name + " " + l.GPU
			want = append(want, l)
		}
	}
	slices.SortFunc(want, func(a, b ledgerLine) int {
		return slices.Compare([]string{a.Hour, a.GPU, a.Tenant}, []string{b.Hour, b.GPU, b.Tenant})
	})
	data, wild := newDataDir(t), shuffled(lines)
	mustImport(t, data, writeLines(t, wild))
	first := usageCSV(t, data)
	if diff := cmp.Diff(want, printedLines(t, first), withinTwoMJ); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	once := mustVerify(t, data)
	mustImport(t, data, writeLines(t, lines))
	if diff := cmp.Diff(first, usageCSV(t, data)); diff != "" {
		t.Errorf("usage after a second import (-first +second):\n%s", diff)
	}
	twice := mustVerify(t, data)
	if got, want := twice.checks["C3"].Checked, int64(len(wild)+len(lines)); got != want {
		t.Errorf("journal: got %d offsets, want %d", got, want)
	}
	if diff := cmp.Diff(once.checks["C6"], twice.checks["C6"]); diff != "" {
		t.Errorf("sums of the ledger (-first +second):\n%s", diff)
	}
}

// as is the case with a cluster and GPUs of its own.
func (c contractCase) as(cluster string) []string {
	lines := make([]string, len(c.lines))
	own := strings.NewReplacer(`"cluster": "k"`, `"cluster": "`+cluster+`"`, `"uuid": "`, `"uuid": "`+cluster+" ")
	for i, line := range c.lines {
		lines[i] = own.Replace(line)
	}
	return lines
}

// shuffled are the lines in a wild order, many of them doubled.
func shuffled(lines []string) []string {
	rng := rand.New(rand.NewPCG(1, 1))
	wild := slices.Clone(lines)
	for range len(lines) / 3 {
		wild = append(wild, lines[rng.IntN(len(lines))])
	}
	rng.Shuffle(len(wild), func(i, j int) { wild[i], wild[j] = wild[j], wild[i] })
	return wild
}
