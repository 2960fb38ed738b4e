package meter_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSlowModelWorkedCases holds the slow model itself to the worked cases.
func TestSlowModelWorkedCases(t *testing.T) {
	files, err := filepath.Glob("../../testdata/contract/cases/*.jsonl")
	if err != nil || len(files) < 13 {
		t.Fatalf("worked cases: %d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			got := slowUsage(readBatches(t, file))
			want := readUsage(t, strings.TrimSuffix(file, ".jsonl")+".csv")
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(usage{}, usageKey{})); diff != "" {
				t.Errorf("usage differs (-want +got):\n%s", diff)
			}
		})
	}
}
