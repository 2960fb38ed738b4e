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

	"github.com/gpuledger/gpuledger/internal/store/storetest"
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

// copies is how many lines shuffled doubles.
func (c contractCase) copies() int { return len(c.lines)/3 + 1 }

// shuffled is the case's lines in a wild order, a third of them doubled.
func (c contractCase) shuffled(seed uint64) []string {
	rng := rand.New(rand.NewPCG(seed, 1))
	lines := slices.Clone(c.lines)
	for range c.copies() {
		lines = append(lines, c.lines[rng.IntN(len(c.lines))])
	}
	rng.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	return lines
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

// TestContractCases takes each case the whole way, twice: the second time in a
// wild order with copies, into the ledger that has it already.
func TestContractCases(t *testing.T) {
	storetest.Library(t)
	for i, name := range caseNames(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, data := readCase(t, name), newDataDir(t)
			mustImport(t, data, c.file)
			first := usageCSV(t, data, c.span...)
			if diff := cmp.Diff(c.want, printedLines(t, first), withinTwoMJ); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
			once := mustVerify(t, data)
			mustImport(t, data, writeLines(t, c.shuffled(uint64(i))))
			if diff := cmp.Diff(first, usageCSV(t, data, c.span...)); diff != "" {
				t.Errorf("usage after a second import (-first +second):\n%s", diff)
			}
			twice := mustVerify(t, data)
			if got, want := twice.checks["C3"].Checked, int64(2*len(c.lines)+c.copies()); got != want {
				t.Errorf("journal: got %d offsets, want %d", got, want)
			}
			if diff := cmp.Diff(once.checks["C6"], twice.checks["C6"]); diff != "" {
				t.Errorf("sums of the ledger (-first +second):\n%s", diff)
			}
		})
	}
}

// TestContractCasesInAnyOrder imports the cases shuffled and with copies into
// new ledgers.
func TestContractCasesInAnyOrder(t *testing.T) {
	storetest.Library(t)
	for i, name := range caseNames(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, data := readCase(t, name), newDataDir(t)
			mustImport(t, data, writeLines(t, c.shuffled(uint64(100+i))))
			if diff := cmp.Diff(c.want, printedLines(t, usageCSV(t, data, c.span...)), withinTwoMJ); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}
