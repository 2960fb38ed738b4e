package meter_test

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWorkedCases holds the rules to the worked cases of the contract.
func TestWorkedCases(t *testing.T) {
	files, err := filepath.Glob("../../testdata/contract/cases/*.jsonl")
	if err != nil || len(files) < 13 {
		t.Fatalf("worked cases: %d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			got, _ := computeCluster(t, readBatches(t, file))
			want := readUsage(t, strings.TrimSuffix(file, ".jsonl")+".csv")
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(usage{}, usageKey{})); diff != "" {
				t.Errorf("usage differs (-want +got):\n%s", diff)
			}
		})
	}
}

func readUsage(t *testing.T, path string) map[usageKey]usage {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	out := map[usageKey]usage{}
	for _, r := range rows[1:] {
		var v [8]int64
		for i := range v {
			if v[i], err = strconv.ParseInt(r[3+i], 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		out[usageKey{r[0], r[1], r[2]}] = usage{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]}
	}
	return out
}
