package invoice

import (
	"context"
	_ "embed"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/fault"
	"github.com/gputally/gputally/internal/store"
)

// ErrNoEvidence means that a line follows from the month as a whole, not from certain GPU-hours.
var ErrNoEvidence = fault.New(fault.NotFound, "the amount follows from the whole month, not from certain GPU-hours")

// noLineError means that a document has no line with the number; it is an ErrNotFound.
type noLineError struct{ line, lines int }

func (e *noLineError) Error() string {
	return fmt.Sprintf("no line %d; it has lines 1 to %d", e.line, e.lines)
}

// Class is fault.NotFound.
func (*noLineError) Class() fault.Class { return fault.NotFound }

func (e *noLineError) Is(target error) bool { return target == ErrNotFound }

// Evidence is the usage from which a line of a decided document follows.
type Evidence struct {
	Number string `json:"number"`
	// LineNumber counts from 1, in the order of the document.
	LineNumber int  `json:"line_number"`
	Line       Line `json:"line"`
	// GPUHours are the ledger's, by hour, GPU and leaf.
	GPUHours []GPUHour `json:"gpu_hours"`
	// Hours is how many UTC hours the document's own copy has, Moved how many of them differ in the ledger now.
	Hours int      `json:"hours"`
	Moved []string `json:"moved_hours"`

	// Tenant and Period are the document's, Book is its price book, Notes are the numbers of the later notes on it.
	Tenant string       `json:"-"`
	Period string       `json:"-"`
	Book   *prices.Book `json:"-"`
	Notes  []string     `json:"-"`
}

// GPUHour is a part of a GPU's hour, with the batches of its node.
type GPUHour struct {
	Hour     string `json:"hour"`
	Cluster  string `json:"cluster"`
	Node     string `json:"node"`
	GPU      string `json:"gpu"`
	Leaf     string `json:"leaf"`
	Profile  string `json:"profile"`
	Project  string `json:"project"`
	User     string `json:"user"`
	Workload string `json:"workload"`
	SliceMS  string `json:"slice_ms"`
	Slices   int    `json:"slices"`
	EnergyMJ string `json:"energy_mj"`
	// Batches is the number of batches that count in the node's hour, BatchHash the SHA-256, in hex, of their hashes
	// in the order of slots. Zero: the raw data of that hour never came as batches.
	Batches   uint64 `json:"batches"`
	BatchHash string `json:"batches_sha256"`

	at    time.Time
	exact *big.Rat // slice_ms ÷ slices; of a line of energy, millijoules
}

// Largest returns the part with the most time, for a line of energy with the most energy; nil: none.
func (e *Evidence) Largest() *GPUHour {
	var largest *GPUHour
	for i := range e.GPUHours {
		if g := &e.GPUHours[i]; largest == nil || g.exact.Cmp(largest.exact) > 0 {
			largest = g
		}
	}
	return largest
}

// Evidence returns the GPU-hours and batches of a line. For a note's line it is the usage from which the note
// follows. Errors: ErrNotFound, ErrNoEvidence.
func (r *Register) Evidence(ctx context.Context, number string, lineNumber int) (*Evidence, error) {
	if err := r.refresh(ctx); err != nil {
		return nil, err
	}
	record, ok := r.invoice(number)
	if !ok {
		return nil, fmt.Errorf("find evidence of invoice %q: %w", number, ErrNotFound)
	}
	evidence, err := r.evidence(ctx, record, lineNumber)
	if err != nil {
		return nil, fmt.Errorf("find evidence of invoice %s: %w", number, err)
	}
	return evidence, nil
}

func (r *Register) evidence(ctx context.Context, record decisions.Invoice, lineNumber int) (*Evidence, error) {
	content, err := r.content(ctx, record)
	if err != nil {
		return nil, err
	}
	document, err := parseDocument(content)
	if err != nil {
		return nil, err
	}
	if lineNumber < 1 || lineNumber > len(document.Lines) {
		return nil, &noLineError{line: lineNumber, lines: len(document.Lines)}
	}
	e := &Evidence{
		Number: record.Number, LineNumber: lineNumber, Line: document.Lines[lineNumber-1],
		GPUHours: []GPUHour{}, Moved: []string{}, Tenant: record.Tenant, Period: record.Period,
	}
	for _, other := range r.chain(record.Tenant, record.Period) {
		if other.Revision > record.Revision {
			e.Notes = append(e.Notes, other.Number)
		}
	}
	from, err := r.source(ctx, record)
	if err != nil {
		return nil, err
	}
	e.Book = from.book
	// What a line rests on is known where it is rated; the document is for people.
	rated, err := r.rateAgain(ctx, record, from)
	if err != nil {
		return nil, err
	}
	if len(rated.Lines) != len(document.Lines) || !rated.Lines[lineNumber-1].Amount.Equal(e.Line.Amount) {
		return nil, fmt.Errorf("line %d does not follow from the document's usage; run gputally verify", lineNumber)
	}
	rests, err := restsOn(from.book, record.Tenant, rated.Lines[lineNumber-1])
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", lineNumber, err)
	}
	copied, err := copiedTime(record.Tenant, from.usage, rests)
	if err != nil {
		return nil, err
	}
	if e.GPUHours, err = ledgerTime(ctx, r.deps.DB, record, rests); err != nil {
		return nil, err
	}
	e.compare(copied)
	return e, addBatches(ctx, r.deps.DB, record, e.GPUHours)
}

// copiedTime returns a line's usage in the copy by hour, in ms of whole GPUs or in millijoules.
func copiedTime(tenant string, usage []byte, rests *basis) (map[time.Time]*big.Rat, error) {
	hours := map[time.Time]*big.Rat{}
	rowsOf, err := rowsByHour(tenant, usage)
	for hour, rows := range rowsOf {
		rests.learn(rows)
		for _, row := range rows {
			if rests.on(row) {
				addTime(hours, hour, rests.amount(row))
			}
		}
	}
	return hours, err
}

func addTime(hours map[time.Time]*big.Rat, hour time.Time, ms *big.Rat) {
	if hours[hour] == nil {
		hours[hour] = new(big.Rat)
	}
	hours[hour].Add(hours[hour], ms)
}

// compare compares the copy with the ledger, hour by hour.
func (e *Evidence) compare(copied map[time.Time]*big.Rat) {
	e.Hours = len(copied)
	now := map[time.Time]*big.Rat{}
	for _, g := range e.GPUHours {
		addTime(now, g.at, g.exact)
	}
	for hour, ms := range copied {
		if now[hour] == nil {
			now[hour] = new(big.Rat)
		}
		now[hour].Sub(now[hour], ms)
	}
	for hour, difference := range now {
		if difference.Sign() != 0 {
			e.Moved = append(e.Moved, hour.Format(time.RFC3339))
		}
	}
	slices.Sort(e.Moved)
}

// tenantTimeSQL: a tenant's parts of GPU-hours. Parameters: tenant, from, to.
//
//go:embed tenant_time.sql
var tenantTimeSQL string

// part is a tenant's part of a GPU-hour in the ledger.
type part struct {
	GPUHour
	model                 string
	slices, profileSlices uint16
	held                  [3]uint64
	energyMJ              int64
}

func ledgerTime(ctx context.Context, db DB, record decisions.Invoice, rests *basis) ([]GPUHour, error) {
	found := []GPUHour{}
	args := append(rangeParameters(record.From, record.To), store.Named("tenant", record.Tenant))
	err := store.Each(ctx, db, "GPU-hours", tenantTimeSQL, args, func(p *part) []any {
		return []any{
			&p.at, &p.Cluster, &p.Node, &p.GPU, &p.model, &p.slices, &p.Leaf, &p.Profile, &p.Project, &p.User, &p.Workload,
			&p.held[0], &p.held[1], &p.held[2], &p.energyMJ, &p.profileSlices,
		}
	}, func(p *part) error {
		g := p.GPUHour
		g.at = g.at.UTC()
		row := rating.Row{
			Hour: g.at, Project: g.Project, Model: p.model, Profile: g.Profile, ProfileSlices: int(p.profileSlices),
			Slices: int(p.slices), EnergyMJ: p.energyMJ,
		}
		if row.SliceMS = rests.heldMS(row, p.held); row.SliceMS == 0 && !(rests.energy && rests.on(row)) {
			return nil
		}
		g.Hour, g.Slices = g.at.Format(time.RFC3339), row.Slices
		g.SliceMS, g.EnergyMJ = strconv.FormatInt(row.SliceMS, 10), strconv.FormatInt(p.energyMJ, 10)
		g.exact = rests.amount(row)
		found = append(found, g)
		return nil
	})
	return found, err
}

// nodeBatchesSQL: the batches that count of a node (R1), by hour. Parameters:
// cluster, node, from, to.
//
//go:embed node_batches.sql
var nodeBatchesSQL string

// addBatches adds the batches to GPU-hours, one node at a time.
func addBatches(ctx context.Context, db DB, record decisions.Invoice, hours []GPUHour) error {
	type place struct{ cluster, node string }
	of := map[place][]*GPUHour{}
	for i := range hours {
		p := place{hours[i].Cluster, hours[i].Node}
		of[p] = append(of[p], &hours[i])
	}
	for p, list := range of {
		if err := nodeBatches(ctx, db, record, p.cluster, p.node, list); err != nil {
			return fmt.Errorf("read batches of node %q: %w", p.node, err)
		}
	}
	return nil
}

func nodeBatches(ctx context.Context, db DB, record decisions.Invoice, cluster, node string, list []*GPUHour) error {
	args := append(rangeParameters(record.From, record.To), store.Named("cluster", cluster), store.Named("node", node))
	fields := func(g *GPUHour) []any { return []any{&g.at, &g.Batches, &g.BatchHash} }
	return store.Each(ctx, db, "batches", nodeBatchesSQL, args, fields, func(of *GPUHour) error {
		for _, g := range list {
			if g.at.Equal(of.at) {
				g.Batches, g.BatchHash = of.Batches, of.BatchHash
			}
		}
		return nil
	})
}

// basis is the usage from which a line of a document follows: usage with the line's key, in hours in which its price
// was in force.
type basis struct {
	book   *prices.Book
	tenant string
	line   rating.Line // as rated from the document's usage
	apart  map[rating.Row]bool
	// energy: the line counts millijoules, not time.
	energy bool
}

// restsOn returns a line's basis; ErrNoEvidence: the month as a whole.
func restsOn(b *prices.Book, tenant string, line rating.Line) (*basis, error) {
	switch line.Effect {
	case rating.EffectList, rating.EffectProfile, rating.EffectIdleSurcharge, rating.EffectTier,
		rating.EffectDiscount, rating.EffectEnergy:
	default:
		return nil, fmt.Errorf("%s: %w", line.Effect, ErrNoEvidence)
	}
	return &basis{
		book: b, tenant: tenant, line: line, apart: map[rating.Row]bool{},
		energy: line.Effect == rating.EffectEnergy,
	}, nil
}

// learn records which keys of an hour of the copy have profiles of two sizes.
func (b *basis) learn(rows []rating.Row) {
	for i, apart := range rating.Apart(rows) {
		if apart {
			b.apart[sizeless(rows[i])] = true
		}
	}
}

// sizeless is a row's key without its profile's size.
func sizeless(row rating.Row) rating.Row {
	return rating.Row{Hour: row.Hour, Project: row.Project, Model: row.Model, Profile: row.Profile, Bucket: row.Bucket}
}

// on returns whether the line follows from a row.
func (b *basis) on(row rating.Row) bool {
	at := b.book.At(row.Hour)
	if at < 0 {
		return false
	}
	version := &b.book.Versions[at]
	model := version.Models[row.Model]
	own, byProfile := model.Profiles[row.Profile]
	reportedAs := ""
	if b.apart[sizeless(row)] {
		reportedAs = row.ReportedAs()
	}
	sameKey := row.Project == b.line.Project && row.Model == b.line.Model && row.Profile == b.line.Profile &&
		row.Bucket == b.line.Bucket && reportedAs == b.line.ReportedAs
	switch b.line.Effect {
	case rating.EffectList:
		return sameKey && model.GPUHour.Equal(b.line.UnitPrice.Decimal)
	case rating.EffectProfile:
		if b.line.Unit == rating.UnitGPUHour { // the list value that the profile's price replaces
			own = model.GPUHour
		}
		return sameKey && byProfile && own.Equal(b.line.UnitPrice.Decimal)
	case rating.EffectIdleSurcharge:
		return sameKey && version.IdleSurcharge.Equal(b.line.UnitPrice.Decimal)
	case rating.EffectTier:
		return row.Model == b.line.Model && !byProfile && b.ofTiers(model)
	case rating.EffectDiscount:
		return version.Tenants[b.tenant].Discount.Neg().Equal(b.line.UnitPrice.Decimal)
	}
	return row.EnergyMJ != 0 && version.KWh.Equal(b.line.UnitPrice.Decimal)
}

// ofTiers returns whether one of a model's tiers is the line's.
func (b *basis) ofTiers(model prices.Model) bool {
	before := model.GPUHour
	for _, tier := range model.Tiers {
		if tier.Above.String() == b.line.TierAbove && tier.GPUHour.Sub(before).Equal(b.line.UnitPrice.Decimal) {
			return true
		}
		before = tier.GPUHour
	}
	return false
}

// amount is a row's part: ms of whole GPUs, or millijoules.
func (b *basis) amount(row rating.Row) *big.Rat {
	if b.energy {
		return new(big.Rat).SetInt64(row.EnergyMJ)
	}
	return big.NewRat(row.SliceMS, int64(row.Slices))
}

// heldMS is the slice_ms of an owner in the line's buckets: active, idle, unproven.
func (b *basis) heldMS(row rating.Row, held [3]uint64) (sliceMS int64) {
	for i, bucket := range []string{"active", "idle", "unproven"} {
		if row.Bucket = bucket; held[i] > 0 && b.on(row) {
			sliceMS += int64(held[i])
		}
	}
	return sliceMS
}
