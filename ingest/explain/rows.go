package explain

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

// usageRow is the ledger's row of the hour. Buckets are slice-ms.
type usageRow struct {
	Cluster               string    `ch:"cluster"`
	Hour                  time.Time `ch:"hour"`
	GPU                   string    `ch:"gpu"`
	Node                  string    `ch:"node"`
	Model                 string    `ch:"model"`
	Slices                uint32    `ch:"slices"`
	GPUSlices             uint16    `ch:"gpu_slices"`
	PresentMS             uint32    `ch:"present_ms"`
	UntilMS               uint32    `ch:"until_ms"`
	Epoch                 uint32    `ch:"epoch"`
	Inputs                uint64    `ch:"inputs"`
	Free                  uint64    `ch:"free"`
	Stranded              uint64    `ch:"stranded"`
	Unhealthy             uint64    `ch:"unhealthy"`
	Unobserved            uint64    `ch:"unobserved"`
	UnobservedAttribution uint64    `ch:"unobserved_attribution"`
	PlatformEnergyMJ      int64     `ch:"platform_energy_mj"`
	UnattributedMJ        int64     `ch:"unattributed_mj"`
	Leaf                  []string  `ch:"leaf"`
	Profile               []string  `ch:"profile"`
	ProfileSlices         []uint16  `ch:"profile_slices"`
	Owner                 []uint64  `ch:"owner"`
	Tenant                []string  `ch:"tenant"`
	Project               []string  `ch:"project"`
	User                  []string  `ch:"user"`
	Workload              []string  `ch:"workload"`
	Active                []uint64  `ch:"active"`
	Idle                  []uint64  `ch:"idle"`
	Unproven              []uint64  `ch:"unproven"`
	Inferred              []uint64  `ch:"inferred"`
	Work                  []uint64  `ch:"work"`
	EnergyMJ              []int64   `ch:"energy_mj"`
}

func (r *usageRow) startMS() int64 { return r.Hour.UnixMilli() }
func (r *usageRow) endMS() int64   { return r.startMS() + int64(r.UntilMS) }

// batchRow is a journal row of a stored batch.
type batchRow struct {
	Topic         string    `ch:"topic"`
	Partition     uint32    `ch:"partition"`
	Offset        uint64    `ch:"offset"`
	Node          string    `ch:"node"`
	Slot          time.Time `ch:"slot"`
	Rev           uint64    `ch:"rev"`
	Collector     string    `ch:"collector"`
	BootMS        uint64    `ch:"boot_ms"`
	Seq           uint64    `ch:"seq"`
	Hash          string    `ch:"hash"`
	Batch         uint64    `ch:"batch"`
	AttributionOK uint8     `ch:"attribution_ok"`
	Complete      uint8     `ch:"enumeration_complete"`
	ObservedMS    uint32    `ch:"observed_ms"`
	Observed      []uint32  `ch:"observed"`
	HoldRows      uint32    `ch:"hold_rows"`
	Origin        string    `ch:"origin_name"`
}

func (b *batchRow) slotMS() int64 { return b.Slot.UnixMilli() }

// fills says that the batch is made of allocation records (R18).
func (b *batchRow) fills() bool { return b.Rev == wire.FillRev }

func (b *batchRow) rank() wire.Rank {
	r := wire.Rank{Rev: b.Rev, Collector: b.Collector, BootMS: int64(b.BootMS), Seq: b.Seq}
	copy(r.Hash[:], b.Hash)
	return r
}

func (b *batchRow) nodeSlot() meter.NodeSlot {
	s := meter.NodeSlot{
		StartMS: b.slotMS(), Nothing: b.ObservedMS == 0, Complete: b.Complete == 1, AttributionOK: b.AttributionOK == 1, Fill: b.fills(),
	}
	for _, ms := range b.Observed {
		s.Observed = append(s.Observed, int64(ms))
	}
	return s
}

type foundRow struct {
	Batch uint64 `ch:"batch"`
	Found uint32 `ch:"found"`
}

// holdRow is a row of holds of this GPU.
type holdRow struct {
	Node         string    `ch:"node"`
	Slot         time.Time `ch:"slot"`
	Batch        uint64    `ch:"batch"`
	Model        string    `ch:"model"`
	Slices       uint32    `ch:"slices"`
	Kind         uint8     `ch:"kind"`
	Leaf         uint64    `ch:"leaf"`
	Owner        uint64    `ch:"owner"`
	Bucket       int8      `ch:"bucket_number"`
	Why          uint8     `ch:"why"`
	SliceMS      uint64    `ch:"slice_ms"`
	Work         uint64    `ch:"work"`
	EnergyMJ     int64     `ch:"energy_mj"`
	Unattributed int64     `ch:"unattributed_mj"`
	Head         uint32    `ch:"head"`
	Tail         uint32    `ch:"tail"`
}

func (h *holdRow) row() meter.Row {
	return meter.Row{
		Leaf: h.Leaf, Owner: h.Owner, Bucket: meter.Bucket(h.Bucket), Why: meter.Why(h.Why), SliceMS: int64(h.SliceMS),
		Work: int64(h.Work), EnergyMJ: h.EnergyMJ, UnattributedMJ: h.Unattributed,
		Head: meter.Share(h.Head), Tail: meter.Share(h.Tail),
	}
}

// sampleRow is what is kept of the evidence of a device in a slot.
type sampleRow struct {
	Node    string    `ch:"node"`
	Slot    time.Time `ch:"slot"`
	Device  string    `ch:"device"`
	Rev     uint64    `ch:"rev"`
	Present uint32    `ch:"present"`
	SM      uint16    `ch:"sm_active"`        // 1e-4
	GR      uint16    `ch:"gr_engine_active"` // 1e-4
	Util    uint8     `ch:"gpu_util"`         // percent
	Power   uint16    `ch:"power_dw"`         // 0.1 W
	Energy  uint32    `ch:"energy_j"`
}

// Bits of present, in the order of the metric columns of table samples.
const (
	bitSM    = 1 << 0
	bitGR    = 1 << 1
	bitUtil  = 1 << 4
	bitPower = 1 << 5
)

type leafRow struct {
	ID      uint64 `ch:"id"`
	Leaf    string `ch:"leaf"`
	Slices  uint32 `ch:"slices"`
	Profile string `ch:"profile"`
	GI      int32  `ch:"gi"`
	CI      int32  `ch:"ci"`
	MIGUUID string `ch:"mig_uuid"`
}

// describe is a leaf in words: its profile, slices and instance ids.
func (l leafRow) describe() string {
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

type ownerRow struct {
	ID        uint64 `ch:"id"`
	Owner     string `ch:"owner"`
	Tenant    string `ch:"tenant"`
	Project   string `ch:"project"`
	Namespace string `ch:"namespace"`
	Pod       string `ch:"pod"`
	UID       string `ch:"uid"`
	Job       string `ch:"job"`
	User      string `ch:"user"`
	Account   string `ch:"account"`
}

func (o ownerRow) facts() meter.Owner {
	return meter.Owner{
		Tenant: o.Tenant, Project: o.Project, Namespace: o.Namespace, Pod: o.Pod, UID: o.UID, Job: o.Job, User: o.User, Account: o.Account,
	}.Named()
}

// label is what people call the owner: namespace/pod, else the job, else the
// tenant's name, else the id.
func (o ownerRow) label() string {
	switch {
	case o.Pod != "" && o.Namespace != "":
		return o.Namespace + "/" + o.Pod
	case o.Pod != "":
		return "pod " + o.Pod
	case o.Job != "":
		return "job " + o.Job
	}
	return cmp.Or(o.Tenant, o.Namespace, o.User, o.Account, o.Owner)
}

// describe is all facts in words.
func (o ownerRow) describe() string {
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

type eventRow struct {
	Node   string    `ch:"node"`
	GPU    string    `ch:"gpu"`
	Leaf   string    `ch:"leaf"`
	At     time.Time `ch:"at"`
	Kind   string    `ch:"kind"`
	Code   int64     `ch:"code"`
	Detail string    `ch:"detail"`
	Batch  uint64    `ch:"batch"`
}

// retirementRow is an early end in the inventory, that of the slot's start.
type retirementRow struct {
	At     time.Time `ch:"at"`
	Who    string    `ch:"who"`
	Reason string    `ch:"reason"`
	cutMS  int64     // Unix ms: start of the slot that At lies in
}

type sightingRow struct {
	Hour        time.Time `ch:"hour"`
	GPU         string    `ch:"gpu"`
	Node        string    `ch:"node"`
	Model       string    `ch:"model"`
	FirstMS     int64     `ch:"first_ms"`
	LastMS      int64     `ch:"last_ms"`
	RunFromMS   int64     `ch:"run_from_ms"`
	SlicesFirst uint32    `ch:"slices_first"`
	SlicesLast  uint32    `ch:"slices_last"`
	KindFirst   uint8     `ch:"kind_first"`
	KindLast    uint8     `ch:"kind_last"`
}

func (s sightingRow) sighting() meter.Sighting {
	return meter.Sighting{
		HourMS: s.Hour.UnixMilli(), GPU: s.GPU, Node: s.Node, Model: s.Model, FirstMS: s.FirstMS, LastMS: s.LastMS,
		RunFromMS: s.RunFromMS, SlicesFirst: int(s.SlicesFirst), SlicesLast: int(s.SlicesLast),
		KindFirst: meter.Kind(s.KindFirst), KindLast: meter.Kind(s.KindLast),
	}
}
