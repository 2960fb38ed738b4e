package plural_test

import (
	"testing"

	"github.com/gputally/gputally/internal/plural"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		n    int
		noun string
		want string
	}{
		{1, "hour", "1 hour"},
		{2, "hour", "2 hours"},
		{0, "batch", "0 batches"},
		{-1, "day", "-1 days"},
		{3, "journal row", "3 journal rows"},
		{2, "entry", "2 entries"},
		{2, "bus", "2 buses"},
		{2, "leaf", "2 leaves"},
		{1, "batch", "1 batch"},
	} {
		if got := plural.Of(c.n, c.noun); got != c.want {
			t.Errorf("Of(%d, %q) = %q, want %q", c.n, c.noun, got, c.want)
		}
	}
	if got, want := plural.Of(uint64(1), "row"), "1 row"; got != want {
		t.Errorf("Of = %q, want %q", got, want)
	}
}
