package meter

import (
	"math"

	"github.com/gputally/gputally/internal/wire"
)

// activityScale is the resolution at which activity weighs energy, 1e-9.
const activityScale = 1e9

// splitEnergy books the GPU's energy of the slot onto its rows and answers how
// (R16). It is a pure function of the batch: inferences never move it. load holds,
// per row, the activity of the row's leaf, or a negative number where it is absent.
func splitEnergy(slotStartMS, slotMS int64, g *wire.Gpu, rows []Row, load []float64, owners []string,
	platformOnly bool,
) EnergyWhy {
	total, span, ok := wire.Energy(g, slotMS)
	switch {
	case !ok && g.EnergyMj != nil:
		return EnergyRefused
	case !ok || total == 0:
		return EnergyNone
	case g.EnergyReset:
		rows[0].UnattributedMJ = total
		return EnergyReset
	case 2*span > 3*slotMS:
		rows[0].UnattributedMJ = total
		return EnergyLong
	case platformOnly:
		platformRow(rows).EnergyMJ += total
		return EnergyPlatform
	}
	idle := min(total, idleEnergy(g, span))
	byTime, byWork, how := weights(rows, load)
	switch how {
	case EnergyUnseen:
		platformRow(rows).EnergyMJ += total
	case EnergyNotHeld:
		apportionEnergy(slotStartMS, rows, owners, idle, byTime, 0, nil)
		platformRow(rows).EnergyMJ += total - idle
	default:
		apportionEnergy(slotStartMS, rows, owners, idle, byTime, total-idle, byWork)
	}
	return how
}

// idleEnergy is the idle power over the time that the counter's movement covers.
func idleEnergy(g *wire.Gpu, span int64) int64 {
	watts, ok := within(g.IdleWatts, 0, wire.MaxWatts)
	if !ok {
		return 0
	}
	return int64(math.Round(watts * float64(span)))
}

// platformRow returns the first of the GPU's rows that belongs to the platform, or the
// GPU's first row if none does.
func platformRow(rows []Row) *Row {
	for i := range rows {
		if rows[i].Owner == 0 {
			return &rows[i]
		}
	}
	return &rows[0]
}

// weights returns the weights of the two parts of the energy: slice_ms of all observed
// rows for the idle part, and slice_ms × activity of held rows for the rest, or
// slice_ms alone if one of those activities is absent or all are zero. how names the
// weight of the rest.
func weights(rows []Row, load []float64) (byTime, byWork []uint64, how EnergyWhy) {
	byTime, byWork = make([]uint64, len(rows)), make([]uint64, len(rows))
	how = EnergyByWork
	for i, r := range rows {
		if r.Bucket == Pending || r.Bucket == Unobserved {
			continue
		}
		byTime[i] = uint64(r.SliceMS)
		if r.Owner != 0 {
			if load[i] < 0 {
				how = EnergyByTime
			}
			byWork[i] = uint64(r.SliceMS) * uint64(math.Round(max(load[i], 0)*activityScale))
		}
	}
	if how == EnergyByTime || sum(byWork) == 0 {
		how = EnergyByTime
		for i, r := range rows {
			byWork[i] = 0
			if r.Owner != 0 {
				byWork[i] = byTime[i]
			}
		}
	}
	switch {
	case sum(byTime) == 0:
		how = EnergyUnseen
	case sum(byWork) == 0:
		how = EnergyNotHeld
	}
	return byTime, byWork, how
}

func sum(w []uint64) (s uint64) {
	for _, v := range w {
		s += v
	}
	return s
}

// apportionEnergy splits amount a by weights wa and amount b by weights wb, exactly,
// in one largest-remainder step over the sum of both.
func apportionEnergy(slotStartMS int64, rows []Row, owners []string, a int64, wa []uint64, b int64, wb []uint64) {
	sa, sb := max(sum(wa), 1), max(sum(wb), 1)
	if wb == nil {
		wb = make([]uint64, len(rows))
	}
	one := mul(sa, sb)
	rest := make([]u128, len(rows))
	left := a + b
	for i := range rows {
		qa, ra := mul(uint64(a), wa[i]).divmod(sa)
		qb, rb := mul(uint64(b), wb[i]).divmod(sb)
		rest[i] = mul(ra, sb).add(mul(rb, sa))
		got := int64(qa + qb)
		if rest[i].cmp(one) >= 0 {
			rest[i] = rest[i].sub(one)
			got++
		}
		rows[i].EnergyMJ += got
		left -= got
	}
	platform := func(i int) bool { return rows[i].Owner == 0 }
	for _, i := range largest(slotStartMS, left, owners, platform, func(x, y int) int { return rest[x].cmp(rest[y]) }) {
		rows[i].EnergyMJ++
	}
}
