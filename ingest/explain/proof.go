package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/gputally/gputally/internal/meter"
)

// addTo adds an entry to the figures that it explains.
// uses is where each leaf and owner stands in it.
func addTo(sum *meter.GPUHour, uses map[track]int, e *entry) {
	sum.UnattributedMJ += e.unattributedMJ
	switch e.bucket {
	case meter.Free:
		sum.Free += e.sliceMS
	case meter.Stranded:
		sum.Stranded += e.sliceMS
	case meter.Unhealthy:
		sum.Unhealthy += e.sliceMS
	case meter.Unobserved:
		sum.Unobserved += e.sliceMS
	}
	if e.owner == 0 {
		sum.PlatformEnergyMJ += e.energyMJ
		return
	}
	key := track{leaf: e.leaf, owner: e.owner}
	i, ok := uses[key]
	if !ok {
		i = len(sum.Owners)
		uses[key] = i
		sum.Owners = append(sum.Owners, meter.OwnerUse{Leaf: e.leaf, Owner: e.owner})
	}
	o := &sum.Owners[i]
	o.Work, o.EnergyMJ = o.Work+e.work, o.EnergyMJ+e.energyMJ
	switch e.bucket {
	case meter.Active:
		o.Active += e.sliceMS
	case meter.Idle:
		o.Idle += e.sliceMS
	case meter.Unproven:
		o.Unproven += e.sliceMS
		if e.inferred {
			o.Inferred += e.sliceMS
		}
	}
}

// figure is one number with its name.
type figure struct {
	name  string
	value int64
}

func (p *Proof) compareFigures(explained, stored []figure) {
	have := map[string]int64{}
	for _, f := range explained {
		have[f.name] += f.value
	}
	want := map[string]int64{}
	var names []string
	for _, f := range stored {
		want[f.name] += f.value
		names = append(names, f.name)
	}
	for _, f := range explained {
		if _, ok := want[f.name]; !ok {
			names = append(names, f.name)
		}
	}
	for _, name := range slices.Compact(names) {
		p.Compared++
		if have[name] != want[name] {
			p.differ(name, strconv.FormatInt(have[name], 10), strconv.FormatInt(want[name], 10))
		}
	}
}

func (p *Proof) differ(name, explained, stored string) {
	p.Differences = append(p.Differences, Difference{name, explained, stored})
}

// platformFigures are those of the GPU itself.
func platformFigures(g *meter.GPUHour) []figure {
	return []figure{
		{"free", g.Free},
		{"stranded", g.Stranded},
		{"unhealthy", g.Unhealthy},
		{"unobserved", g.Unobserved},
		{"platform energy mJ", g.PlatformEnergyMJ},
		{"unattributed energy mJ", g.UnattributedMJ},
	}
}

func ownerFigures(prefix string, active, idle, unproven, inferred, work, energyMJ int64) []figure {
	return []figure{
		{prefix + "active", active},
		{prefix + "idle", idle},
		{prefix + "unproven", unproven},
		{prefix + "inferred", inferred},
		{prefix + "work", work},
		{prefix + "energy mJ", energyMJ},
	}
}

// name is an owner on a leaf as the ledger's row tells them apart.
func (r *raw) name(leaf, profile string, slices int, owner uint64) string {
	return fmt.Sprintf("leaf %s %s/%d, owner %s: ", leaf, profile, slices, cmp.Or(r.owners[owner].Owner, strconv.FormatUint(owner, 16)))
}

func (r *raw) useFigures(owners []meter.OwnerUse) []figure {
	var out []figure
	for _, o := range owners {
		l := r.leaves[o.Leaf]
		if l.Profile == "" {
			l.Slices = 0
		}
		out = append(out, ownerFigures(r.name(l.Leaf, l.Profile, int(l.Slices), o.Owner), o.Active, o.Idle, o.Unproven, o.Inferred, o.Work, o.EnergyMJ)...)
	}
	slices.SortStableFunc(out, func(a, b figure) int { return cmp.Compare(a.name, b.name) })
	return out
}

// step holds the lines up to a segment's end to what the rules give up to there.
func (p *Proof) step(r *raw, s *segment, sum *meter.GPUHour) {
	p.Steps++
	if len(p.Differences) > 0 {
		return // the first is where it went wrong
	}
	at := fmt.Sprintf("up to %s, by stored rows and by the rules: ", clockMS(s.toMS))
	var here Proof
	here.compareFigures(platformFigures(sum), platformFigures(&s.after))
	here.compareFigures(r.useFigures(sum.Owners), r.useFigures(s.after.Owners))
	for _, d := range here.Differences {
		p.differ(at+d.Figure, d.Explained, d.Stored)
	}
}

// compare holds the sums of all lines to the stored row, figure by figure.
func (p *Proof) compare(r *raw, m *mapping, entries []entry, segments []segment, whole meter.GPUHour) {
	row := r.row
	var sum meter.GPUHour
	uses := map[track]int{}
	for i := range entries {
		addTo(&sum, uses, &entries[i])
	}
	var present, attribution int64
	for i := range segments {
		present += segments[i].added.PresentMS
		attribution += segments[i].added.UnobservedAttribution
	}
	stored := meter.GPUHour{
		Free: int64(row.Free), Stranded: int64(row.Stranded), Unhealthy: int64(row.Unhealthy), Unobserved: int64(row.Unobserved),
		PlatformEnergyMJ: row.PlatformEnergyMJ, UnattributedMJ: row.UnattributedMJ,
	}
	p.compareFigures(
		append(platformFigures(&sum), figure{"slices", int64(whole.Slices)}, figure{"present ms", present}, figure{"unobserved for attribution", attribution}),
		append(platformFigures(&stored), figure{"slices", int64(row.Slices)}, figure{"present ms", int64(row.PresentMS)},
			figure{"unobserved for attribution", int64(row.UnobservedAttribution)}))
	var owners []figure
	for i, id := range row.Owner {
		owners = append(owners, ownerFigures(r.name(row.Leaf[i], row.Profile[i], int(row.ProfileSlices[i]), id), int64(row.Active[i]),
			int64(row.Idle[i]), int64(row.Unproven[i]), int64(row.Inferred[i]), int64(row.Work[i]), row.EnergyMJ[i])...)
	}
	slices.SortStableFunc(owners, func(a, b figure) int { return cmp.Compare(a.name, b.name) })
	p.compareFigures(r.useFigures(sum.Owners), owners)
	p.compareFigures([]figure{{"all buckets", allBuckets(&sum)}}, []figure{{"all buckets", int64(row.Slices) * int64(row.PresentMS)}})
	p.compareTenants(r, m)
	if whole.Node != row.Node || whole.Model != row.Model {
		p.differ("node and model", whole.Node+", "+whole.Model, row.Node+", "+row.Model)
	}
	p.conclude()
}

func allBuckets(g *meter.GPUHour) int64 {
	sum := g.Free + g.Stranded + g.Unhealthy + g.Unobserved
	for _, o := range g.Owners {
		sum += o.Active + o.Idle + o.Unproven
	}
	return sum
}

// compareTenants holds the row's names to the mapping of its epoch (R15).
func (p *Proof) compareTenants(r *raw, m *mapping) {
	for i, id := range r.row.Owner {
		tenant, project, ok := m.at(r.row, r.owners[id])
		if !ok {
			continue
		}
		p.Compared++
		if tenant != r.row.Tenant[i] || project != r.row.Project[i] {
			p.differ("tenant and project of "+r.label(id), tenant+", "+project, r.row.Tenant[i]+", "+r.row.Project[i])
		}
	}
}

// conclude says in words whether it adds up.
func (p *Proof) conclude() {
	p.OK = len(p.Differences) == 0
	switch {
	case p.OK:
		p.Text = fmt.Sprintf("the lines sum to the row: %d figures compared, %s of slots held against the rules", p.Compared, count(int64(p.Steps), "run"))
	default:
		p.Text = fmt.Sprintf("THE LINES DON'T SUM TO THE ROW: %d figures differ", len(p.Differences))
	}
}
