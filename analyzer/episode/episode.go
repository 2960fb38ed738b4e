package episode

import (
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
	// OffHoursSpike is work of a tenant outside its working hours, far above its usual
	// amount at such times.
	OffHoursSpike Kind = "off_hours_spike"
)

// Kinds lists all kinds in the order of reports.
func Kinds() []Kind { return []Kind{IdleAllocation, OffHoursSpike} }

// places is the number of decimal places of wasted GPU-hours and cost, as in the
// table's Decimal(38, 9).
const places = 9

// Episode is consecutive UTC hours [Start, End) of one kind. An off-hours spike
// belongs to the tenant as a whole: it has no project, workload, node, GPU or leaf.
type Episode struct {
	Kind     Kind
	Cluster  string
	Tenant   string
	Project  string
	Workload string
	User     string
	Node     string
	GPU      string
	Leaf     string
	Start    time.Time // UTC, the start of an hour
	End      time.Time // UTC, exclusive

	WastedGPUHours decimal.Decimal // rounded once to 9 places
	WastedCost     decimal.Decimal // at the model's list rate for a whole GPU, 9 places
	Currency       string          // empty if no rate was known
	Evidence       string          // why it was found, with its figures
}

// ID is 32 hex digits of the SHA-256 of kind, cluster, GPU, leaf, tenant, project,
// workload and start. The end is left out, so that an episode keeps its id while it
// goes on.
func (e Episode) ID() string {
	h := sha256.New()
	var word [8]byte
	for _, field := range []string{string(e.Kind), e.Cluster, e.GPU, e.Leaf, e.Tenant, e.Project, e.Workload} {
		// Lengths distinguish ("a", "bc") from ("ab", "c").
		binary.BigEndian.PutUint64(word[:], uint64(len(field)))
		h.Write(word[:])
		h.Write([]byte(field))
	}
	binary.BigEndian.PutUint64(word[:], uint64(e.Start.Unix()))
	h.Write(word[:])
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Overlaps reports whether the episode shares time with [from, to).
func (e Episode) Overlaps(from, to time.Time) bool {
	return e.Start.Before(to) && e.End.After(from)
}

// Sort orders episodes by start, kind, cluster, tenant, GPU, leaf, project and
// workload; no two episodes agree in all of them.
func Sort(episodes []Episode) {
	slices.SortFunc(episodes, func(a, b Episode) int {
		if c := a.Start.Compare(b.Start); c != 0 {
			return c
		}
		return slices.CompareFunc(sortKey(a), sortKey(b), strings.Compare)
	})
}

func sortKey(e Episode) []string {
	return []string{string(e.Kind), e.Cluster, e.Tenant, e.GPU, e.Leaf, e.Project, e.Workload}
}
