package telemetry

// Once recognises repeated keys, so that each is logged once. After Most keys it starts again, so that its memory is
// bounded; a key may then be new again.
type Once[K comparable] struct {
	Most  int
	known map[K]bool
}

// First returns whether a key is new, and stores it.
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
