package episode

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"
)

// Kind is the kind of an episode.
type Kind string

// The kinds of episodes, as written in table anomalies and metrics.
const (
	// IdleAllocation is a leaf held for hours with evidence that no work was done.
	IdleAllocation Kind = "idle_allocation"
	// IdlePattern is the idle allocations of one workload, by name, that recur, in one month.
	IdlePattern Kind = "idle_pattern"
	// OffHoursSpike is work of a tenant outside its working hours, far above its usual
	// amount at such times.
	OffHoursSpike Kind = "off_hours_spike"
	// Unobserved is a node, or several of a cluster at once, of which nothing was observed.
	Unobserved Kind = "unobserved"
	// GPUErrors are errors (XIDs) that a GPU reported.
	GPUErrors Kind = "gpu_errors"
	// WorkWithoutOwner is work on GPUs of a node that nobody held.
	WorkWithoutOwner Kind = "work_without_owner"
	// Telemetry is held time of a node whose signals are missing, single or contradictory.
	Telemetry Kind = "telemetry"
)

// Kinds lists all kinds in the order of reports.
func Kinds() []Kind {
	return []Kind{IdleAllocation, IdlePattern, OffHoursSpike, Unobserved, GPUErrors, WorkWithoutOwner, Telemetry}
}

// places is the number of decimal places of wasted GPU-hours and cost, as in the
// table's Decimal(38, 9).
const places = 9

// Grade says how far an episode is proven.
type Grade string

// The grades.
const (
	Proven    Grade = "proven"    // by the rules that decide the bill
	Suspected Grade = "suspected" // one sign, none against it: the platform's business, without a cost
	None      Grade = "none"      // of devices or telemetry, never a tenant's: without tenant, wasted time and cost
)

// Leaf is a place that an episode is about.
type Leaf struct{ GPU, Leaf string }

func (l Leaf) String() string { return l.GPU + "/" + l.Leaf }

// Episode is time [Start, End) of one kind. An idle allocation has the leaves of one
// workload; an off-hours spike belongs to a tenant, project or user as a whole. One of
// grade None has a node, or GPUs as leaves without a leaf, of which the first is the one
// that it is about; Waste is then the GPU time that was lost, for its severity alone.
type Episode struct {
	Kind     Kind
	Cause    string // what kind of idle time; empty: the kind says it all
	Grade    Grade
	Open     bool // it goes on
	New      bool // of a tenant, project or user that is not known for long
	Leaves   []Leaf
	Cluster  string
	Tenant   string
	Project  string
	Workload string
	User     string
	Node     string    // the last one
	Start    time.Time // UTC, the start of a slot
	End      time.Time // UTC, exclusive

	WastedGPUHours decimal.Decimal // rounded once to 9 places
	WastedCost     decimal.Decimal // at the tenant's prices before the terms of a month, 9 places; suspected: 0
	Currency       string          // empty if no rate was known
	Evidence       string          // why it was found, with its figures

	Known time.Time // of a pattern: the start of the allocation that made it one; of grade None: when it was known
	Least Severity  // reached when it was known, whatever it costs
	// Of a spike: GPU-hours, and the probability of so much or more in its rarest hour. Of grade None: Observed are the
	// GPU-hours that were lost.
	Observed, Expected, Score float64
	Parent                    string // the id of the pattern or outage that it belongs to; empty: none
	Severity                  Severity
	Reached                   Reached
	Silenced                  bool      // somebody muted it: it raises no alert now
	Alerted                   time.Time // when the alert budget let it through; zero: it waits in the table
	Waste                     *Waste    // by hour, with the cost that a suspected finding doesn't show
	Facts                     Facts
}

// Wasted sets the wasted time and its cost. Only proven time has a cost.
func (e *Episode) Wasted(w *Waste) {
	e.Waste, e.WastedGPUHours = w, w.GPUHours()
	if e.Grade == Proven {
		e.WastedCost, e.Currency = w.Cost()
		e.Evidence += w.Note()
	}
	e.Facts.Cost = w.prices(e.Grade)
}

// GPUHours are those that were wasted; of grade None those that were lost.
func (e *Episode) GPUHours() decimal.Decimal {
	if e.Grade == None {
		return decimal.NewFromFloat(e.Observed)
	}
	return e.WastedGPUHours
}

// Subject is the workload, or else the node.
func (e *Episode) Subject() string { return cmp.Or(e.Workload, e.Node) }

// At is the only leaf; of several, or of none, it is empty.
func (e Episode) At() Leaf {
	if len(e.Leaves) != 1 {
		return Leaf{}
	}
	return e.Leaves[0]
}

// AddLeaf adds a place, once.
func (e *Episode) AddLeaf(l Leaf) {
	if !slices.Contains(e.Leaves, l) {
		e.Leaves = append(e.Leaves, l)
	}
}

// ID is 32 hex digits of the SHA-256 of kind, grade, cluster, tenant, project, workload,
// user of a spike, place of grade None, and start. The end is left out, so that an episode keeps its id while it
// goes on.
func (e Episode) ID() string {
	h := sha256.New()
	var word [8]byte
	for _, field := range e.key() {
		// Lengths distinguish ("a", "bc") from ("ab", "c").
		binary.BigEndian.PutUint64(word[:], uint64(len(field)))
		h.Write(word[:])
		h.Write([]byte(field))
	}
	binary.BigEndian.PutUint64(word[:], uint64(e.Start.Unix()))
	h.Write(word[:])
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// key is what tells apart the episodes that begin at the same time. The user of idle
// time may become known later.
func (e Episode) key() []string {
	user := e.User
	if e.Kind != OffHoursSpike {
		user = ""
	}
	key := []string{string(e.Kind), string(e.Grade), e.Cluster, e.Tenant, e.Project, e.Workload, user}
	switch e.Kind {
	case Unobserved, WorkWithoutOwner, Telemetry:
		return append(key, e.Cause, e.Node)
	case GPUErrors: // its cause may become known later
		return append(key, e.Leaves[0].GPU)
	}
	return key
}

// Overlaps reports whether the episode shares time with [from, to).
func (e Episode) Overlaps(from, to time.Time) bool {
	return e.Start.Before(to) && e.End.After(from)
}

// Sort orders episodes by start and what their id is of; no two agree in all of it.
func Sort(episodes []Episode) {
	slices.SortFunc(episodes, func(a, b Episode) int {
		if c := a.Start.Compare(b.Start); c != 0 {
			return c
		}
		return slices.CompareFunc(a.key(), b.key(), strings.Compare)
	})
}

// AlertedText is Alerted as RFC 3339; empty: no alert.
func (e *Episode) AlertedText() string {
	if e.Alerted.IsZero() {
		return ""
	}
	return e.Alerted.UTC().Format(time.RFC3339)
}
