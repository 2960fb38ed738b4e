package meter

// energyOnly books the energy of a slot whose rows count no time.
func (h *gpuHour) energyOnly(c *cell, why Why) {
	for _, r := range c.record.Rows {
		h.book(c, Row{Bucket: Unobserved, Why: why, EnergyWhy: r.EnergyWhy, EnergyMJ: r.EnergyMJ,
			UnattributedMJ: r.UnattributedMJ})
	}
}

// bookStored books a row that the hour takes as it is. Of what is pending or was
// not observed only the energy counts here: the time is decided with the hour.
func (h *gpuHour) bookStored(c *cell, r *Row) {
	row := *r
	if row.Bucket == Pending || row.Bucket == Unobserved {
		if row.Why == WhyAttribution {
			h.out.UnobservedAttribution += row.SliceMS
			h.tracer.unread(c.slot.StartMS, row.SliceMS)
		}
		row = Row{Bucket: Unobserved, Why: r.Why, EnergyWhy: r.EnergyWhy, EnergyMJ: r.EnergyMJ,
			UnattributedMJ: r.UnattributedMJ}
	}
	h.book(c, row)
}

// book adds a row to the hour's figures, and shows it to who traces the hour.
func (h *gpuHour) book(c *cell, r Row) {
	h.bookAt(c.node, c.slot.StartMS, r)
}

func (h *gpuHour) bookAt(node string, startMS int64, r Row) {
	h.out.UnattributedMJ += r.UnattributedMJ
	switch r.Bucket {
	case Active, Idle, Unproven:
		o := h.owner(r.Leaf, r.Owner)
		o.Work += r.Work
		o.EnergyMJ += r.EnergyMJ
		switch {
		case r.Bucket == Active:
			o.Active += r.SliceMS
		case r.Bucket == Idle:
			o.Idle += r.SliceMS
		default:
			o.Unproven += r.SliceMS
			if r.Why == WhyInferred {
				o.Inferred += r.SliceMS
			}
		}
	case Free:
		h.out.Free += r.SliceMS
	case Stranded:
		h.out.Stranded += r.SliceMS
	case Unhealthy:
		h.out.Unhealthy += r.SliceMS
	}
	if r.Owner == 0 {
		h.out.PlatformEnergyMJ += r.EnergyMJ
	}
	h.counted += r.SliceMS
	h.trace(node, startMS, r)
}

// lineKey is what an OwnerUse is of.
type lineKey struct{ leaf, owner uint64 }

// fewOwners is up to where a walk beats an index.
const fewOwners = 16

// owner finds or adds the line of an owner on a leaf.
func (h *gpuHour) owner(leaf, owner uint64) *OwnerUse {
	key := lineKey{leaf, owner}
	if n := len(h.out.Owners); n > fewOwners {
		if h.lines == nil {
			h.lines = make(map[lineKey]int, 2*n)
			for i, o := range h.out.Owners {
				h.lines[lineKey{o.Leaf, o.Owner}] = i
			}
		}
		if i, ok := h.lines[key]; ok {
			return &h.out.Owners[i]
		}
		h.lines[key] = n
	} else {
		for i := range h.out.Owners {
			if o := &h.out.Owners[i]; o.Leaf == leaf && o.Owner == owner {
				return o
			}
		}
	}
	h.out.Owners = append(h.out.Owners, OwnerUse{Leaf: leaf, Owner: owner})
	return &h.out.Owners[len(h.out.Owners)-1]
}
