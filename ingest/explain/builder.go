package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/tables"
	"github.com/gputally/gputally/internal/tenants"
)

// builder makes the explanation of a row from the recomputed hour.
type builder struct {
	*Explanation
	row        *tables.UsageHour
	recomputed *ledger.Recomputed
	samples    map[slotKey]map[string]sample
	events     []event
	lost       []lost
}

// slotKey is one slot of one node.
type slotKey struct {
	node    string
	startMS int64
}

func newExplanation(row *tables.UsageHour, r *ledger.Recomputed) *Explanation {
	return &Explanation{
		Cluster: row.Cluster, GPU: row.GPU, Node: row.Node, Model: row.Model, Hour: row.Hour, SlotMS: r.SlotMS,
		Raw: RawKept, Notes: []string{}, Summary: []string{}, Owners: []Owner{}, Leaves: []Leaf{}, Presence: []Stretch{},
		Lines: []Line{}, Holds: []Hold{}, Events: []Event{},
		Energy: Energy{Splits: []EnergySplit{}}, Proof: Proof{Differences: []string{}},
	}
}

func (b *builder) note(format string, args ...any) {
	b.Notes = append(b.Notes, fmt.Sprintf(format, args...))
}

// owner returns the id and facts of the owner with a hash.
func (b *builder) owner(hash uint64) (id string, facts meter.Owner) {
	id, facts, known := b.recomputed.Owner(hash)
	if !known {
		id = fmt.Sprintf("%016x", hash)
	}
	return id, facts
}

// label is a short name of an owner: namespace/pod, else the job, else the tenant's
// name, else the id. Empty: the platform.
func (b *builder) label(hash uint64) string {
	if hash == 0 {
		return ""
	}
	id, o := b.owner(hash)
	switch {
	case o.Pod != "" && o.Namespace != "":
		return o.Namespace + "/" + o.Pod
	case o.Pod != "":
		return "pod " + o.Pod
	case o.Job != "":
		return "job " + o.Job
	}
	return cmp.Or(o.Tenant, o.Namespace, o.User, o.Account, id)
}

// describe lists all facts of an owner.
func describe(o meter.Owner) string {
	var parts []string
	for _, f := range [...]struct{ name, value string }{
		{"tenant", o.Tenant},
		{"project", o.Project},
		{"namespace", o.Namespace},
		{"pod", o.Pod},
		{"uid", o.UID},
		{"job", o.Job},
		{"user", o.User},
		{"account", o.Account},
	} {
		if f.value != "" {
			parts = append(parts, f.name+" "+f.value)
		}
	}
	return strings.Join(parts, ", ")
}

// figures copies the stored row's figures.
func (b *builder) figures() {
	row := b.row
	f := Figures{
		Slices: int(row.Slices), GPUSlices: int(row.GPUSlices), PresentMS: int64(row.PresentMS),
		UntilMS: int64(row.UntilMS), CapacitySliceMS: int64(row.Slices) * int64(row.PresentMS), Free: int64(row.Free),
		Stranded: int64(row.Stranded), Unhealthy: int64(row.Unhealthy), Unobserved: int64(row.Unobserved),
		UnobservedAttribution: int64(row.UnobservedAttribution), PlatformEnergyMJ: row.PlatformEnergyMJ,
		UnattributedMJ: row.UnattributedMJ, EnergyMJ: row.PlatformEnergyMJ + row.UnattributedMJ, Epoch: int64(row.Epoch),
		Inputs: int64(row.Inputs), JournalInputs: int64(b.recomputed.Inputs),
	}
	for i, hash := range row.Owner {
		id, facts := b.owner(hash)
		o := Owner{
			Leaf: row.Leaf[i], Profile: row.Profile[i], ProfileSlices: int(row.ProfileSlices[i]), Label: b.label(hash), ID: id,
			Facts: describe(facts), Tenant: row.Tenant[i], Project: row.Project[i], Mapping: b.mappedBy(facts, row.Tenant[i]),
			Active: int64(row.Active[i]), Idle: int64(row.Idle[i]), Unproven: int64(row.Unproven[i]),
			Inferred: int64(row.Inferred[i]),
			Work:     int64(row.Work[i]), EnergyMJ: row.EnergyMJ[i],
		}
		b.Owners = append(b.Owners, o)
		f.Active, f.Idle, f.Unproven, f.Inferred = f.Active+o.Active, f.Idle+o.Idle, f.Unproven+
			o.Unproven, f.Inferred+o.Inferred
		f.EnergyMJ += o.EnergyMJ
	}
	slices.SortStableFunc(b.Owners, func(x, y Owner) int {
		return cmp.Or(cmp.Compare(x.Leaf, y.Leaf), cmp.Compare(x.Label, y.Label), cmp.Compare(x.ID, y.ID))
	})
	b.Figures = f
}

// tenant is the owner's tenant in the row.
func (b *builder) tenant(hash uint64) string {
	id, facts := b.owner(hash)
	for i, other := range b.row.Owner {
		if known, _ := b.owner(other); known == id {
			return b.row.Tenant[i]
		}
	}
	if b.recomputed.Mapping == nil {
		return ""
	}
	tenant, _ := b.recomputed.Mapping.At(b.row.Hour, facts)
	return tenant
}

// mappedBy explains where the tenant comes from.
func (b *builder) mappedBy(o meter.Owner, tenant string) string {
	m, epoch := b.recomputed.Mapping, b.row.Epoch
	if m == nil {
		return fmt.Sprintf("the tenant mapping of epoch %d is not stored", epoch)
	}
	own := "none: the owner has no tenant, namespace or account"
	switch {
	case o.Tenant != "":
		own = "the owner's own tenant"
	case o.Namespace != "":
		own = "the namespace"
	case o.Account != "":
		own = "the account"
	}
	inForce := slices.ContainsFunc(m.Versions, func(v tenants.Version) bool { return !v.Effective.After(b.row.Hour) })
	switch {
	case inForce && tenant == tenants.Unassigned:
		return fmt.Sprintf("no rule of the tenant mapping of epoch %d matches", epoch)
	case inForce:
		return fmt.Sprintf("tenant by a rule of the tenant mapping of epoch %d", epoch)
	}
	return fmt.Sprintf("epoch %d has no tenant mapping, so the tenant is %s", epoch, own)
}

// describeLeaf describes a leaf: its profile, slices and instance ids.
func describeLeaf(l meter.Leaf) string {
	text := count(int64(l.Slices), "slice")
	if l.Profile != "" {
		text = l.Profile + ", " + text
	}
	if l.GI >= 0 {
		text += fmt.Sprintf(", GI %d", l.GI)
	}
	if l.CI >= 0 {
		text += fmt.Sprintf(", CI %d", l.CI)
	}
	if l.MIGUUID != "" {
		text += ", " + l.MIGUUID
	}
	return text
}

// presence joins the slots in which the GPU is present, and says why the GPU enters
// and leaves the inventory then.
func (b *builder) presence() {
	var spans []Range
	for _, p := range b.recomputed.Parts {
		if p.SliceMS == 0 {
			continue
		}
		slot := b.slotRange(p.StartMS)
		if n := len(spans); n > 0 && !slot.From.After(spans[n-1].To) {
			if slot.To.After(spans[n-1].To) {
				spans[n-1].To = slot.To
			}
			continue
		}
		spans = append(spans, slot)
	}
	end := b.Hour.Add(time.Duration(b.row.UntilMS) * time.Millisecond)
	for _, s := range spans {
		from, to := "from the first batch that lists it", "until it was retired, or until 24 h after the last batch that "+
			"listed it"
		if s.From.Equal(b.Hour) {
			from = "in the inventory when the hour begins"
		}
		for _, r := range b.recomputed.Retired {
			if at := r.At.Truncate(time.Duration(b.SlotMS) * time.Millisecond); at.Equal(s.To) {
				to = fmt.Sprintf("retired at %s by %s: %s", stamp(r.At), r.Who, r.Reason)
			}
		}
		switch {
		case s.To.Equal(b.Hour.Add(time.Hour)):
			to = "still in the inventory when the hour ends"
		case s.To.Equal(end):
			to = "counted up to the watermark, the end of the newest slot of the cluster"
		case b.row.Unknown == 1:
			to = "a pool of unknown capacity is in the inventory only while it is listed"
		}
		b.Presence = append(b.Presence, Stretch{s, from + "; " + to})
	}
}

// slotRange is the counted part of a slot.
func (b *builder) slotRange(startMS int64) Range {
	return between(startMS, min(startMS+b.SlotMS, b.Hour.UnixMilli()+int64(b.row.UntilMS)))
}

// prove compares the stored row with the recomputed hour, and with the sum of the
// lines.
func (b *builder) prove() {
	b.Proof.Differences = append(b.Proof.Differences, b.recomputed.Differences(b.row)...)
	sums := map[string]int64{}
	for _, l := range b.Lines {
		sums[l.Bucket] += l.SliceMS
		sums["energy"] += l.EnergyMJ + l.UnattributedMJ
	}
	f := &b.Figures
	for _, c := range [...]struct {
		name string
		row  int64
	}{
		{"active", f.Active},
		{"idle", f.Idle},
		{"unproven", f.Unproven},
		{"free", f.Free},
		{"stranded", f.Stranded},
		{"unhealthy", f.Unhealthy},
		{"unobserved", f.Unobserved},
		{"energy", f.EnergyMJ},
	} {
		if sums[c.name] != c.row {
			b.Proof.Differences = append(b.Proof.Differences, c.name+": the lines sum to "+
				strconv.FormatInt(sums[c.name], 10)+", the ledger's row has "+strconv.FormatInt(c.row, 10))
		}
	}
	b.conclude()
}

func (b *builder) conclude() {
	b.Proof.OK = len(b.Proof.Differences) == 0
	b.Proof.Text = "the hour recomputed from raw equals the ledger's row in every column, and the lines sum to it"
	if !b.Proof.OK {
		b.Proof.Text = "THE LEDGER'S ROW DIFFERS FROM THE HOUR RECOMPUTED FROM RAW: " + count(int64(len(b.Proof.Differences)),
			"difference")
	}
}
