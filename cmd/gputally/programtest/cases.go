package programtest

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
)

// CasesDir is the folder of the contract's cases, relative to a package below cmd/gputally.
const CasesDir = "../../../testdata/contract/cases"

// LedgerLine is one row of usage by hour, GPU and tenant.
type LedgerLine struct {
	Hour, GPU, Tenant string
	SliceMS           [7]int64 // in the order of bucketNames
	EnergyMJ          int64
}

func (l LedgerLine) zero() bool { return l.SliceMS == [7]int64{} && l.EnergyMJ == 0 }

// readLedgerLines reads a CSV with hour, gpu, tenant, the seven buckets and an
// energy, which energyMJ converts to millijoules. It leaves out rows of zeros, as
// usage does.
func readLedgerLines(t *testing.T, text string, energyMJ func(cell string) int64) (lines []LedgerLine) {
	t.Helper()
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records[1:] {
		l := LedgerLine{Hour: r[0], GPU: r[1], Tenant: r[2], EnergyMJ: energyMJ(r[len(r)-1])}
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

// PrintedLines reads what usage prints, with energy in joules with three places.
func PrintedLines(t *testing.T, text string) []LedgerLine {
	t.Helper()
	return readLedgerLines(t, text, func(cell string) int64 { return whole(t, strings.ReplaceAll(cell, ".", "")) })
}

// WithinTwoMJ ignores differences of energy of up to 2 mJ, which ties of largest
// remainders may cause.
var WithinTwoMJ = cmp.FilterPath(
	func(p cmp.Path) bool { return p.Last().String() == ".EnergyMJ" },
	cmp.Comparer(func(a, b int64) bool { return max(a-b, b-a) <= 2 }),
)

// ContractCase is a worked case of the rules.
type ContractCase struct {
	File  string
	Lines []string
	Want  []LedgerLine
	Span  []string // --from and --to around it
}

// ReadCase reads a contract case: batches, and the ledger that must follow from them.
func ReadCase(t *testing.T, name string) ContractCase {
	t.Helper()
	file := filepath.Join(CasesDir, name+".jsonl")
	batches, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(filepath.Join(CasesDir, name+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	c := ContractCase{File: file, Lines: strings.Split(strings.TrimSpace(string(batches)), "\n")}
	c.Want = readLedgerLines(t, string(table), func(cell string) int64 { return whole(t, cell) })
	hours := make([]string, len(c.Want))
	for i, l := range c.Want {
		hours[i] = l.Hour
	}
	last, err := time.Parse(time.RFC3339, slices.Max(hours))
	if err != nil {
		t.Fatal(err)
	}
	c.Span = []string{"--from", slices.Min(hours), "--to", last.Add(time.Hour).Format(time.RFC3339)}
	return c
}

// CaseNames returns the names of the contract's cases.
func CaseNames(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(CasesDir, "*.jsonl"))
	if err != nil || len(files) < 13 {
		t.Fatalf("cases: got %d files, %v; want 13 or more", len(files), err)
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), ".jsonl")
	}
	return files
}

// As returns the case with its own cluster and GPUs.
func (c ContractCase) As(cluster string) []string {
	lines := make([]string, len(c.Lines))
	own := strings.NewReplacer(`"cluster": "k"`, `"cluster": "`+cluster+`"`, `"uuid": "`, `"uuid": "`+cluster+" ")
	for i, line := range c.Lines {
		lines[i] = own.Replace(line)
	}
	return lines
}

// Shuffled returns the lines in random order, many of them twice.
func Shuffled(lines []string) []string {
	rng := rand.New(rand.NewPCG(1, 1))
	wild := slices.Clone(lines)
	for range len(lines) / 3 {
		wild = append(wild, lines[rng.IntN(len(lines))])
	}
	rng.Shuffle(len(wild), func(i, j int) { wild[i], wild[j] = wild[j], wild[i] })
	return wild
}
