package sim

import "github.com/gputally/gputally/internal/wire"

// arena hands out the messages of one read from chunks: a fleet's slot has
// hundreds of small ones. The chunks live as long as any of their messages,
// and are sized for the fleet so that a slot mostly needs one of each.
type arena struct {
	gpus   chunk[wire.Gpu]
	leaves chunk[wire.Leaf]
	holds  chunk[wire.Hold]
	owners chunk[wire.Owner]
	ints   chunk[int64]
	floats chunk[float64]
	words  chunk[uint32]
	listed chunk[*wire.Hold]
	runs   []*run // scratch
}

func newArena(f *fleet) *arena {
	boards, leaves := 0, 0
	for i := range f.nodes {
		boards, leaves = boards+len(f.nodes[i].boards), leaves+f.nodes[i].leaves
	}
	lanes := len(f.homes)
	a := &arena{}
	a.gpus.size, a.leaves.size = boards, leaves
	a.holds.size, a.owners.size, a.listed.size = lanes, lanes, 2*lanes
	a.ints.size = 2*boards + 64
	a.floats.size = 13*boards + 7*leaves
	a.words.size = 10*boards + 6*leaves
	return a
}

// chunk allocates size values at a time.
type chunk[T any] struct {
	free []T
	size int
}

func (c *chunk[T]) next() *T { return &c.take(1)[0] }

// take answers n zero values that nobody else has.
func (c *chunk[T]) take(n int) []T {
	if len(c.free) < n {
		c.free = make([]T, max(n, c.size))
	}
	out := c.free[:n:n]
	c.free = c.free[n:]
	return out
}

func (a *arena) int(v int64) *int64 {
	p := a.ints.next()
	*p = v
	return p
}

func (a *arena) float(v float64) *float64 {
	p := a.floats.next()
	*p = v
	return p
}

func (a *arena) word(v uint32) *uint32 {
	p := a.words.next()
	*p = v
	return p
}

// metrics copies field ids, so that the message is wholly the caller's.
func (a *arena) metrics(ids []uint32, values ...float64) ([]uint32, []float64) {
	f, v := a.words.take(len(ids)), a.floats.take(len(values))
	copy(f, ids)
	copy(v, values)
	return f, v
}
