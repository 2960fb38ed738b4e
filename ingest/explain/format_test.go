package explain

import "testing"

func TestWrapKeepsNumbersWhole(t *testing.T) {
	got := Wrap("the counters moved and moved and moved and moved and moved and moved and moved and moved on 7 560 "+
		"000.000 J", 2)
	want := "  the counters moved and moved and moved and moved and moved and moved and moved and moved on\n  7 560 " +
		"000.000 J\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
