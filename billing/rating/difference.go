package rating

import "github.com/shopspring/decimal"

// Difference is what a tenant's month rated anew comes to beyond what was
// rated before: a note (R17). Effects, lines, hours and total are differences,
// lines by what they name and cost; the usage hash is the new one's.
func Difference(after, before *Invoice) Invoice {
	return Invoice{
		Tenant: after.Tenant, Period: after.Period, Currency: after.Currency, UsageHash: after.UsageHash,
		GPUHours: after.GPUHours.Sub(before.GPUHours), Effects: after.Effects.sub(before.Effects),
		Total: after.Total.Sub(before.Total), Lines: differenceOfLines(after.Lines, before.Lines),
	}
}

func (e Effects) sub(other Effects) Effects {
	return Effects{
		List: e.List.Sub(other.List), Profile: e.Profile.Sub(other.Profile), Tier: e.Tier.Sub(other.Tier),
		Discount: e.Discount.Sub(other.Discount), FixedDiscount: e.FixedDiscount.Sub(other.FixedDiscount),
		Reservation: e.Reservation.Sub(other.Reservation), IdleSurcharge: e.IdleSurcharge.Sub(other.IdleSurcharge),
		Minimum: e.Minimum.Sub(other.Minimum), Energy: e.Energy.Sub(other.Energy),
		Distribution: e.Distribution.Sub(other.Distribution), Rounding: e.Rounding.Sub(other.Rounding),
	}
}

func differenceOfLines(after, before []Line) []Line {
	sums := ledgerLines{}
	add := func(lines []Line, sign int64) {
		for _, line := range lines {
			sums.add(Charge{
				Effect: line.Effect, Project: line.Project, Model: line.Model, Profile: line.Profile, Bucket: line.Bucket,
				Quantity: line.Quantity.Mul(decimal.NewFromInt(sign)), Unit: line.Unit, UnitPrice: line.UnitPrice,
				Amount: line.Amount.Mul(decimal.NewFromInt(sign)), Detail: line.Detail,
			})
		}
	}
	add(after, 1)
	add(before, -1)
	return sums.sorted()
}
