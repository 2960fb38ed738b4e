package telemetry

// Once tells what recurs from what is new, so that a log names it once. After Most keys
// it begins anew, so that its memory is bounded; a key may then be new again.
type Once[K comparable] struct {
	Most  int
	known map[K]bool
}

// First reports whether a key is new, and remembers it.
func (o *Once[K]) First(key K) bool {
	if o.known[key] {
		return false
	}
	if o.known == nil || len(o.known) >= o.Most {
		o.known = map[K]bool{}
	}
	o.known[key] = true
	return true
}
