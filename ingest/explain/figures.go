package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/tenants"
)

// figures is the stored row, and nothing else yet.
func (r *raw) figures(m *mapping) *Explanation {
	row := r.row
	e := &Explanation{
		Cluster: row.Cluster, GPU: row.GPU, Node: row.Node, Model: row.Model, Hour: row.Hour, Raw: RawKept,
		Notes: []string{}, Owners: []Owner{}, Leaves: []Leaf{}, Presence: []Stretch{}, Lines: []Line{}, Holds: []Hold{}, Batches: []Batches{},
		Losers: []Loser{}, Events: []Event{}, Energy: Energy{Why: []string{}}, Proof: Proof{Differences: []Difference{}},
	}
	f := Figures{
		Slices: int(row.Slices), GPUSlices: int(row.GPUSlices), PresentMS: int64(row.PresentMS), UntilMS: int64(row.UntilMS),
		CapacitySliceMS: int64(row.Slices) * int64(row.PresentMS), Free: int64(row.Free), Stranded: int64(row.Stranded),
		Unhealthy: int64(row.Unhealthy), Unobserved: int64(row.Unobserved), UnobservedAttribution: int64(row.UnobservedAttribution),
		PlatformEnergyMJ: row.PlatformEnergyMJ, UnattributedMJ: row.UnattributedMJ, EnergyMJ: row.PlatformEnergyMJ + row.UnattributedMJ,
		Epoch: int64(row.Epoch), Inputs: int64(row.Inputs), JournalInputs: int64(r.inputs),
	}
	for i, id := range row.Owner {
		known := r.owners[id]
		o := Owner{
			Leaf: row.Leaf[i], Profile: row.Profile[i], ProfileSlices: int(row.ProfileSlices[i]), Label: r.label(id), ID: known.Owner,
			Facts: known.describe(), Tenant: row.Tenant[i], Project: row.Project[i], Mapping: m.why(row, known, row.Tenant[i]),
			Active: int64(row.Active[i]), Idle: int64(row.Idle[i]), Unproven: int64(row.Unproven[i]), Inferred: int64(row.Inferred[i]),
			Work: int64(row.Work[i]), EnergyMJ: row.EnergyMJ[i],
		}
		e.Owners = append(e.Owners, o)
		f.Active, f.Idle, f.Unproven, f.Inferred = f.Active+o.Active, f.Idle+o.Idle, f.Unproven+o.Unproven, f.Inferred+o.Inferred
		f.EnergyMJ += o.EnergyMJ
	}
	slices.SortStableFunc(e.Owners, func(a, b Owner) int {
		return cmp.Or(cmp.Compare(a.Leaf, b.Leaf), cmp.Compare(a.Label, b.Label), cmp.Compare(a.ID, b.ID))
	})
	e.Figures = f
	return e
}

// leafList are the leaves that raw names, by id.
func (r *raw) leafList() []Leaf {
	out := []Leaf{}
	for _, l := range r.leaves {
		out = append(out, Leaf{l.Leaf, l.describe()})
	}
	slices.SortFunc(out, func(a, b Leaf) int { return cmp.Or(cmp.Compare(a.Leaf, b.Leaf), cmp.Compare(a.Text, b.Text)) })
	return out
}

// label is what people call an owner; a hash where its facts are gone.
func (r *raw) label(owner uint64) string {
	if owner == 0 {
		return ""
	}
	if o, ok := r.owners[owner]; ok {
		return o.label()
	}
	return fmt.Sprintf("owner %016x (facts not kept)", owner)
}

// gone says that the hour's journal is no more, or that a week of raw which it
// rests on is: that has no row left, of holds or of samples. Rows that lack in a
// week of which others are there are damage.
func (r *raw) gone() bool {
	if r.inside == 0 && r.inputs < r.row.Inputs {
		return true
	}
	for _, m := range r.missing {
		if r.keptWeeks[m.week] {
			return false
		}
	}
	return len(r.missing) > 0
}

func (r *raw) goneWhy() string {
	if len(r.missing) == 0 {
		return fmt.Sprintf("%d of the %d journal rows it rests on are left, none of the hour itself", r.inputs, r.row.Inputs)
	}
	return fmt.Sprintf("the journal knows %d batches of it, and their week has no row left", len(r.missing))
}

// mapping is the tenant mapping that the row was published under (R15).
type mapping struct {
	m     *tenants.Mapping // nil: not kept
	epoch uint32
}

func readMapping(ctx context.Context, db Store, row *usageRow) (*mapping, error) {
	var rows []struct {
		Tenants string `ch:"tenants"`
	}
	if err := db.Select(ctx, &rows, selectEpoch, store.Named("epoch", row.Epoch)); err != nil {
		return nil, fmt.Errorf("read epoch %d: %w", row.Epoch, err)
	}
	if len(rows) == 0 {
		return &mapping{epoch: row.Epoch}, nil
	}
	m, err := tenants.Parse(fmt.Sprintf("tenants of epoch %d", row.Epoch), []byte(rows[0].Tenants))
	if err != nil {
		return nil, err
	}
	return &mapping{m: m, epoch: row.Epoch}, nil
}

// at names an owner's tenant and project; ok is false where the mapping isn't kept.
func (m *mapping) at(row *usageRow, o ownerRow) (tenant, project string, ok bool) {
	if m.m == nil {
		return "", "", false
	}
	tenant, project = m.m.At(row.Hour, o.facts())
	return tenant, project, true
}

// why says where the tenant comes from.
func (m *mapping) why(row *usageRow, o ownerRow, tenant string) string {
	facts := o.facts()
	own := "nobody's name: the owner has no tenant, namespace or account"
	switch {
	case facts.Tenant != "":
		own = "the owner's own tenant"
	case facts.Namespace != "":
		own = "the namespace"
	case facts.Account != "":
		own = "the account"
	}
	inForce := false
	if m.m != nil {
		for _, v := range m.m.Versions {
			inForce = inForce || !v.Effective.After(row.Hour)
		}
	}
	switch {
	case m.m == nil:
		return fmt.Sprintf("the mapping of epoch %d is not kept", m.epoch)
	case inForce && tenant == tenants.Unassigned:
		return fmt.Sprintf("R15: no rule of epoch %d's mapping matches", m.epoch)
	case inForce:
		return fmt.Sprintf("R15: by a rule of epoch %d's mapping", m.epoch)
	}
	return fmt.Sprintf("R15: no mapping in epoch %d, so %s", m.epoch, own)
}
