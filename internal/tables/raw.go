package tables

import "time"

// Cluster is what one slot declares about a cluster; the earliest declaration is valid.
type Cluster struct {
	Cluster   string    `ch:"cluster" sql:"LowCardinality(String)"`
	SlotMS    uint32    `ch:"slot_ms" sql:"UInt32 COMMENT 'the one slot length of the cluster'"`
	Since     time.Time `ch:"since" sql:"DateTime('UTC') COMMENT 'start of the slot that declared it'"`
	Simulated uint8     `ch:"simulated" sql:"UInt8 DEFAULT 0"`
}

// Values of Batch.Status: what became of the message.
const (
	StatusStored int8 = 1 // counted
	StatusDead   int8 = 2 // a dead letter
	StatusHole   int8 = 3 // deleted before it was read
	StatusLate   int8 = 4 // stored whole in late_unprocessed, since the raw data of its hours was deleted
)

// Batch is a row of the journal: one per offset of the topic of samples.
type Batch struct {
	Topic         string    `ch:"topic" sql:"LowCardinality(String)"`
	Partition     uint32    `ch:"partition" sql:"UInt32"`
	Offset        uint64    `ch:"offset" sql:"UInt64"`
	Status        int8      `ch:"status" sql:"Enum8('stored' = 1, 'dead' = 2, 'hole' = 3, 'late' = 4)"`
	Reason        string    `ch:"reason" sql:"String COMMENT 'why dead or hole'"`
	Cluster       string    `ch:"cluster" sql:"LowCardinality(String)"`
	Node          string    `ch:"node" sql:"LowCardinality(String)"`
	Slot          time.Time `ch:"slot" sql:"DateTime('UTC')"`
	SlotMS        uint32    `ch:"slot_ms" sql:"UInt32"`
	Collector     string    `ch:"collector" sql:"LowCardinality(String)"`
	BootMS        uint64    `ch:"boot_ms" sql:"UInt64"`
	Seq           uint64    `ch:"seq" sql:"UInt64"`
	Rev           uint64    `ch:"rev" sql:"UInt64 COMMENT 'the highest of a node and slot counts'"`
	Batch         uint64    `ch:"batch" sql:"UInt64 COMMENT 'first 8 bytes of hash; 0 when not stored'"`
	Hash          [32]byte  `ch:"hash" sql:"FixedString(32) COMMENT 'SHA-256 of the canonical batch'"`
	Seal          [16]byte  `ch:"seal" sql:"FixedString(16) COMMENT 'first 16 bytes of the SHA-256 of the other columns and the batch''s rows in holds'"`
	AttributionOK uint8     `ch:"attribution_ok" sql:"UInt8"`
	Complete      uint8     `ch:"enumeration_complete" sql:"UInt8"`
	ObservedMS    uint32    `ch:"observed_ms" sql:"UInt32"`
	Observed      []uint32  `ch:"observed" sql:"Array(UInt32) COMMENT 'from, to, from, to, … in ms of the slot; empty when all of it was seen'"`
	GPUs          []string  `ch:"gpus" sql:"Array(LowCardinality(String)) COMMENT 'the GPUs listed, lost ones too'"`
	HoldRows      uint32    `ch:"hold_rows" sql:"UInt32 COMMENT 'how many rows the batch has in holds'"`
	EnergyMJ      int64     `ch:"energy_mj" sql:"Int64 COMMENT 'movement of the energy counters of its GPUs'"`
	Origin        int8      `ch:"origin" sql:"Enum8('live' = 1, 'simulated' = 2, 'replay' = 3, 'import' = 4)"`
	Counted       uint8     `ch:"counted" sql:"UInt8 COMMENT '1 when the batch carries running counters'"`
	Sampled       uint64    `ch:"sampled" sql:"UInt64"`
	Spooled       uint64    `ch:"spooled" sql:"UInt64"`
	Dropped       uint64    `ch:"dropped" sql:"UInt64"`
	SpoolDropped  uint64    `ch:"spool_dropped" sql:"UInt64"`
	PrevBootMS    uint64    `ch:"prev_boot_ms" sql:"UInt64"`
	PrevSeq       uint64    `ch:"prev_seq" sql:"UInt64"`
	GapBoot       []uint64  `ch:"gap_boot" sql:"Array(UInt64) COMMENT 'announced gaps: the boot, and the sequence numbers from, to'"`
	GapFrom       []uint64  `ch:"gap_from" sql:"Array(UInt64)"`
	GapTo         []uint64  `ch:"gap_to" sql:"Array(UInt64)"`
	UnknownFields uint32    `ch:"unknown_fields" sql:"UInt32"`
	AppendedAt    time.Time `ch:"appended_at" sql:"DateTime64(3, 'UTC') COMMENT 'the broker''s append time'"`
	IngestedAt    time.Time `ch:"ingested_at" sql:"DateTime64(3, 'UTC')"`
}

// Hold is a batch's metered time of one GPU, leaf, owner, bucket and reason.
type Hold struct {
	Cluster        string    `ch:"cluster" sql:"LowCardinality(String)"`
	Node           string    `ch:"node" sql:"LowCardinality(String)"`
	GPU            string    `ch:"gpu" sql:"LowCardinality(String)"`
	Slot           time.Time `ch:"slot" sql:"DateTime('UTC') CODEC(Delta, ZSTD(1))"`
	SlotMS         uint32    `ch:"slot_ms" sql:"UInt32 CODEC(ZSTD(1))"`
	Batch          uint64    `ch:"batch" sql:"UInt64 COMMENT 'the batch that says so' CODEC(ZSTD(1))"`
	Model          string    `ch:"model" sql:"LowCardinality(String)"`
	Slices         uint32    `ch:"slices" sql:"UInt32 COMMENT 'of the GPU in this slot; of a pool milli-GPUs' CODEC(ZSTD(1))"`
	Kind           uint8     `ch:"kind" sql:"UInt8 COMMENT 'meter.Kind: board, pool, pool of unknown capacity' CODEC(ZSTD(1))"`
	Leaf           uint64    `ch:"leaf" sql:"UInt64 COMMENT 'leaves.id; 0: the GPU itself' CODEC(ZSTD(1))"`
	Owner          uint64    `ch:"owner" sql:"UInt64 COMMENT 'owners.id; 0: the platform' CODEC(ZSTD(1))"`
	Bucket         int8      `ch:"bucket" sql:"Enum8('active' = 1, 'idle' = 2, 'unproven' = 3, 'free' = 4, 'stranded' = 5, 'unhealthy' = 6, 'unobserved' = 7, 'pending' = 8)"`
	Why            uint8     `ch:"why" sql:"UInt8 COMMENT 'meter.Why, the reason of the bucket' CODEC(ZSTD(1))"`
	SliceMS        uint64    `ch:"slice_ms" sql:"UInt64 CODEC(Delta, T64('bit'), ZSTD(1))"`
	Work           uint64    `ch:"work" sql:"UInt64 COMMENT 'activity times slice_ms, in 1e-4 slice-ms' CODEC(Delta, T64('bit'), ZSTD(1))"`
	EnergyMJ       int64     `ch:"energy_mj" sql:"Int64 CODEC(Delta, T64('bit'), ZSTD(1))"`
	UnattributedMJ int64     `ch:"unattributed_mj" sql:"Int64 COMMENT 'energy of no slot, on one row of the GPU' CODEC(ZSTD(1))"`
	EnergyWhy      uint8     `ch:"energy_why" sql:"UInt8 COMMENT 'meter.EnergyWhy of the GPU in this slot' CODEC(ZSTD(1))"`
	Head           uint32    `ch:"head" sql:"UInt32 COMMENT 'share at the slot''s first seen instant, numerator << 16 | denominator; 0: none' CODEC(ZSTD(1))"`
	Tail           uint32    `ch:"tail" sql:"UInt32 COMMENT 'share at its last seen instant' CODEC(ZSTD(1))"`
	Rules          uint16    `ch:"rules" sql:"UInt16 COMMENT 'version of the settlement rules' CODEC(ZSTD(1))"`
}

// Sample has the measurements of a GPU or one of its leaves in a slot. Bit n of Present is set if the n-th column
// after it was read.
type Sample struct {
	Cluster    string    `ch:"cluster" sql:"LowCardinality(String)"`
	Node       string    `ch:"node" sql:"LowCardinality(String)"`
	GPU        string    `ch:"gpu" sql:"LowCardinality(String)"`
	Device     string    `ch:"device" sql:"LowCardinality(String) COMMENT 'leaf id; empty: the GPU'"`
	Index      uint16    `ch:"gpu_index" sql:"UInt16 COMMENT 'DCGM''s index on the node' CODEC(ZSTD(1))"`
	Slot       time.Time `ch:"slot" sql:"DateTime('UTC') CODEC(Delta, ZSTD(1))"`
	Rev        uint64    `ch:"rev" sql:"UInt64 CODEC(ZSTD(1))"`
	Batch      uint64    `ch:"batch" sql:"UInt64 COMMENT 'the batch that says so' CODEC(ZSTD(1))"`
	Idle       uint16    `ch:"idle_dw" sql:"UInt16 COMMENT '0.1 W, the model''s idle power as the collector knew it; 0: unknown' CODEC(ZSTD(1))"`
	Present    uint32    `ch:"present" sql:"UInt32 COMMENT 'bit n: the n-th column below was read' CODEC(ZSTD(1))"`
	SMActive   uint16    `ch:"sm_active" sql:"UInt16 COMMENT '1e-4' CODEC(Delta, T64('bit'), ZSTD(1))"`
	GRActive   uint16    `ch:"gr_engine_active" sql:"UInt16 COMMENT '1e-4' CODEC(Delta, T64('bit'), ZSTD(1))"`
	Tensor     uint16    `ch:"tensor_active" sql:"UInt16 COMMENT '1e-4' CODEC(Delta, T64('bit'), ZSTD(1))"`
	DRAM       uint16    `ch:"dram_active" sql:"UInt16 COMMENT '1e-4' CODEC(Delta, T64('bit'), ZSTD(1))"`
	Util       uint8     `ch:"gpu_util" sql:"UInt8 COMMENT 'percent' CODEC(Delta, ZSTD(1))"`
	Power      uint16    `ch:"power_dw" sql:"UInt16 COMMENT '0.1 W' CODEC(Delta, T64('bit'), ZSTD(1))"`
	Energy     uint32    `ch:"energy_j" sql:"UInt32 COMMENT 'movement in the slot' CODEC(Delta, T64('bit'), ZSTD(1))"`
	FBUsed     uint32    `ch:"fb_used_mib" sql:"UInt32 CODEC(ZSTD(1))"`
	FBFree     uint32    `ch:"fb_free_mib" sql:"UInt32 CODEC(ZSTD(1))"`
	Temp       uint8     `ch:"gpu_temp_c" sql:"UInt8 CODEC(Delta, ZSTD(1))"`
	MemoryTemp uint8     `ch:"memory_temp_c" sql:"UInt8 CODEC(Delta, ZSTD(1))"`
	SMClock    uint16    `ch:"sm_clock_mhz" sql:"UInt16 CODEC(ZSTD(1))"`
	MemClock   uint16    `ch:"mem_clock_mhz" sql:"UInt16 CODEC(ZSTD(1))"`
	PCIeTx     uint32    `ch:"pcie_tx_kib" sql:"UInt32 COMMENT 'KiB/s' CODEC(Delta, T64('bit'), ZSTD(1))"`
	PCIeRx     uint32    `ch:"pcie_rx_kib" sql:"UInt32 COMMENT 'KiB/s' CODEC(Delta, T64('bit'), ZSTD(1))"`
	NVLink     uint32    `ch:"nvlink_kib" sql:"UInt32 COMMENT 'KiB/s' CODEC(Delta, T64('bit'), ZSTD(1))"`
	SBE        uint32    `ch:"ecc_sbe" sql:"UInt32 CODEC(ZSTD(1))"`
	DBE        uint32    `ch:"ecc_dbe" sql:"UInt32 CODEC(ZSTD(1))"`
	XID        uint32    `ch:"xid" sql:"UInt32 CODEC(ZSTD(1))"`
}

// Leaf is a leaf's identity and its hash.
type Leaf struct {
	ID      uint64 `ch:"id" sql:"UInt64 COMMENT 'hash of the identity'"`
	Leaf    string `ch:"leaf" sql:"String"`
	Slices  uint32 `ch:"slices" sql:"UInt32"`
	Profile string `ch:"profile" sql:"LowCardinality(String)"`
	GI      int32  `ch:"gi" sql:"Int32 COMMENT '-1: none'"`
	CI      int32  `ch:"ci" sql:"Int32 COMMENT '-1: none'"`
	MIGUUID string `ch:"mig_uuid" sql:"String"`
}

// Owner is an owner's facts and their hash.
type Owner struct {
	ID        uint64 `ch:"id" sql:"UInt64 COMMENT 'hash of the facts'"`
	Owner     string `ch:"owner" sql:"String COMMENT 'the pod''s UID, the job, or the facts as key-sorted JSON'"`
	Tenant    string `ch:"tenant" sql:"String"`
	Project   string `ch:"project" sql:"String"`
	Namespace string `ch:"namespace" sql:"String"`
	Pod       string `ch:"pod" sql:"String"`
	UID       string `ch:"uid" sql:"String"`
	Job       string `ch:"job" sql:"String"`
	User      string `ch:"user" sql:"String"`
	Account   string `ch:"account" sql:"String"`
}

// Event is something that happened at one instant.
type Event struct {
	Cluster string    `ch:"cluster" sql:"LowCardinality(String)"`
	Node    string    `ch:"node" sql:"LowCardinality(String)"`
	GPU     string    `ch:"gpu" sql:"LowCardinality(String)"`
	Leaf    string    `ch:"leaf" sql:"LowCardinality(String)"`
	At      time.Time `ch:"at" sql:"DateTime64(3, 'UTC')"`
	Kind    string    `ch:"kind" sql:"LowCardinality(String)"`
	Code    int64     `ch:"code" sql:"Int64"`
	Detail  string    `ch:"detail" sql:"String"`
	Batch   uint64    `ch:"batch" sql:"UInt64"`
}

// RawWeek is a week whose raw data is being deleted or was deleted.
type RawWeek struct {
	Week        time.Time `ch:"week" sql:"Date COMMENT 'its Monday: the partition of holds and samples'"`
	State       uint8     `ch:"state" sql:"UInt8 COMMENT '1 sealed: batches for it are late; 2 being dropped: its hours are never recomputed; 3 dropped'"`
	SealedAt    time.Time `ch:"sealed_at" sql:"DateTime64(3, 'UTC')"`
	DroppedAt   time.Time `ch:"dropped_at" sql:"DateTime64(3, 'UTC') COMMENT 'of state 3'"`
	GPUHours    uint64    `ch:"gpu_hours" sql:"UInt64 COMMENT 'rows of usage_hourly in the week'"`
	HoldRows    uint64    `ch:"hold_rows" sql:"UInt64"`
	SampleRows  uint64    `ch:"sample_rows" sql:"UInt64"`
	UsageSHA256 string    `ch:"usage_sha256" sql:"String COMMENT 'of those rows of usage_hourly, hex: they stand for the raw from here on'"`
}

// Late is a message for hours whose raw data was deleted, stored whole.
type Late struct {
	Topic      string    `ch:"topic" sql:"LowCardinality(String)"`
	Partition  uint32    `ch:"partition" sql:"UInt32"`
	Offset     uint64    `ch:"offset" sql:"UInt64"`
	Reason     string    `ch:"reason" sql:"LowCardinality(String)"`
	Cluster    string    `ch:"cluster" sql:"LowCardinality(String)"`
	Node       string    `ch:"node" sql:"LowCardinality(String)"`
	Slot       time.Time `ch:"slot" sql:"DateTime('UTC')"`
	Hash       [32]byte  `ch:"hash" sql:"FixedString(32) COMMENT 'SHA-256 of the canonical batch, as in batches'"`
	Body       string    `ch:"body" sql:"String COMMENT 'the message as it came, protobuf' CODEC(ZSTD(3))"`
	IngestedAt time.Time `ch:"ingested_at" sql:"DateTime64(3, 'UTC')"`
}
