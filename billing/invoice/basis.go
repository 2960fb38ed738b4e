package invoice

import (
	"fmt"
	"math/big"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
)

// basis is the usage that a line of a document rests on: of the line's key, and
// of hours in which its price was in force.
type basis struct {
	book   *prices.Book
	tenant string
	line   rating.Line // as the document's usage is rated
	apart  map[rating.Row]bool
	// energy says that millijoules count, not time.
	energy bool
}

// restsOn tells which usage a line rests on; ErrNoEvidence: on the month.
func restsOn(b *prices.Book, tenant string, line rating.Line) (*basis, error) {
	switch line.Effect {
	case rating.EffectList, rating.EffectProfile, rating.EffectIdleSurcharge, rating.EffectTier, rating.EffectDiscount, rating.EffectEnergy:
	default:
		return nil, fmt.Errorf("%s: %w", line.Effect, ErrNoEvidence)
	}
	return &basis{book: b, tenant: tenant, line: line, apart: map[rating.Row]bool{}, energy: line.Effect == rating.EffectEnergy}, nil
}

// learn remembers which keys of an hour of the copy are of profiles of two sizes.
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

// on tells whether the line rests on a row.
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
	sameKey := row.Project == b.line.Project && row.Model == b.line.Model && row.Profile == b.line.Profile && row.Bucket == b.line.Bucket &&
		reportedAs == b.line.ReportedAs
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

// ofTiers tells whether one of a model's tiers is the line's.
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

// heldMS is the slice_ms that an owner held in buckets which the line rests on:
// active, idle, unproven.
func (b *basis) heldMS(row rating.Row, held [3]uint64) (sliceMS int64) {
	for i, bucket := range []string{"active", "idle", "unproven"} {
		if row.Bucket = bucket; held[i] > 0 && b.on(row) {
			sliceMS += int64(held[i])
		}
	}
	return sliceMS
}
