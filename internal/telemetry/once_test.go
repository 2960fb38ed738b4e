package telemetry

import "testing"

func TestOnceBeginsAnewAfterMost(t *testing.T) {
	o := Once[string]{Most: 2}
	for i, c := range []struct {
		key  string
		want bool
	}{{"a", true}, {"a", false}, {"b", true}, {"a", false}, {"c", true}, {"c", false}, {"a", true}, {"c", false}} {
		if got := o.First(c.key); got != c.want {
			t.Errorf("call %d: First(%q) is %v, want %v", i, c.key, got, c.want)
		}
		if len(o.known) > o.Most {
			t.Errorf("call %d: %d keys are remembered, want at most %d", i, len(o.known), o.Most)
		}
	}
}
