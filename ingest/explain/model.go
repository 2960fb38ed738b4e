package explain

import "time"

// States of an hour's raw.
const (
	RawKept    = "kept"
	RawGone    = "gone"    // the figures stand, nothing behind them does
	RawDamaged = "damaged" // less is there than the journal promised
)

// Explanation takes one GPU-hour apart. Keys and codes in JSON are stable.
type Explanation struct {
	Cluster   string    `json:"cluster"`
	GPU       string    `json:"gpu"`
	Node      string    `json:"node"` // the last one in the hour
	Model     string    `json:"model"`
	Hour      time.Time `json:"hour"`
	HourLocal string    `json:"hour_local,omitempty"`
	TimeZone  string    `json:"time_zone,omitempty"`
	SlotMS    int64     `json:"slot_ms,omitempty"`
	Raw       string    `json:"raw"`     // RawKept, RawGone, RawDamaged
	Notes     []string  `json:"notes"`   // what a reader must know first
	Summary   []string  `json:"summary"` // paragraphs: who pays for what, and why
	Figures   Figures   `json:"figures"`
	Owners    []Owner   `json:"owners"`
	Leaves    []Leaf    `json:"leaves"`
	Presence  []Stretch `json:"presence"` // when the GPU is in the inventory
	Lines     []Line    `json:"lines"`
	Holds     []Hold    `json:"holds"`
	Batches   []Batches `json:"batches"` // only where all was asked for, as the next
	Losers    []Loser   `json:"superseded_batches"`
	Events    []Event   `json:"events"`
	Energy    Energy    `json:"energy"`
	Proof     Proof     `json:"proof"`
	zone      *time.Location
}

// Figures are the stored row's. Buckets are slice-ms.
type Figures struct {
	Slices                int   `json:"slices"`
	GPUSlices             int   `json:"gpu_slices"` // that make one GPU: 1000 in a pool, else slices
	PresentMS             int64 `json:"present_ms"`
	UntilMS               int64 `json:"until_ms"` // the part of the hour before the watermark
	CapacitySliceMS       int64 `json:"capacity_slice_ms"`
	Active                int64 `json:"active_slice_ms"`
	Idle                  int64 `json:"idle_slice_ms"`
	Unproven              int64 `json:"unproven_slice_ms"`
	Inferred              int64 `json:"inferred_slice_ms"` // of unproven
	Free                  int64 `json:"free_slice_ms"`
	Stranded              int64 `json:"stranded_slice_ms"`
	Unhealthy             int64 `json:"unhealthy_slice_ms"`
	Unobserved            int64 `json:"unobserved_slice_ms"`
	UnobservedAttribution int64 `json:"unobserved_attribution_slice_ms"` // of unobserved: owners could not be read
	EnergyMJ              int64 `json:"energy_mj"`                       // of all, unattributed included
	PlatformEnergyMJ      int64 `json:"platform_energy_mj"`
	UnattributedMJ        int64 `json:"unattributed_mj"`
	Epoch                 int64 `json:"epoch"`          // of rules and mapping
	Inputs                int64 `json:"inputs"`         // journal rows that the row rests on
	JournalInputs         int64 `json:"journal_inputs"` // those that there are now
}

// Owner is one owner on one leaf, as the row has it.
type Owner struct {
	Leaf          string `json:"leaf"`
	Profile       string `json:"profile"` // empty: the whole GPU
	ProfileSlices int    `json:"profile_slices"`
	Label         string `json:"owner"`    // for people
	ID            string `json:"owner_id"` // the pod's UID, the job, or the facts
	Facts         string `json:"owner_facts"`
	Tenant        string `json:"tenant"`
	Project       string `json:"project"`
	Mapping       string `json:"mapping"` // why this tenant
	Active        int64  `json:"active_slice_ms"`
	Idle          int64  `json:"idle_slice_ms"`
	Unproven      int64  `json:"unproven_slice_ms"`
	Inferred      int64  `json:"inferred_slice_ms"`
	Work          int64  `json:"work"` // activity × slice-ms, in 1e-4 slice-ms
	EnergyMJ      int64  `json:"energy_mj"`
}

// Leaf is what one workload can be given. An instance that was made anew under
// the same id stands twice.
type Leaf struct {
	Leaf string `json:"leaf"`
	Text string `json:"text"` // profile, slices, instance ids
}

// Held is all that the owner held, in slice-ms.
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

// Stretch is a time and why it is one.
type Stretch struct {
	Range
	Why string `json:"why"`
}

// Signals are a line's evidence over its slots; absent: not read.
type Signals struct {
	Source     string `json:"activity_source,omitempty"` // SM_ACTIVE or GR_ENGINE_ACTIVE
	Activity   *Span  `json:"activity,omitempty"`        // 0 to 1
	Util       *Span  `json:"gpu_util,omitempty"`        // percent
	Power      *Span  `json:"power_watts,omitempty"`
	IdlePower  *Span  `json:"idle_power_watts,omitempty"` // of the model, as the collector knew it
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
	Gap            string   `json:"gap,omitempty"` // of unobserved time: meter.GapWhy
	Why            string   `json:"why"`
	Signals        *Signals `json:"signals,omitempty"`
}

// Hold is an owner having a leaf, as far as raw tells.
type Hold struct {
	Range
	Leaf    string   `json:"leaf"`
	Owner   string   `json:"owner"`
	OwnerID string   `json:"owner_id"`
	Facts   string   `json:"owner_facts"`
	Tenant  string   `json:"tenant"`
	Shares  []string `json:"shares"`
	SliceMS int64    `json:"slice_ms"`
	Begins  string   `json:"begins,omitempty"` // of a hold that begins inside a slot: how exact From is
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

// Loser is a batch that doesn't count, and why (R1).
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

// Energy says how the counters' movement was split, in mJ.
type Energy struct {
	MovedMJ        int64         `json:"moved_mj"`
	OwnersMJ       int64         `json:"owners_mj"`
	PlatformMJ     int64         `json:"platform_mj"`
	UnattributedMJ int64         `json:"unattributed_mj"`
	Splits         []EnergySplit `json:"splits"`
}

// EnergySplit is the slots whose energy was split in one way.
type EnergySplit struct {
	Code  string `json:"code"` // meter.EnergyWhy
	Slots int    `json:"slots"`
	MJ    int64  `json:"mj"`
	Why   string `json:"why"`
}

// Proof says whether the hour computed again equals the row, and whether the
// lines sum to it.
type Proof struct {
	OK          bool     `json:"ok"`
	Differences []string `json:"differences"`
	Text        string   `json:"text"`
}
