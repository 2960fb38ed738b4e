package explain

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/store"
)

// slotKey is one slot of one node.
type slotKey struct {
	node    string
	startMS int64
}

// raw is all that is stored of one GPU around one hour.
type raw struct {
	row    *usageRow
	slotMS int64
	inputs uint64 // journal rows that the hour depends on now
	inside uint64 // of them, in the hour itself

	sightings   []meter.Sighting // of the day before the hour
	retirements []retirementRow
	firstSeenMS int64 // Unix ms of the GPU's first slot ever; 0: not known
	batches     []batchRow
	winners     map[slotKey]*batchRow
	nodes       map[string][]meter.NodeSlot
	records     map[string][]meter.Record
	fills       map[string][]meter.Record // of slots that only allocation records tell of (R18)
	missing     []missingBatch            // of the winners, without all the rows that the journal promised
	keptWeeks   map[int64]bool            // weeks, by weekOf, of which any row of raw is there
	samples     map[slotKey]map[string]sampleRow
	events      []eventRow
	leaves      map[uint64]leafRow
	owners      map[uint64]ownerRow
}

// missingBatch is a batch of which raw has fewer rows than promised.
type missingBatch struct {
	text string
	week int64
}

// weekOf numbers the Mondays, which raw is partitioned by.
func weekOf(at time.Time) int64 {
	const day, mondayOfEpoch = 24 * time.Hour, 3 // 1970-01-01 was a Thursday
	return (at.UnixMilli()/day.Milliseconds() + mondayOfEpoch) / 7
}

// reader reads one hour of one GPU.
type reader struct {
	db       Store
	out      *raw
	from, to time.Time // of the slots that the hour depends on
	nodes    []string
}

func readRaw(ctx context.Context, db Store, row *usageRow) (*raw, error) {
	r := &reader{db: db, nodes: []string{}, out: &raw{
		row: row, winners: map[slotKey]*batchRow{}, nodes: map[string][]meter.NodeSlot{}, records: map[string][]meter.Record{},
		samples: map[slotKey]map[string]sampleRow{}, leaves: map[uint64]leafRow{}, owners: map[uint64]ownerRow{},
		keptWeeks: map[int64]bool{}, fills: map[string][]meter.Record{},
	}}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"slot length", r.readSlotLength},
		{"sightings", r.readSightings},
		{"retirements", r.readRetirements},
		{"journal", r.readJournal},
		{"holds", r.readHolds},
		{"samples", r.readSamples},
		{"events", r.readEvents},
		{"leaves and owners", r.readNames},
	} {
		if err := step.do(ctx); err != nil {
			return nil, fmt.Errorf("read %s of GPU %s, hour %s: %w", step.what, row.GPU, stamp(row.Hour), err)
		}
	}
	return r.out, nil
}

func (r *reader) readSlotLength(ctx context.Context) error {
	var rows []struct {
		SlotMS uint32 `ch:"slot_ms"`
	}
	cluster := r.out.row.Cluster
	if err := r.db.Select(ctx, &rows, selectSlotMS, store.Named("cluster", cluster)); err != nil {
		return err
	}
	if len(rows) == 0 || rows[0].SlotMS == 0 {
		return fmt.Errorf("cluster %q has no slot length", cluster)
	}
	r.out.slotMS = int64(rows[0].SlotMS)
	gap := time.Duration(meter.GapMaxMS) * time.Millisecond
	r.from = r.out.row.Hour.Add(-gap).Truncate(time.Duration(r.out.slotMS) * time.Millisecond)
	r.to = r.out.row.Hour.Add(time.Hour + gap)
	return nil
}

func (r *reader) args(more ...any) []any {
	row := r.out.row
	return append([]any{
		store.Named("cluster", row.Cluster), store.Named("gpu", row.GPU), store.Named("from", r.from), store.Named("to", r.to),
		store.Named("nodes", r.nodes),
	}, more...)
}

// dayBack is how far back the inventory of an hour reaches.
const dayBack = time.Duration(meter.RetireAfterMS) * time.Millisecond

func (r *reader) readSightings(ctx context.Context) error {
	row := r.out.row
	var rows []sightingRow
	if err := r.db.Select(ctx, &rows, selectSightings, store.Named("cluster", row.Cluster), store.Named("gpu", row.GPU),
		store.Named("from", row.Hour.Add(-dayBack-time.Hour)), store.Named("to", row.Hour)); err != nil {
		return err
	}
	for _, s := range rows {
		r.out.sightings = append(r.out.sightings, s.sighting())
		if s.LastMS > 0 {
			r.nodes = append(r.nodes, s.Node)
		}
	}
	var first []struct {
		FirstMS int64  `ch:"earliest_ms"`
		Seen    uint64 `ch:"seen"`
	}
	if err := r.db.Select(ctx, &first, selectFirstSeen, store.Named("cluster", row.Cluster), store.Named("gpu", row.GPU)); err != nil {
		return err
	}
	if len(first) > 0 && first[0].Seen > 0 {
		r.out.firstSeenMS = first[0].FirstMS
	}
	return nil
}

func (r *reader) readRetirements(ctx context.Context) error {
	row := r.out.row
	if err := r.db.Select(ctx, &r.out.retirements, selectRetirements, store.Named("cluster", row.Cluster), store.Named("gpu", row.GPU)); err != nil {
		return err
	}
	for i := range r.out.retirements {
		at := r.out.retirements[i].At.UnixMilli()
		r.out.retirements[i].cutMS = at - at%r.out.slotMS
	}
	return nil
}

func (r *reader) readJournal(ctx context.Context) error {
	var listing []struct {
		Node string `ch:"node"`
	}
	if err := r.db.Select(ctx, &listing, selectNodes, r.args()...); err != nil {
		return err
	}
	for _, n := range listing {
		r.nodes = append(r.nodes, n.Node)
	}
	slices.Sort(r.nodes)
	r.nodes = slices.Compact(r.nodes)
	hour := r.out.row.Hour
	var inputs []struct {
		Inputs uint64 `ch:"inputs"`
		Inside uint64 `ch:"inside"`
	}
	if err := r.db.Select(ctx, &inputs, selectInputs, store.Named("cluster", r.out.row.Cluster), store.Named("from", hour.Add(-dayBack)),
		store.Named("to", r.to), store.Named("hour", hour), store.Named("end", hour.Add(time.Hour))); err != nil {
		return err
	}
	var closings []struct {
		Closings uint64 `ch:"closings"`
	}
	if err := r.db.Select(ctx, &closings, selectClosings, store.Named("cluster", r.out.row.Cluster), store.Named("from", hour.Add(-dayBack)),
		store.Named("to", hour.Add(time.Hour))); err != nil {
		return err
	}
	r.out.inputs, r.out.inside = inputs[0].Inputs+closings[0].Closings, inputs[0].Inside
	if err := r.db.Select(ctx, &r.out.batches, selectBatches, r.args()...); err != nil {
		return err
	}
	r.out.pickWinners()
	return nil
}

// pickWinners chooses the batch of each (node, slot) by its rank (R1).
func (r *raw) pickWinners() {
	for i := range r.batches {
		b := &r.batches[i]
		key := slotKey{b.Node, b.slotMS()}
		if old := r.winners[key]; old == nil || b.rank().Compare(old.rank()) > 0 {
			r.winners[key] = b
		}
	}
	for i := range r.batches {
		if b := &r.batches[i]; r.winners[slotKey{b.Node, b.slotMS()}] == b {
			r.nodes[b.Node] = append(r.nodes[b.Node], b.nodeSlot())
		}
	}
}

// readHolds reads the rows of the winning batches and holds their number to
// what the journal promised.
func (r *reader) readHolds(ctx context.Context) error {
	var found []foundRow
	if err := r.db.Select(ctx, &found, selectFound, r.args()...); err != nil {
		return err
	}
	have := make(map[uint64]uint32, len(found))
	for _, f := range found {
		have[f.Batch] = f.Found
	}
	for i := range r.out.batches {
		b := &r.out.batches[i]
		r.out.keptWeeks[weekOf(b.Slot)] = r.out.keptWeeks[weekOf(b.Slot)] || have[b.Batch] > 0
		if r.out.wins(b) && have[b.Batch] != b.HoldRows {
			r.out.missing = append(r.out.missing, missingBatch{week: weekOf(b.Slot), text: fmt.Sprintf(
				"batch %016x of node %s, slot %s, has %d of %d rows", b.Batch, b.Node, stamp(b.Slot.UTC()), have[b.Batch], b.HoldRows)})
		}
	}
	var rows []holdRow
	if err := r.db.Select(ctx, &rows, selectHolds, r.args()...); err != nil {
		return err
	}
	for i := range rows {
		h := &rows[i]
		at := slotKey{h.Node, h.Slot.UnixMilli()}
		w := r.out.winners[at]
		if w == nil || w.Batch != h.Batch {
			continue
		}
		into := r.out.records
		if w.fills() {
			into = r.out.fills
		}
		records := into[h.Node]
		if n := len(records); n > 0 && records[n-1].StartMS == at.startMS {
			records[n-1].Rows = append(records[n-1].Rows, h.row())
			continue
		}
		into[h.Node] = append(records, meter.Record{
			StartMS: at.startMS, Slices: int(h.Slices), Kind: meter.Kind(h.Kind), Model: h.Model, Rows: []meter.Row{h.row()},
		})
	}
	return nil
}

func (r *raw) wins(b *batchRow) bool { return r.winners[slotKey{b.Node, b.slotMS()}] == b }

func (r *reader) readSamples(ctx context.Context) error {
	var rows []sampleRow
	if err := r.db.Select(ctx, &rows, selectSamples, r.args()...); err != nil {
		return err
	}
	for _, s := range rows {
		key := slotKey{s.Node, s.Slot.UnixMilli()}
		r.out.keptWeeks[weekOf(s.Slot)] = true
		if w := r.out.winners[key]; w == nil || w.Rev != s.Rev {
			continue // of a batch that lost
		}
		if r.out.samples[key] == nil {
			r.out.samples[key] = map[string]sampleRow{}
		}
		r.out.samples[key][s.Device] = s
	}
	return nil
}

func (r *reader) readEvents(ctx context.Context) error {
	var rows []eventRow
	hour := r.out.row.Hour
	if err := r.db.Select(ctx, &rows, selectEvents, store.Named("cluster", r.out.row.Cluster), store.Named("gpu", r.out.row.GPU),
		store.Named("nodes", r.nodes), store.Named("from", hour), store.Named("to", hour.Add(time.Hour))); err != nil {
		return err
	}
	winning := map[uint64]bool{}
	for _, w := range r.out.winners {
		winning[w.Batch] = true
	}
	for _, e := range rows {
		if winning[e.Batch] {
			r.out.events = append(r.out.events, e)
		}
	}
	return nil
}

// namesPerQuery keeps a query's parameter, which travels in a URL, short.
const namesPerQuery = 2000

func (r *reader) readNames(ctx context.Context) error {
	leaves, owners := map[uint64]bool{}, map[uint64]bool{}
	for _, of := range []map[string][]meter.Record{r.out.records, r.out.fills} {
		for _, records := range of {
			for i := range records {
				for _, row := range records[i].Rows {
					leaves[row.Leaf], owners[row.Owner] = true, true
				}
			}
		}
	}
	for _, o := range r.out.row.Owner {
		owners[o] = true
	}
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(leaves)), namesPerQuery) {
		var rows []leafRow
		if err := r.db.Select(ctx, &rows, selectLeaves, store.Named("ids", ids)); err != nil {
			return err
		}
		for _, l := range rows {
			r.out.leaves[l.ID] = l
		}
	}
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(owners)), namesPerQuery) {
		var rows []ownerRow
		if err := r.db.Select(ctx, &rows, selectOwners, store.Named("ids", ids)); err != nil {
			return err
		}
		for _, o := range rows {
			r.out.owners[o.ID] = o
		}
	}
	return nil
}
