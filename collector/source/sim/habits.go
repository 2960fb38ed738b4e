package sim

import "time"

// Types that describe the demo fleet (demo.yaml).

// model has the properties of a GPU model that the simulator needs.
type model struct {
	Name        string // as reported by DCGM_FI_DEV_NAME
	Slices      uint32 // compute slices of the board
	IdleWatts   float64
	RestWatts   int64 // minimum power at rest; it varies up to 10 W above
	MaxWatts    int64 // power at full activity
	MemoryMib   int64
	SMClockMhz  float64 // under load
	MemClockMhz float64
}

// scheduler determines which facts a node's owners have.
type scheduler string

const (
	kubernetes scheduler = "kubernetes" // namespace, pod, UID
	slurm      scheduler = "slurm"      // job id, user, account
)

// layout is how a board is divided. Without MIG it is one leaf.
type layout struct {
	MIG       bool
	Instances []instance
	// InstancesFrom is the time into each UTC month at which the instances are
	// created; they are destroyed at its end. Before it MIG is enabled and all slices are stranded.
	InstancesFrom time.Duration
	Replicas      uint32 // time slicing: the known number of shares; 0: none
}

// instance is a MIG GPU instance with one compute instance.
type instance struct {
	Profile   string
	Slices    uint32
	MemoryMib int64
}

// tenant is a tenant with its working hours.
type tenant struct {
	Name             string        // Kubernetes namespace and Slurm account
	TimeZone         string        // IANA name
	WorkFrom, WorkTo time.Duration // both from local midnight, Monday to Friday
	Projects         []string

	users []string
	zone  *time.Location
	peak  int64 // ms of the UTC day at which it is busiest: 14:00 local
}

// kind is the pattern of a workload.
type kind string

// The patterns. A cycle belongs to a single pattern.
const (
	training  kind = "training"  // one run per cycle, for days, busy
	notebook  kind = "notebook"  // held from some weekday to Friday evening, used in working hours
	inference kind = "inference" // always held, busier by day, a new pod each cycle
	batch     kind = "batch"     // up to jobs runs per cycle, some of a few seconds

	hung  kind = "hung"  // an idle allocation
	spike kind = "spike" // off-hours work
)

// workload is one pattern of one tenant on some lanes.
type workload struct {
	Name    string // prefix of pod names
	Kind    kind
	Tenant  string
	Project string // empty: the tenant's first
	Gang    bool   // one owner has all places at once; all on one node
	// Cycle is the period of the pattern, at most a week; for batch it divides the
	// day. Notebooks have a week.
	Cycle       time.Duration
	FillPercent int64 // share of a cycle that is held; notebooks: of the weeks
	Jobs        int64 // batch: at most so many a cycle
	WorkHours   bool  // batch: only cycles that begin in working hours
	Places      []place
}

// place are leaves of some boards of a node, by their index. No two workloads share a lane.
type place struct {
	Node    string
	Boards  []int
	Leaves  []int // empty: all leaves of the board
	Replica int   // lane of a time-sliced leaf
}

// incidentRule plants one incident in every month: at a time of day, some days from the n-th Saturday of the tenant's
// month, so that every month has it. No two incidents have a leaf at the same time, and none is on a time-sliced
// board.
type incidentRule struct {
	Kind      string // IdleAllocation or OffHoursSpike
	Tenant    string
	Label     string
	Saturday  int           // 1 to 4
	DayOffset int           // -6 to 6
	At        time.Duration // local time of day
	Length    time.Duration // at most a week
	Places    []place
}

// Kinds of incidents, named like the analyzer's findings.
const (
	IdleAllocation = "idle_allocation"
	OffHoursSpike  = "off_hours_spike"
)

// failureKind is what fails.
type failureKind string

// The failures. nodeReboot, exporterGap and attributionFailure concern a node, the others a board.
const (
	gpuLost            failureKind = "gpu_lost"            // off the bus until a reset
	gpuUnhealthy       failureKind = "gpu_unhealthy"       // marked as unhealthy and idle until a reset
	nodeReboot         failureKind = "node_reboot"         // no batches, then new counters
	exporterGap        failureKind = "exporter_gap"        // nothing is observed, work continues
	attributionFailure failureKind = "attribution_failure" // owners can't be read
	energyReset        failureKind = "energy_reset"        // at one instant
)

// failure recurs on one day of every UTC month. Reboots and gaps end within their day: the energy of the unobserved
// time is read in the day in which it ends.
type failure struct {
	Kind   failureKind
	Node   string
	Board  int
	Day    int           // of the month, 1 to 28
	At     time.Duration // into that UTC day
	Length time.Duration // at most a day
	XID    int64         // reported at the start; 0: none
}
