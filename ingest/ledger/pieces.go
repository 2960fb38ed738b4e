package ledger

import (
	"cmp"
	"slices"

	"github.com/gputally/gputally/internal/meter"
)

// hourPieces adds up the pieces of one GPU's hour, in order of time.
type hourPieces struct {
	row       meter.GPUHour
	sightings []meter.Sighting
}

func (p *hourPieces) add(res meter.HourResult) {
	for i := range res.GPUs {
		p.addRow(res.GPUs[i])
	}
	for _, s := range res.Sightings {
		p.addSighting(s)
	}
}

// addRow takes the hour's capacity from its first piece: slices that are fewer
// in a later one are stranded; where there are more, nothing is known of it.
func (p *hourPieces) addRow(g meter.GPUHour) {
	if p.row.PresentMS == 0 {
		p.row = g
		return
	}
	all := int64(p.row.Slices) * g.PresentMS
	p.row.PresentMS += g.PresentMS
	p.row.Node, p.row.Model = g.Node, g.Model
	p.row.UnattributedMJ += g.UnattributedMJ
	if g.Slices > p.row.Slices {
		p.row.Unobserved += all
		p.row.PlatformEnergyMJ += g.PlatformEnergyMJ
		for _, u := range g.Owners {
			p.row.PlatformEnergyMJ += u.EnergyMJ
		}
		return
	}
	p.row.Free += g.Free
	p.row.Stranded += g.Stranded + all - int64(g.Slices)*g.PresentMS
	p.row.Unhealthy += g.Unhealthy
	p.row.Unobserved += g.Unobserved
	p.row.UnobservedAttribution += g.UnobservedAttribution
	p.row.PlatformEnergyMJ += g.PlatformEnergyMJ
	p.addOwners(g.Owners)
}

func (p *hourPieces) addOwners(owners []meter.OwnerUse) {
	for _, u := range owners {
		i, ok := slices.BinarySearchFunc(p.row.Owners, u, func(a, b meter.OwnerUse) int {
			return cmp.Or(cmp.Compare(a.Leaf, b.Leaf), cmp.Compare(a.Owner, b.Owner))
		})
		if !ok {
			p.row.Owners = slices.Insert(p.row.Owners, i, u)
			continue
		}
		o := &p.row.Owners[i]
		o.Active += u.Active
		o.Idle += u.Idle
		o.Unproven += u.Unproven
		o.Inferred += u.Inferred
		o.Work += u.Work
		o.EnergyMJ += u.EnergyMJ
	}
}

func (p *hourPieces) addSighting(s meter.Sighting) {
	i := slices.IndexFunc(p.sightings, func(o meter.Sighting) bool { return o.Node == s.Node })
	if i < 0 {
		p.sightings = append(p.sightings, s)
		return
	}
	s.FirstMS, s.SlicesFirst = p.sightings[i].FirstMS, p.sightings[i].SlicesFirst
	p.sightings[i] = s
}
