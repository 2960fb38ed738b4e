package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/plural"
	"github.com/gputally/gputally/internal/tables"
)

// InventoryGPU is a GPU that was ever listed, with its state in the inventory.
type InventoryGPU struct {
	Cluster string `ch:"cluster" json:"cluster"`
	GPU     string `ch:"gpu" json:"gpu"`
	Node    string `ch:"node" json:"node"` // the last one that listed it
	Model   string `ch:"model" json:"model"`
	Slices  uint32 `ch:"slices" json:"slices"` // of a pool: milli-GPUs
	Kind    uint8  `ch:"kind" json:"-"`        // meter.Kind, as it was listed last
	FirstMS int64  `ch:"first_ms" json:"-"`    // Unix ms: start of the first slot that lists it
	LastMS  int64  `ch:"last_ms" json:"-"`     // end of the last one
	// Retired is the time of the last retirement, with who did it and why; zero: none.
	Retired time.Time `ch:"retired_at" json:"-"`
	Who     string    `ch:"who" json:"who"`
	Reason  string    `ch:"reason" json:"reason"`
	// LeavesMS is when it leaves the inventory unless it is listed again, Unix ms.
	LeavesMS int64 `ch:"-" json:"-"`
	Present  bool  `ch:"-" json:"present"` // at the cluster's watermark
}

// Inventory returns all GPUs that were ever listed, in order of cluster and id.
func (l *Ledger) Inventory(ctx context.Context) ([]InventoryGPU, error) {
	var gpus []InventoryGPU
	if err := l.deps.Store.Select(ctx, &gpus, selectInventory); err != nil {
		return nil, fmt.Errorf("read inventory: %w", err)
	}
	clusters, err := l.clusters(ctx, selectClusters)
	if err != nil {
		return nil, err
	}
	watermarks := map[string]int64{}
	for i := range gpus {
		g := &gpus[i]
		c := clusterNamed(clusters, g.Cluster)
		if _, ok := watermarks[g.Cluster]; !ok {
			if watermarks[g.Cluster], err = l.watermark(ctx, c); err != nil {
				return nil, err
			}
		}
		g.LeavesMS = g.LastMS + meter.Kind(g.Kind).RetireAfterMS()
		if at := slotStart(c, g.Retired); at >= g.LastMS {
			g.LeavesMS = min(g.LeavesMS, at)
		}
		g.Present = g.LeavesMS > watermarks[g.Cluster]
	}
	return gpus, nil
}

// clusters reads clusters, ascending by name.
func (l *Ledger) clusters(ctx context.Context, sql string) (all []cluster, err error) {
	if err := l.deps.Store.Select(ctx, &all, sql); err != nil {
		return nil, fmt.Errorf("read clusters: %w", err)
	}
	return all, nil
}

// clusterNamed returns the cluster with a name, or the zero cluster.
func clusterNamed(all []cluster, name string) cluster {
	i := slices.IndexFunc(all, func(c cluster) bool { return c.Name == name })
	if i < 0 {
		return cluster{}
	}
	return all[i]
}

// watermark is the cluster's watermark (see past) in Unix ms; 0: its journal is empty.
func (l *Ledger) watermark(ctx context.Context, c cluster) (int64, error) {
	hours, err := l.journalHours(ctx, c, everything)
	if hours, _ = l.past(c, hours); err != nil || len(hours) == 0 {
		return 0, err
	}
	return hours[len(hours)-1].EndMS, nil
}

// Retirement removes a GPU from the inventory before it would leave by itself.
type Retirement struct {
	Cluster     string // empty: the cluster that has the GPU
	GPU         string
	At          time.Time
	Who, Reason string
}

// NotRetirable reports that the requested retirement is not possible.
type NotRetirable struct{ GPU, Why string }

func (e *NotRetirable) Error() string { return fmt.Sprintf("retire GPU %q: %s", e.GPU, e.Why) }

// Retire removes a GPU from the inventory at the start of the slot that contains r.At,
// and returns that instant (R2). Its later hours become dirty, and the next pass
// recomputes them without it. A GPU that is listed again returns to the inventory.
func (l *Ledger) Retire(ctx context.Context, r Retirement) (time.Time, error) {
	refuse := func(format string, args ...any) (time.Time, error) {
		return time.Time{}, &NotRetirable{r.GPU, fmt.Sprintf(format, args...)}
	}
	if r.Reason == "" || r.Who == "" {
		return refuse("who %q and reason %q: both must be given", r.Who, r.Reason)
	}
	g, err := l.gpuToRetire(ctx, r)
	if err != nil {
		return time.Time{}, err
	}
	clusters, err := l.clusters(ctx, selectClusters)
	if err != nil {
		return time.Time{}, err
	}
	at, last := slotStart(clusterNamed(clusters, g.Cluster), r.At), time.UnixMilli(g.LastMS).UTC().Format(time.RFC3339)
	leaves := time.UnixMilli(g.LeavesMS).UTC()
	switch now := l.deps.Clock.Now(); {
	case r.At.After(now):
		return refuse("at %s: must not be in the future (now %s)", r.At.UTC().Format(time.RFC3339),
			now.UTC().Format(time.RFC3339))
	case at < g.LastMS:
		return refuse("at %s: node %s listed the GPU until %s, and a listed GPU can't be retired; choose that time or a "+
			"later one", r.At.UTC().Format(time.RFC3339), g.Node, last)
	case at >= g.LeavesMS:
		return refuse("at %s: the GPU left the inventory at %s already (last listed until %s)",
			r.At.UTC().Format(time.RFC3339), leaves.Format(time.RFC3339), last)
	}
	weeks, err := ReadRawWeeks(ctx, l.deps.Store)
	if err != nil {
		return time.Time{}, err
	}
	effective := time.UnixMilli(at).UTC()
	if weeks.gone(effective.Truncate(time.Hour)) {
		return refuse("at %s: the raw of that week was dropped, so its hours can't be recomputed; choose a time in a "+
			"week that has its raw", effective.Format(time.RFC3339))
	}
	r.Cluster, r.At = g.Cluster, effective
	return effective, l.insertRetirement(ctx, r)
}

// gpuToRetire finds the GPU to retire.
func (l *Ledger) gpuToRetire(ctx context.Context, r Retirement) (*InventoryGPU, error) {
	gpus, err := l.Inventory(ctx)
	if err != nil {
		return nil, err
	}
	var found *InventoryGPU
	for i := range gpus {
		g := &gpus[i]
		if g.GPU != r.GPU || (r.Cluster != "" && g.Cluster != r.Cluster) {
			continue
		}
		if found != nil {
			return nil, &NotRetirable{r.GPU, fmt.Sprintf("both cluster %q and cluster %q have it: name the cluster",
				found.Cluster, g.Cluster)}
		}
		found = g
	}
	if found == nil {
		return nil, &NotRetirable{r.GPU, fmt.Sprintf("the inventory has no such GPU (it lists %s)",
			plural.Of(len(gpus), "GPU"))}
	}
	return found, nil
}

func (l *Ledger) insertRetirement(ctx context.Context, r Retirement) error {
	row := tables.Retirement{
		Cluster: r.Cluster, GPU: r.GPU, At: r.At.UTC(), Who: r.Who, Reason: r.Reason,
		RecordedAt: l.deps.Clock.Now().UTC(),
	}
	if err := tables.Insert(ctx, l.deps.Store, "retirements", row); err != nil {
		return fmt.Errorf("record retirement of GPU %q: %w", r.GPU, err)
	}
	return nil
}
