package tables

import "time"

// Epoch is a version of the rules and the tenant mapping.
type Epoch struct {
	Epoch     uint32    `ch:"epoch" sql:"UInt32 COMMENT 'rules and mapping, counted up'"`
	Rules     uint16    `ch:"rules" sql:"UInt16"`
	Mapping   string    `ch:"mapping" sql:"String COMMENT 'SHA-256 of the tenant mapping, hex'"`
	Tenants   string    `ch:"tenants" sql:"String COMMENT 'the mapping itself, YAML'"`
	Effective time.Time `ch:"effective" sql:"DateTime('UTC') COMMENT 'hours from here on are republished'"`
	CreatedAt time.Time `ch:"created_at" sql:"DateTime64(3, 'UTC')"`
	Claim     string    `ch:"claim" sql:"String COMMENT 'rules and mapping, as one text'"`
}

// Sighting is when a GPU was listed in an hour.
type Sighting struct {
	Cluster     string    `ch:"cluster" sql:"LowCardinality(String)"`
	Hour        time.Time `ch:"hour" sql:"DateTime('UTC')"`
	GPU         string    `ch:"gpu" sql:"LowCardinality(String)"`
	Node        string    `ch:"node" sql:"LowCardinality(String)"`
	Model       string    `ch:"model" sql:"LowCardinality(String)"`
	FirstMS     int64     `ch:"first_ms" sql:"Int64 COMMENT 'Unix ms: start of the hour''s first slot that lists it'"`
	LastMS      int64     `ch:"last_ms" sql:"Int64 COMMENT 'Unix ms: end of the last one'"`
	RunFromMS   int64     `ch:"run_from_ms" sql:"Int64 COMMENT 'Unix ms: where the unbroken run that ends at last_ms began'"`
	SlicesFirst uint32    `ch:"slices_first" sql:"UInt32"`
	SlicesLast  uint32    `ch:"slices_last" sql:"UInt32"`
	KindFirst   uint8     `ch:"kind_first" sql:"UInt8 COMMENT 'meter.Kind, of slices_first'"`
	KindLast    uint8     `ch:"kind_last" sql:"UInt8 COMMENT 'meter.Kind, of the last record'"`
	Version     uint64    `ch:"version" sql:"UInt64"`
}

// Usage is the ledger's row of one GPU and hour, as computed from raw data: the columns from Owners on are parallel
// arrays.
type Usage struct {
	Hour                  time.Time `ch:"hour" sql:"DateTime('UTC')"`
	GPU                   string    `ch:"gpu" sql:"LowCardinality(String)"`
	Node                  string    `ch:"node" sql:"LowCardinality(String) COMMENT 'the last one in the hour'"`
	Model                 string    `ch:"model" sql:"LowCardinality(String)"`
	Slices                uint32    `ch:"slices" sql:"UInt32 COMMENT 'capacity of the hour'"`
	GPUSlices             uint16    `ch:"gpu_slices" sql:"UInt16 DEFAULT slices COMMENT 'slices of one GPU, what slice-ms are divided by: 1000 in a pool, else slices'"`
	Unknown               uint8     `ch:"unknown_capacity" sql:"UInt8 COMMENT '1: a pool whose slices are only what was in use at most'"`
	PresentMS             uint32    `ch:"present_ms" sql:"UInt32 COMMENT 'the part of the hour inside the inventory and before the watermark'"`
	Free                  uint64    `ch:"free" sql:"UInt64 COMMENT 'slice-ms, like all buckets'"`
	Stranded              uint64    `ch:"stranded" sql:"UInt64"`
	Unhealthy             uint64    `ch:"unhealthy" sql:"UInt64"`
	Unobserved            uint64    `ch:"unobserved" sql:"UInt64"`
	UnobservedAttribution uint64    `ch:"unobserved_attribution" sql:"UInt64 COMMENT 'of unobserved: the owners could not be read'"`
	PlatformEnergyMJ      int64     `ch:"platform_energy_mj" sql:"Int64"`
	UnattributedMJ        int64     `ch:"unattributed_mj" sql:"Int64"`
	Leaf                  []string  `ch:"leaf" sql:"Array(LowCardinality(String))"`
	Profile               []string  `ch:"profile" sql:"Array(LowCardinality(String))"`
	ProfileSlices         []uint16  `ch:"profile_slices" sql:"Array(UInt16)"`
	Owner                 []uint64  `ch:"owner" sql:"Array(UInt64)"`
	Tenant                []string  `ch:"tenant" sql:"Array(LowCardinality(String))"`
	Project               []string  `ch:"project" sql:"Array(LowCardinality(String))"`
	User                  []string  `ch:"user" sql:"Array(LowCardinality(String))"`
	Workload              []string  `ch:"workload" sql:"Array(String)"`
	Active                []uint64  `ch:"active" sql:"Array(UInt64)"`
	Idle                  []uint64  `ch:"idle" sql:"Array(UInt64)"`
	Unproven              []uint64  `ch:"unproven" sql:"Array(UInt64)"`
	Inferred              []uint64  `ch:"inferred" sql:"Array(UInt64) COMMENT 'of unproven: inferred over a gap'"`
	Work                  []uint64  `ch:"work" sql:"Array(UInt64)"`
	EnergyMJ              []int64   `ch:"energy_mj" sql:"Array(Int64)"`
	Parked                []uint64  `ch:"parked" sql:"Array(UInt64) COMMENT 'of idle: with an open CUDA context'"`
	RestOwner             []uint16  `ch:"rest_owner" sql:"Array(UInt16) COMMENT 'stretches without work: the position in owner, leaf, …'"`
	RestFrom              []uint32  `ch:"rest_from" sql:"Array(UInt32) COMMENT 'ms of the hour'"`
	RestMS                []uint32  `ch:"rest_ms" sql:"Array(UInt32)"`
	RestSliceMS           []uint64  `ch:"rest_slice_ms" sql:"Array(UInt64)"`
	RestGrade             []uint8   `ch:"rest_grade" sql:"Array(UInt8) COMMENT 'meter.RestGrade: 1 unknown, 2 suspected, 3 proven'"`
	RestReleased          []uint8   `ch:"rest_released" sql:"Array(UInt8) COMMENT '1: the next slot was observed, and the owner no longer held the leaf'"`
}

// UsageHour is a row of the ledger with its inputs.
type UsageHour struct {
	Cluster string `ch:"cluster" sql:"LowCardinality(String)"`
	Usage
	UntilMS  uint32 `ch:"until_ms" sql:"UInt32 COMMENT 'the part of the hour before the watermark'"`
	HourRows uint32 `ch:"hour_rows" sql:"UInt32 COMMENT 'how many rows of its cluster and hour were published with it, itself included'"`
	Epoch    uint32 `ch:"epoch" sql:"UInt32 COMMENT 'of rules and tenant mapping'"`
	Inputs   uint64 `ch:"inputs" sql:"UInt64 COMMENT 'journal rows and retirements that the hour depends on'"`
	Version  uint64 `ch:"version" sql:"UInt64"`
}

// Retirement is an operator's removal of a GPU from the inventory.
type Retirement struct {
	Cluster    string    `ch:"cluster" sql:"LowCardinality(String)"`
	GPU        string    `ch:"gpu" sql:"String"`
	At         time.Time `ch:"at" sql:"DateTime64(3, 'UTC') COMMENT 'the inventory closes at the start of the slot that this lies in'"`
	Who        string    `ch:"who" sql:"String"`
	Reason     string    `ch:"reason" sql:"String"`
	RecordedAt time.Time `ch:"recorded_at" sql:"DateTime64(3, 'UTC')"`
}

// Anomaly is a finding of the analyzer.
type Anomaly struct {
	ID             string    `ch:"id" sql:"String COMMENT 'hash of kind, grade, cluster, tenant, project, workload, user of a spike, place of grade none, start'"`
	Kind           string    `ch:"kind" sql:"LowCardinality(String) COMMENT 'idle_allocation, idle_pattern, off_hours_spike, unobserved, gpu_errors, work_without_owner, telemetry'"`
	Cluster        string    `ch:"cluster" sql:"LowCardinality(String)"`
	Tenant         string    `ch:"tenant" sql:"LowCardinality(String)"`
	Project        string    `ch:"project" sql:"LowCardinality(String)"`
	Workload       string    `ch:"workload" sql:"String"`
	Node           string    `ch:"node" sql:"LowCardinality(String)"`
	GPU            string    `ch:"gpu" sql:"LowCardinality(String)"`
	Leaf           string    `ch:"leaf" sql:"LowCardinality(String)"`
	Start          time.Time `ch:"start" sql:"DateTime('UTC')"`
	End            time.Time `ch:"end" sql:"DateTime('UTC')"`
	WastedGPUHours string    `ch:"wasted_gpu_hours" sql:"Decimal(38, 9)"`
	WastedCost     string    `ch:"wasted_cost" sql:"Decimal(38, 9)"`
	Currency       string    `ch:"currency" sql:"LowCardinality(String)"`
	Evidence       string    `ch:"evidence" sql:"String COMMENT 'why it was flagged, in words with its figures'"`
	User           string    `ch:"user" sql:"LowCardinality(String)"`
	Cause          string    `ch:"cause" sql:"LowCardinality(String) COMMENT 'of idle time: never_started, finished, parked, idle; of unobserved: silent, owners; of gpu_errors: fatal, device, application; of telemetry: contradictory, one_signal, missing'"`
	Grade          string    `ch:"grade" sql:"LowCardinality(String) COMMENT 'proven, suspected, none: of devices or telemetry, never a tenant''s'"`
	Open           uint8     `ch:"open" sql:"UInt8 COMMENT '1: it goes on'"`
	Severity       string    `ch:"severity" sql:"LowCardinality(String) COMMENT 'info, low, medium, high, critical: by cost per day'"`
	Alerted        time.Time `ch:"alerted" sql:"DateTime('UTC') COMMENT 'when the alert budget let it through; 1970-01-01: not'"`
	Parent         string    `ch:"parent" sql:"String COMMENT 'id of the pattern or outage that it belongs to'"`
	Observed       float64   `ch:"observed" sql:"Float64 COMMENT 'GPU-hours: of a spike; of grade none, those that were lost'"`
	Expected       float64   `ch:"expected" sql:"Float64 COMMENT 'of a spike: GPU-hours'"`
	Score          float64   `ch:"score" sql:"Float64 COMMENT 'of a spike: probability of so much or more in its rarest hour'"`
	GPUs           []string  `ch:"gpus" sql:"Array(String) COMMENT 'with leaves: the places it is about'"`
	Leaves         []string  `ch:"leaves" sql:"Array(String)"`
	Facts          string    `ch:"facts" sql:"String COMMENT 'JSON: rules, runs, hours, contributors, cost' CODEC(ZSTD(1))"`
	Version        uint64    `ch:"version" sql:"UInt64"`
	Deleted        uint8     `ch:"deleted" sql:"UInt8 COMMENT '1: no longer found by this version'"`
}

// Allocation is one row of an imported allocation record.
type Allocation struct {
	Cluster   string   `ch:"cluster" sql:"LowCardinality(String)"`
	Source    string   `ch:"source" sql:"LowCardinality(String)"`
	StartMS   int64    `ch:"start_ms" sql:"Int64 COMMENT 'Unix ms'"`
	Record    string   `ch:"record" sql:"String COMMENT 'what tells it from others of the same start: the job, else its facts'"`
	Part      uint32   `ch:"part" sql:"UInt32 COMMENT 'its rows, such as one per node'"`
	EndMS     int64    `ch:"end_ms" sql:"Int64 COMMENT 'Unix ms'"`
	Job       string   `ch:"job" sql:"String"`
	Tenant    string   `ch:"tenant" sql:"String"`
	Project   string   `ch:"project" sql:"String"`
	User      string   `ch:"user" sql:"String"`
	Account   string   `ch:"account" sql:"String"`
	Node      string   `ch:"node" sql:"String"`
	Model     string   `ch:"model" sql:"LowCardinality(String)"`
	Devices   []string `ch:"devices" sql:"Array(String) COMMENT 'UUIDs, where the record names them'"`
	MilliGPUs uint32   `ch:"milli_gpus" sql:"UInt32"`
	SHA256    [32]byte `ch:"sha256" sql:"FixedString(32) COMMENT 'of all of the above'"`
	Revision  uint64   `ch:"revision" sql:"UInt64 COMMENT 'boot_ms of the import run'"`
	Deleted   uint8    `ch:"deleted" sql:"UInt8"`
}

// AllocationHour is the batch that an import produced for a node's hour.
type AllocationHour struct {
	Cluster  string    `ch:"cluster" sql:"LowCardinality(String)"`
	Source   string    `ch:"source" sql:"LowCardinality(String)"`
	Node     string    `ch:"node" sql:"LowCardinality(String)"`
	Hour     time.Time `ch:"hour" sql:"DateTime('UTC')"`
	SHA256   [32]byte  `ch:"sha256" sql:"FixedString(32) COMMENT 'of the batch, its boot and sequence left out'"`
	Revision uint64    `ch:"revision" sql:"UInt64"`
}
