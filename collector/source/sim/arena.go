package sim

import "github.com/gpuledger/gpuledger/internal/wire"

// arena hands out the messages of one read from chunks: a fleet's slot has
// hundreds of small ones. The chunks live as long as any of their messages.
type arena struct {
	gpus   chunk[wire.Gpu]
	leaves chunk[wire.Leaf]
	holds  chunk[wire.Hold]
	owners chunk[wire.Owner]
	ints   chunk[int64]
	floats chunk[float64]
	words  chunk[uint32]
	runs   []*run // scratch
}

type chunk[T any] struct{ free []T }

func (c *chunk[T]) next() *T { return &c.take(1)[0] }

// take answers n zero values that nobody else has.
func (c *chunk[T]) take(n int) []T {
	if len(c.free) < n {
		c.free = make([]T, max(n, 128))
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
