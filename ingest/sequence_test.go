package ingest

import (
	"testing"

	"github.com/gputally/gputally/internal/costtest"
)

// TestH5C4IsNotQuadratic: as many holes as announced gaps, none of which touches
// another, take seconds where each hole meets each gap before it.
func TestH5C4IsNotQuadratic(t *testing.T) {
	const n = 1 << 18
	gaps, of := announced{}, bootKey{"c", 1}
	for i := range uint64(n) {
		gaps[of] = append(gaps[of], seqRange{2 * i, 2 * i})
	}
	costtest.Within(t, costtest.Time, 1<<20, func() {
		gaps.merge()
		for i := range uint64(n) {
			if from := 2 * (n - i); gaps.cover(of, seqRange{from - 2, from - 1}) {
				t.Fatalf("%d was not announced", from-1)
			}
		}
	})
}

// TestAnnouncedGapsCover: what several announcements cover together is covered.
func TestAnnouncedGapsCover(t *testing.T) {
	of := bootKey{"c", 1}
	gaps := announced{of: {{20, 29}, {0, 3}, {4, 9}, {5, 6}, {8, 12}, {20, 20}, {1 << 40, 1 << 40}}}
	gaps.merge()
	for r, want := range map[seqRange]bool{
		{0, 12}: true, {3, 4}: true, {12, 12}: true, {0, 13}: false, {12, 20}: false, {13, 19}: false,
		{20, 29}: true, {19, 20}: false, {29, 30}: false, {1 << 40, 1 << 40}: true, {1 << 40, 1<<40 + 1}: false,
	} {
		if got := gaps.cover(of, r); got != want {
			t.Errorf("%d to %d: %v, want %v", r.from, r.to, got, want)
		}
	}
	if gaps.cover(bootKey{"c", 2}, seqRange{0, 0}) {
		t.Error("another boot's gaps cover")
	}
}
