package meter

// energyOnly adds the energy of a slot whose rows count no time to the GPU-hour.
func (h *gpuHour) energyOnly(c *cell, why Why) {
	for _, r := range c.record.Rows {
		h.addRow(c, Row{
			Bucket: Unobserved, Why: why, EnergyWhy: r.EnergyWhy, EnergyMJ: r.EnergyMJ,
			UnattributedMJ: r.UnattributedMJ,
		})
	}
}

// addStored adds a stored row as it is. Of pending and unobserved rows only the
// energy is added: their time is decided for the hour as a whole.
func (h *gpuHour) addStored(c *cell, r *Row) {
	row := *r
	if row.Bucket == Pending || row.Bucket == Unobserved {
		if row.Why == WhyAttribution {
			h.out.UnobservedAttribution += row.SliceMS
			h.tracer.unread(c.slot.StartMS, row.SliceMS)
		}
		row = Row{
			Bucket: Unobserved, Why: r.Why, EnergyWhy: r.EnergyWhy, EnergyMJ: r.EnergyMJ,
			UnattributedMJ: r.UnattributedMJ,
		}
	}
	h.addRow(c, row)
}

// addRow adds a row to the hour's figures and passes it to Trace, if there is one.
func (h *gpuHour) addRow(c *cell, r Row) {
	h.addRowAt(c.node, c.slot.StartMS, r)
	h.rest(c.slot, &r)
}

func (h *gpuHour) addRowAt(node string, startMS int64, r Row) {
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
			if r.Why == WhyParked {
				o.Parked += r.SliceMS
			}
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

// lineKey identifies an OwnerUse within a GPU-hour.
type lineKey struct{ leaf, owner uint64 }

// fewOwners is the number of lines up to which a linear search is faster than an
// index.
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
