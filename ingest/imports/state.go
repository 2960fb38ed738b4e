package imports

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/tables"
)

// Store is the part of ClickHouse that the package needs.
type Store interface {
	Select(ctx context.Context, dest any, sql string, args ...any) error
	Insert(ctx context.Context, table string, in proto.Input) error
}

// State is what imports of a source have published for a cluster so far.
type State struct {
	Records []Record

	live           *live // set if the cluster has collectors
	published      map[nodeHour][32]byte
	publishedHours map[int64]bool // hours published, Unix ms
	revision       uint64         // the last run's
}

// RefusedError reports that records can't be imported into a cluster.
type RefusedError struct{ Cluster, Why string }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("import into cluster %q: %s", e.Cluster, e.Why)
}

const selectSlotMS = `SELECT slot_ms FROM slot_lengths WHERE cluster = {cluster:String}`

// Other senders of the cluster's batches: collectors, or batches imported directly.
const selectOthers = `
SELECT collector, count() AS batches, max(slot) AS last FROM batches FINAL
WHERE cluster = {cluster:String} AND status = 'stored' AND NOT startsWith(collector, {prefix:String})
GROUP BY collector ORDER BY batches DESC, collector LIMIT 1`

const selectOtherSources = `
SELECT DISTINCT node, source FROM allocation_hours FINAL
WHERE cluster = {cluster:String} AND source != {source:String} ORDER BY node, source`

const selectAllocations = `
SELECT start_ms, end_ms, part, job, tenant, project, user, account, node, model, devices, milli_gpus
FROM allocations FINAL
WHERE cluster = {cluster:String} AND source = {source:String} AND deleted = 0`

const selectPublished = `
SELECT node, hour, sha256, revision FROM allocation_hours FINAL
WHERE cluster = {cluster:String} AND source = {source:String}`

// Boots of the source, stored or not: a new run's must be later than all.
const selectLastBoot = `
SELECT max(boot_ms) AS boot_ms FROM batches WHERE cluster = {cluster:String} AND collector = {collector:String}`

// Load reads the state of a source. Records replace whole nodes and hours, so there
// may be no other sender for the cluster (R1), unless it has collectors: then the
// records fill what these missed (R18). It returns a RefusedError for a cluster with
// another slot length.
func Load(ctx context.Context, db Store, o *Options) (*State, error) {
	measured, err := findLive(ctx, db, o)
	if err != nil {
		return nil, err
	}
	s := &State{live: measured, published: map[nodeHour][32]byte{}, publishedHours: map[int64]bool{}}
	by := []any{store.Named("cluster", o.Cluster), store.Named("source", o.Source)}
	var records []tables.Allocation
	if err := db.Select(ctx, &records, selectAllocations, by...); err != nil {
		return nil, fmt.Errorf("read allocations of %s: %w", o.Cluster, err)
	}
	for i := range records {
		s.Records = append(s.Records, recordOf(&records[i]))
	}
	var published []struct {
		Node     string    `ch:"node"`
		Hour     time.Time `ch:"hour"`
		Sum      string    `ch:"sha256"`
		Revision uint64    `ch:"revision"`
	}
	if err := db.Select(ctx, &published, selectPublished, by...); err != nil {
		return nil, fmt.Errorf("read published hours of cluster %q: %w", o.Cluster, err)
	}
	for _, r := range published {
		at := nodeHour{r.Node, r.Hour.UnixMilli()}
		s.published[at], s.publishedHours[at.hourMS] = [32]byte([]byte(r.Sum)), true
		s.revision = max(s.revision, r.Revision)
	}
	var boots []struct {
		BootMS uint64 `ch:"boot_ms"`
	}
	if err := db.Select(ctx, &boots, selectLastBoot, store.Named("cluster", o.Cluster),
		store.Named("collector", o.collector())); err != nil {
		return nil, fmt.Errorf("read the last run of %s: %w", o.collector(), err)
	}
	for _, b := range boots {
		s.revision = max(s.revision, b.BootMS)
	}
	return s, nil
}

// findLive returns the cluster if it has collectors; nil: there is no other sender.
func findLive(ctx context.Context, db Store, o *Options) (*live, error) {
	var slots []struct {
		SlotMS uint32 `ch:"slot_ms"`
	}
	if err := db.Select(ctx, &slots, selectSlotMS, store.Named("cluster", o.Cluster)); err != nil {
		return nil, fmt.Errorf("read slot length of %s: %w", o.Cluster, err)
	}
	var others []struct {
		Collector string    `ch:"collector"`
		Batches   uint64    `ch:"batches"`
		Last      time.Time `ch:"last"`
	}
	if err := db.Select(ctx, &others, selectOthers, store.Named("cluster", o.Cluster),
		store.Named("prefix", CollectorPrefix)); err != nil {
		return nil, fmt.Errorf("read collectors of %s: %w", o.Cluster, err)
	}
	if len(others) > 0 {
		x := &others[0]
		why := fmt.Sprintf(
			"collector %q has sent %d batches of it, the last of %s: in such a cluster records only fill gaps, and must name "+
				"node and GPU; else give the history a cluster name of its own",
			x.Collector, x.Batches, x.Last.UTC().Format(time.RFC3339))
		if len(slots) == 0 {
			return nil, &RefusedError{o.Cluster, why}
		}
		return &live{slotMS: int64(slots[0].SlotMS), why: why}, nil
	}
	for _, x := range slots {
		if int64(x.SlotMS) != meter.HourMS {
			return nil, &RefusedError{
				o.Cluster,
				fmt.Sprintf("its slots are %d ms long, but those of allocation records are %d ms; give the history a cluster "+
					"name of "+
					"its own", x.SlotMS, meter.HourMS),
			}
		}
	}
	return nil, nil
}

// Check returns a RefusedError if another source has published for one of the nodes,
// and reads what the collectors of a live cluster missed. Call it before Each.
func (p *Plan) Check(ctx context.Context, db Store) error {
	var others []struct {
		Node   string `ch:"node"`
		Source string `ch:"source"`
	}
	if err := db.Select(ctx, &others, selectOtherSources, store.Named("cluster", p.o.Cluster),
		store.Named("source", p.o.Source)); err != nil {
		return fmt.Errorf("read sources of %s: %w", p.o.Cluster, err)
	}
	for _, x := range others {
		for _, u := range p.units {
			if u.node == x.Node {
				return &RefusedError{
					p.o.Cluster,
					fmt.Sprintf("source %q has records of node %q already: import under that source's name to replace them, or "+
						"name another pool", x.Source, x.Node),
				}
			}
		}
	}
	if p.live == nil {
		return nil
	}
	if err := p.lookAt(ctx, db); err != nil {
		return err
	}
	p.judge()
	return nil
}

const selectArrived = `
SELECT uniqExact(seq) AS arrived FROM batches FINAL
WHERE cluster = {cluster:String} AND status = 'stored' AND collector = {collector:String} AND boot_ms = {boot:UInt64}`

// Arrived returns an error unless all batches of the run are stored. Late batches, for
// hours whose raw was dropped (R3), are not: they stay in late_unprocessed.
func (p *Plan) Arrived(ctx context.Context, db Store, sent int) error {
	var rows []struct {
		Arrived uint64 `ch:"arrived"`
	}
	if err := db.Select(ctx, &rows, selectArrived, store.Named("cluster", p.o.Cluster),
		store.Named("collector", p.o.collector()), store.Named("boot", uint64(p.bootMS))); err != nil {
		return fmt.Errorf("count batches of %s: %w", p.o.collector(), err)
	}
	if got := rows[0].Arrived; got != uint64(sent) {
		return fmt.Errorf(
			"%d of %d batches did not reach the ledger: they are late_unprocessed, where their hours' raw is gone, or dead "+
				"letters", uint64(sent)-got, sent)
	}
	return nil
}

func recordOf(s *tables.Allocation) Record {
	return Record{
		Job: s.Job, Tenant: s.Tenant, Project: s.Project, User: s.User, Account: s.Account, Node: s.Node, Model: s.Model,
		Devices: s.Devices, MilliGPUs: s.MilliGPUs, StartMS: s.StartMS, EndMS: s.EndMS, Part: s.Part,
	}
}

// Save stores what the run has published. Call it after Arrived: an interrupted run is
// repeated from the same state.
func (p *Plan) Save(ctx context.Context, db Store) error {
	var hours []tables.AllocationHour
	for i := range p.published {
		hours = append(hours, tables.AllocationHour{
			Cluster: p.o.Cluster, Source: p.o.Source, Node: p.published[i].node,
			Hour: time.UnixMilli(p.published[i].hourMS).UTC(), SHA256: p.published[i].sum, Revision: uint64(p.bootMS),
		})
	}
	if err := tables.Insert(ctx, db, "allocation_hours", hours...); err != nil {
		return fmt.Errorf("store %d published hours: %w", len(hours), err)
	}
	var records []tables.Allocation
	for i := range p.rows {
		records = append(records, p.allocation(&p.rows[i], 0))
	}
	for i := range p.gone {
		records = append(records, p.allocation(&p.gone[i], 1))
	}
	if err := tables.Insert(ctx, db, "allocations", records...); err != nil {
		return fmt.Errorf("store %d records: %w", len(records), err)
	}
	return nil
}

func (p *Plan) allocation(r *Record, deleted uint8) tables.Allocation {
	return tables.Allocation{
		Cluster: p.o.Cluster, Source: p.o.Source, StartMS: r.StartMS, Record: r.key().record, Part: r.Part,
		EndMS: r.EndMS, Job: r.Job, Tenant: r.Tenant, Project: r.Project, User: r.User, Account: r.Account, Node: r.Node,
		Model: r.Model, Devices: r.Devices, MilliGPUs: r.MilliGPUs, SHA256: r.content(), Revision: uint64(p.bootMS),
		Deleted: deleted,
	}
}
