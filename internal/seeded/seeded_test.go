//go:build seeded

package seeded

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gputally/gputally/internal/placetest"
)

// bug is a mistake that one test is there to catch.
type bug struct {
	name     string
	file     string // from the module's root
	old, bad string // old stands in the file exactly once
	pkg      string
	test     string
	says     string // a pattern of what the failing test prints
}

var bugs = []bug{
	{
		name: "commit before insert", file: "ingest/root.go",
		old: "\tfor run := range byWeeks(items) {\n",
		bad: "\tif err := in.commit(ctx, msgs); err != nil {\n\t\treturn err\n\t}\n\tfor run := range byWeeks(items) {\n",
		pkg: "./ingest", test: "TestInsertThenJournalThenCommit", says: `committed 1 before the insert succeeded`,
	},
	{
		name: "journal before rows", file: "ingest/root.go",
		old: "\t\tif err := in.insert(ctx, run); err != nil {\n\t\t\treturn err\n\t\t}\n\t\tif err := in.journal(ctx, " +
			"run); err != nil {\n",
		bad: "\t\tif err := in.journal(ctx, run); err != nil {\n\t\t\treturn err\n\t\t}\n\t\tif err := in.insert(ctx, " +
			"run); err != nil {\n",
		pkg: "./ingest", test: "TestInsertThenJournalThenCommit", says: `order \(-want \+got\)`,
	},
	{
		name: "no fsync of an append", file: "collector/spool/append.go",
		old: "if err := s.active.Sync(); err != nil {", bad: "if err := error(nil); err != nil {",
		pkg: "./collector/spool", test: "TestPowerCut", says: `acknowledged record \d+ is told as spool_corrupt`,
	},
	{
		name: "no fsync of the directory", file: "collector/spool/append.go",
		old: "err = s.opt.fs.SyncDir(s.dir)", bad: "err = nil",
		pkg: "./collector/spool", test: "TestPowerCut", says: `acknowledged record \d+ is told as spool_corrupt`,
	},
	{
		name: "CRC of the data skipped", file: "collector/spool/frame.go",
		old: "if crc32.Checksum(data, castagnoli) != binary.LittleEndian.Uint32(buf[frameDataCRCAt:]) {", bad: "if false {",
		pkg: "./collector/spool", test: "TestBitFlipsInEveryByte", says: `byte \d+: ids \(-want \+got\)`,
	},
	{
		name: "history without a run taken (R18)", file: "ingest/decode.go",
		old: "case it.missing != \"\":", bad: "case false:",
		pkg: "./ingest", test: "TestH6HistoryNobodyOpenedIsNotRewritten", says: `usage \(-want \+got\)`,
	},
	{
		name: "superseded batches counted (R1)", file: "ingest/ledger/winners.go",
		old: "\treturn wins\n", bad: "\treturn true\n",
		pkg: "./ingest", test: "TestWorkedCases", says: `--- FAIL: TestWorkedCases/r1_fewer_owners`,
	},
	{
		name: "a gap of exactly gap_max left out (R10)", file: "internal/meter/gap.go",
		old: "to-from > GapMaxMS", bad: "to-from >= GapMaxMS",
		pkg: "./internal/meter", test: "TestRandomClusters", says: `usage differs \(-slow \+fast\)`,
	},
	{
		name: "records before what is inferred (R18)", file: "internal/meter/fill.go",
		old: "!inferred[r.StartMS] && h.counts", bad: "h.counts",
		pkg: "./internal/meter", test: "TestFills", says: `buckets exceed 7 slices`,
	},
	{
		name: "dead letter not written", file: "ingest/root.go",
		old: "\treturn in.sendDeadLetters(ctx, dead)\n", bad: "\treturn nil\n",
		pkg: "./ingest", test: "TestWhatCannotBeUsedIsDeadLetteredAndTheRestGoesOn", says: `dead letters \(-want \+got\)`,
	},
	{
		name: "quantities rounded half up (R8)", file: "billing/rating/quantity.go",
		old: "twice == denominator && quotient%2 == 1", bad: "twice == denominator",
		pkg: "./billing/rating", test: "TestRaterEqualsTheSlowModel", says: `fewest rows, period`,
	},
	{
		name: "distribution's ties by name, backwards (R17)", file: "billing/rating/distribute.go",
		old: "cmp.Compare(parts[a].tenant, parts[b].tenant)", bad: "cmp.Compare(parts[b].tenant, parts[a].tenant)",
		pkg: "./billing/rating", test: "TestRaterEqualsTheSlowModel", says: `distribution = `,
	},
	{
		name: "just enough supply is too little (R7)", file: "billing/rating/distribute.go",
		old: "have.Cmp(want.Rat()) >= 0", bad: "have.Cmp(want.Rat()) > 0",
		pkg: "./billing/rating", test: "TestRaterEqualsTheSlowModel", says: `reservation = `,
	},
}

// TestSeededBugsAreCaught builds each bug into its package's tests and runs the
// one that is named, as make test does: it has to compile and to fail, with the
// words that are named.
func TestSeededBugsAreCaught(t *testing.T) {
	for _, b := range bugs {
		t.Run(b.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "go", "test", "-short", "-count=1", "-overlay="+b.overlay(t),
				"-run=^"+b.test+"$", b.pkg)
			cmd.Dir = root(t)
			out, err := cmd.CombinedOutput()
			var ended *exec.ExitError
			switch {
			case err == nil:
				t.Fatalf("%s passes with the bug in %s:\n%s", b.test, b.file, out)
			case !errors.As(err, &ended):
				t.Fatal(err)
			case !strings.Contains(string(out), "--- FAIL: "+b.test) || !regexp.MustCompile(b.says).Match(out):
				t.Fatalf("%s did not fail with %q:\n%s", b.test, b.says, out)
			}
			t.Logf("caught by %s %s", b.pkg, b.test)
		})
	}
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := placetest.Root()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// overlay names a file by which go builds the copy with the bug in place of the
// original.
func (b bug) overlay(t *testing.T) string {
	t.Helper()
	original := filepath.Join(root(t), b.file)
	text, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), b.old); n != 1 {
		t.Fatalf("%s holds %d times what the bug replaces, want once:\n%s", b.file, n, b.old)
	}
	dir := t.TempDir()
	bad, list := filepath.Join(dir, filepath.Base(b.file)), filepath.Join(dir, "overlay.json")
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{original: bad}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.WriteFile(bad, []byte(strings.Replace(string(text), b.old, b.bad, 1)), 0o600),
		os.WriteFile(list, replaced, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	return list
}
