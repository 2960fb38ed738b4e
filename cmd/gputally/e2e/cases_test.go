package e2e

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/store/storetest"
)

// TestContractCases takes each case the whole way by itself; in a short run a third
// of them, while TestContractCasesTogether takes all.
func TestContractCases(t *testing.T) {
	storetest.Library(t)
	for _, name := range programtest.SomeOf(t, programtest.CaseNames(t)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, data := programtest.ReadCase(t, name), programtest.EmptyDataDir(t)
			programtest.MustImport(t, data, c.File)
			if diff := cmp.Diff(c.Want, programtest.PrintedLines(t, programtest.UsageCSV(t, data, c.Span...)),
				programtest.WithinTwoMJ); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
			programtest.MustVerify(t, data)
		})
	}
}

// TestContractCasesTogether imports all cases as clusters of one ledger, in a
// wild order and with copies, and then once more.
func TestContractCasesTogether(t *testing.T) {
	storetest.Library(t)
	var lines []string
	var want []programtest.LedgerLine
	for _, name := range programtest.CaseNames(t) {
		c := programtest.ReadCase(t, name)
		lines = append(lines, c.As(name)...)
		for _, l := range c.Want {
			l.GPU = name + " " + l.GPU
			want = append(want, l)
		}
	}
	slices.SortFunc(want, func(a, b programtest.LedgerLine) int {
		return slices.Compare([]string{a.Hour, a.GPU, a.Tenant}, []string{b.Hour, b.GPU, b.Tenant})
	})
	data, wild := programtest.NewDataDir(t), programtest.Shuffled(lines)
	programtest.MustImport(t, data, programtest.WriteLines(t, wild))
	first := programtest.UsageCSV(t, data)
	if diff := cmp.Diff(want, programtest.PrintedLines(t, first), programtest.WithinTwoMJ); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	once := programtest.MustVerify(t, data)
	programtest.MustImport(t, data, programtest.WriteLines(t, lines))
	if diff := cmp.Diff(first, programtest.UsageCSV(t, data)); diff != "" {
		t.Errorf("usage after a second import (-first +second):\n%s", diff)
	}
	twice := programtest.MustVerify(t, data)
	if got, want := twice.Checks["C3"].Checked, int64(len(wild)+len(lines)); got != want {
		t.Errorf("journal: got %d offsets, want %d", got, want)
	}
	if diff := cmp.Diff(once.Checks["C6"], twice.Checks["C6"]); diff != "" {
		t.Errorf("sums of the ledger (-first +second):\n%s", diff)
	}
}
