package explain

import "time"

// States of an hour's raw rows.
const (
	RawKept    = "kept"
	RawGone    = "gone"    // dropped by retention: only the figures are left
	RawDamaged = "damaged" // there are fewer rows than the journal says
)

// Explanation explains one GPU-hour. JSON keys and codes are stable.
type Explanation struct {
	Cluster   string    `json:"cluster"`
	GPU       string    `json:"gpu"`
	Node      string    `json:"node"` // the last node in the hour
	Model     string    `json:"model"`
	Hour      time.Time `json:"hour"`
	HourLocal string    `json:"hour_local,omitempty"`
	TimeZone  string    `json:"time_zone,omitempty"`
	SlotMS    int64     `json:"slot_ms,omitempty"`
	Raw       string    `json:"raw"`     // RawKept, RawGone, RawDamaged
	Notes     []string  `json:"notes"`   // to be read first
	Summary   []string  `json:"summary"` // paragraphs: who pays for what, and why
	Figures   Figures   `json:"figures"`
	Owners    []Owner   `json:"owners"`
	Leaves    []Leaf    `json:"leaves"`
	Presence  []Stretch `json:"presence"` // when the GPU is in the inventory
	Lines     []Line    `json:"lines"`
	Holds     []Hold    `json:"holds"`
	Batches   []Batches `json:"batches,omitzero"` // only if Request.All is set, like the next field
	Losers    []Loser   `json:"superseded_batches,omitzero"`
	Events    []Event   `json:"events"`
	Energy    Energy    `json:"energy"`
	Proof     Proof     `json:"proof"`
	zone      *time.Location
}

// Figures are those of the stored row. Buckets are in slice-ms.
type Figures struct {
	Slices                int   `json:"slices"`
	GPUSlices             int   `json:"gpu_slices"` // slices that make one GPU: 1000 in a pool, else all slices
	PresentMS             int64 `json:"present_ms"`
	UntilMS               int64 `json:"until_ms"` // end of the counted part of the hour, in ms
	CapacitySliceMS       int64 `json:"capacity_slice_ms"`
	Active                int64 `json:"active_slice_ms"`
	Idle                  int64 `json:"idle_slice_ms"`
	Unproven              int64 `json:"unproven_slice_ms"`
	Inferred              int64 `json:"inferred_slice_ms"` // part of unproven
	Free                  int64 `json:"free_slice_ms"`
	Stranded              int64 `json:"stranded_slice_ms"`
	Unhealthy             int64 `json:"unhealthy_slice_ms"`
	Unobserved            int64 `json:"unobserved_slice_ms"`
	UnobservedAttribution int64 `json:"unobserved_attribution_slice_ms"` // part of unobserved: owners unknown
	EnergyMJ              int64 `json:"energy_mj"`                       // all energy, unattributed included
	PlatformEnergyMJ      int64 `json:"platform_energy_mj"`
	UnattributedMJ        int64 `json:"unattributed_mj"`
	Epoch                 int64 `json:"epoch"`          // of rules and tenant mapping
	Inputs                int64 `json:"inputs"`         // journal rows that the row was computed from
	JournalInputs         int64 `json:"journal_inputs"` // journal rows that exist now
}

// Owner is one owner's use of one leaf, as in the row.
type Owner struct {
	Leaf          string `json:"leaf"`
	Profile       string `json:"profile"` // empty: a whole GPU
	ProfileSlices int    `json:"profile_slices"`
	Label         string `json:"owner"`    // short name
	ID            string `json:"owner_id"` // the pod's UID, the job, or the facts
	Facts         string `json:"owner_facts"`
	Tenant        string `json:"tenant"`
	Project       string `json:"project"`
	Mapping       string `json:"mapping"` // why it has this tenant
	Active        int64  `json:"active_slice_ms"`
	Idle          int64  `json:"idle_slice_ms"`
	Unproven      int64  `json:"unproven_slice_ms"`
	Inferred      int64  `json:"inferred_slice_ms"`
	Work          int64  `json:"work"` // activity × slice-ms, in 1e-4 slice-ms
	EnergyMJ      int64  `json:"energy_mj"`
}

// Leaf is the smallest part that one workload can be given. An instance that was
// recreated under the same id is listed twice.
type Leaf struct {
	Leaf string `json:"leaf"`
	Text string `json:"text"` // profile, slices, instance ids
}

// Held is all time that the owner held, in slice-ms.
func (o Owner) Held() int64 { return o.Active + o.Idle + o.Unproven }

// Range is [From, To).
type Range struct {
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	FromLocal string    `json:"from_local,omitempty"`
	ToLocal   string    `json:"to_local,omitempty"`
}

func between(fromMS, toMS int64) Range {
	return Range{From: time.UnixMilli(fromMS).UTC(), To: time.UnixMilli(toMS).UTC()}
}

func (r *Range) local(zone *time.Location) {
	r.FromLocal, r.ToLocal = r.From.In(zone).Format(time.RFC3339Nano), r.To.In(zone).Format(time.RFC3339Nano)
}

// Stretch is a time range and its reason.
type Stretch struct {
	Range
	Why string `json:"why"`
}

// Signals are the evidence of a line over its slots; absent: unknown.
type Signals struct {
	Source     string `json:"activity_source,omitempty"` // SM_ACTIVE or GR_ENGINE_ACTIVE
	Activity   *Span  `json:"activity,omitempty"`        // 0 to 1
	Util       *Span  `json:"gpu_util,omitempty"`        // percent
	Power      *Span  `json:"power_watts,omitempty"`
	IdlePower  *Span  `json:"idle_power_watts,omitempty"` // of the model, as the collector had it configured
	OtherWorks string `json:"other_instance_working,omitempty"`
}

// Span is the least and the greatest of some values.
type Span struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// Line is a run of equal slots of one leaf and owner.
type Line struct {
	Range
	Slots          int      `json:"slots"`
	Node           string   `json:"node"`
	Leaf           string   `json:"leaf"`     // empty: the GPU itself
	Owner          string   `json:"owner"`    // empty: the platform
	OwnerID        string   `json:"owner_id"` // empty: the platform
	Tenant         string   `json:"tenant"`
	Bucket         string   `json:"bucket"`
	Inferred       bool     `json:"inferred"`
	SliceMS        int64    `json:"slice_ms"`
	EnergyMJ       int64    `json:"energy_mj"`
	UnattributedMJ int64    `json:"unattributed_mj"`
	Share          string   `json:"share"`         // of the leaf, at the line's first and last instant
	Code           string   `json:"code"`          // meter.Why
	Gap            string   `json:"gap,omitempty"` // for unobserved time: meter.GapWhy
	Why            string   `json:"why"`
	Signals        *Signals `json:"signals,omitempty"`
}

// Hold is the time in which an owner holds a leaf, as far as raw shows.
type Hold struct {
	Range
	Leaf    string   `json:"leaf"`
	Owner   string   `json:"owner"`
	OwnerID string   `json:"owner_id"`
	Facts   string   `json:"owner_facts"`
	Tenant  string   `json:"tenant"`
	Shares  []string `json:"shares"`
	SliceMS int64    `json:"slice_ms"`
	Begins  string   `json:"begins,omitempty"` // for a hold that begins inside a slot: how exact From is
	Ends    string   `json:"ends,omitempty"`   // as Begins
}

// Batches is a run of winning batches of one boot in one partition.
type Batches struct {
	Range
	Node       string `json:"node"`
	Count      int    `json:"count"`
	Topic      string `json:"topic"`
	Partition  uint32 `json:"partition"`
	FromOffset uint64 `json:"from_offset"`
	ToOffset   uint64 `json:"to_offset"`
	Collector  string `json:"collector"`
	BootMS     uint64 `json:"boot_ms"`
	FromSeq    uint64 `json:"from_seq"`
	ToSeq      uint64 `json:"to_seq"`
	Rank       string `json:"rank"` // what R1 compares first
	Origin     string `json:"origin"`
}

// Loser is a batch that doesn't count, with the reason (R1).
type Loser struct {
	Slot      time.Time `json:"slot"`
	Node      string    `json:"node"`
	Partition uint32    `json:"partition"`
	Offset    uint64    `json:"offset"`
	Collector string    `json:"collector"`
	BootMS    uint64    `json:"boot_ms"`
	Seq       uint64    `json:"seq"`
	Why       string    `json:"why"`
}

// Event is something that happened at one instant.
type Event struct {
	At      time.Time `json:"at"`
	AtLocal string    `json:"at_local,omitempty"`
	Node    string    `json:"node"`
	Leaf    string    `json:"leaf"`
	Kind    string    `json:"kind"`
	Code    int64     `json:"code"`
	Detail  string    `json:"detail"`
}

// Energy states how the counters' movement was split, in mJ.
type Energy struct {
	MovedMJ        int64         `json:"moved_mj"`
	OwnersMJ       int64         `json:"owners_mj"`
	PlatformMJ     int64         `json:"platform_mj"`
	UnattributedMJ int64         `json:"unattributed_mj"`
	Splits         []EnergySplit `json:"splits"`
}

// EnergySplit sums the slots whose energy was split in one way.
type EnergySplit struct {
	Code  string `json:"code"` // meter.EnergyWhy
	Slots int    `json:"slots"`
	MJ    int64  `json:"mj"`
	Why   string `json:"why"`
}

// Proof states whether the recomputed hour equals the row, and whether the lines sum
// to it.
type Proof struct {
	OK          bool     `json:"ok"`
	Differences []string `json:"differences"`
	Text        string   `json:"text"`
}
