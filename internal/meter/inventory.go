package meter

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Sighting is where and when a node listed a GPU within one hour; the inventory is
// derived from sightings (R2, R14). FirstMS 0: the node didn't list it.
type Sighting struct {
	HourMS           int64
	GPU, Node, Model string
	FirstMS, LastMS  int64 // start of the first slot, end of the last
	RunFromMS        int64 // where the unbroken run that ends at LastMS began
	SlicesFirst      int   // the capacity at the hour's start
	SlicesLast       int   // in the last record of the hour; 0: unknown
	KindFirst        Kind  // kind of SlicesFirst
	KindLast         Kind  // kind of SlicesLast
}

// Inventory is what is known of the GPUs at one instant.
type Inventory struct{ gpus map[string]*known }

// known is the state of one GPU: its node, since when it is no longer listed, and the
// last unbroken run of slots in which each node listed it.
type known struct {
	node, model string
	lastMS      int64
	slices      int
	kind        Kind
	hourMS      int64 // the latest hour with records, and its capacity
	hour        capacity
	runs        map[string]run
}

// capacityOf is the capacity in an hour, with 0 slices if unknown.
func (k *known) capacityOf(hourMS int64) capacity {
	if k.hourMS != hourMS {
		return capacity{}
	}
	return k.hour
}

type run struct{ fromMS, lastMS int64 }

// NewInventory builds the inventory from sightings of earlier hours, in any order.
func NewInventory(sightings []Sighting) *Inventory {
	inv := &Inventory{gpus: map[string]*known{}}
	ordered := slices.Clone(sightings)
	slices.SortFunc(ordered, func(a, b Sighting) int {
		return cmp.Or(cmp.Compare(a.LastMS, b.LastMS), cmp.Compare(a.RunFromMS, b.RunFromMS), cmp.Compare(b.Node, a.Node))
	})
	for _, s := range ordered {
		if s.LastMS == 0 {
			continue
		}
		k := inv.get(s.GPU)
		k.node, k.lastMS, k.model, k.kind = s.Node, s.LastMS, s.Model, s.KindLast
		if s.HourMS >= k.hourMS {
			k.hourMS, k.hour = s.HourMS, capacity{s.SlicesFirst, s.KindFirst}
		}
		if s.SlicesLast > 0 {
			k.slices = s.SlicesLast
		}
		k.runs[s.Node] = run{s.RunFromMS, s.LastMS}
	}
	return inv
}

func (inv *Inventory) get(gpu string) *known {
	k, ok := inv.gpus[gpu]
	if !ok {
		k = &known{runs: map[string]run{}}
		inv.gpus[gpu] = k
	}
	return k
}

// clone lets an hour look beyond its end without moving the inventory.
func (k *known) clone() *known {
	c := *k
	c.runs = make(map[string]run, len(k.runs))
	for n, r := range k.runs {
		c.runs[n] = r
	}
	return &c
}

// close removes the GPU from its node when it is retired, at atMS (Unix ms). Its
// capacity stays known, because the same GPU may be listed again.
func (k *known) close(atMS int64) {
	maps.DeleteFunc(k.runs, func(_ string, r run) bool { return r.lastMS <= atMS })
	if k.lastMS <= atMS {
		k.node, k.model = "", ""
	}
}

// before is the GPU's state at the first of the slots around an hour, derived from its
// state at the hour's start: the run of each node that had begun by then.
func (k *known) before(startMS int64, slots []int64) *known {
	past := &known{runs: map[string]run{}}
	if len(slots) == 0 || slots[0] >= startMS {
		return past
	}
	for n, r := range k.runs {
		if r.fromMS < slots[0] && r.lastMS > slots[0] {
			past.runs[n] = run{r.fromMS, slots[0]}
		}
	}
	return past
}

// list records that nodes list the GPU in the slot and returns the one that has it:
// the node whose unbroken run began last; of equal ones, the smaller name (R14).
func (k *known) list(nodes []string, startMS, endMS int64) string {
	chosen := ""
	for _, n := range nodes {
		r, ok := k.runs[n]
		if !ok || r.lastMS != startMS {
			r.fromMS = startMS
		}
		r.lastMS = endMS
		k.runs[n] = r
		if chosen == "" {
			chosen = n
			continue
		}
		if c := k.runs[chosen].fromMS; r.fromMS > c || (r.fromMS == c && n < chosen) {
			chosen = n
		}
	}
	k.node, k.lastMS = chosen, endMS
	return chosen
}

// contested adds a finding, at most one per hour, if several nodes list the GPU at
// once or within an hour of each other: GPUs are not moved that fast.
func (h *gpuHour) contested(listers []string, start int64) {
	what := ""
	switch last := h.known; {
	case len(listers) > 1:
		what = fmt.Sprintf("GPU %s is listed by nodes %q", h.gpu, listers)
	case last.node != "" && last.node != listers[0] && start-last.lastMS < HourMS:
		what = fmt.Sprintf("GPU %s is listed by node %q within an hour of node %q", h.gpu, listers[0], last.node)
	default:
		return
	}
	what += ", hour " + time.UnixMilli(h.in.StartMS).UTC().Format(time.RFC3339)
	if !slices.Contains(h.findings, what) {
		h.findings = append(h.findings, what)
	}
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
