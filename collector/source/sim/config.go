package sim

import "time"

// Config describes a fleet and its habits. Together with the slot it is all
// that Read depends on.
type Config struct {
	Seed    int64
	Cluster string // must say that it is simulated, for people
	// WindowFrom and WindowTo declare the time window of the batches (R11),
	// the end exclusive. Slots outside it are refused.
	WindowFrom, WindowTo time.Time
	Models               []Model
	Nodes                []Node
	Tenants              []Tenant
	Workloads            []Workload
	Incidents            []IncidentRule
	Failures             []Failure
}

// Model is what the simulator needs to know of a GPU model.
type Model struct {
	Name        string // as DCGM_FI_DEV_NAME says it
	Slices      uint32 // compute slices of the board
	IdleWatts   float64
	QuietWatts  int64 // least power at rest; it wanders up to 10 W above
	MaxWatts    int64 // power at full activity
	MemoryMiB   int64
	SMClockMHz  float64 // under load
	MemClockMHz float64
}

// Scheduler says which facts an owner on a node has.
type Scheduler string

// The schedulers that are simulated.
const (
	Kubernetes Scheduler = "kubernetes" // namespace, pod, UID
	Slurm      Scheduler = "slurm"      // job id, user, account
)

// Node is a machine with boards of one model.
type Node struct {
	Name, Model string
	Scheduler   Scheduler
	Boards      []Board
}

// Board is one GPU. Without instances and MIG it is one leaf.
type Board struct {
	MIG       bool
	Instances []Instance
	// InstancesFrom is the time into each UTC month at which the instances are
	// created; they go at its end. Before it MIG is on and all is stranded.
	InstancesFrom time.Duration
	Replicas      uint32 // time slicing: the known number of shares; 0: none
}

// Instance is a MIG GPU instance with one compute instance.
type Instance struct {
	Profile   string
	Slices    uint32
	MemoryMiB int64
}

// Tenant is somebody who uses GPUs, with the hours in which it works.
type Tenant struct {
	Name     string // Kubernetes namespace and Slurm account
	Zone     string // IANA name
	WorkFrom time.Duration
	WorkTo   time.Duration // both from local midnight, Monday to Friday
	Projects []string
	Users    []string
}

// Kind is the habit of a workload.
type Kind string

// The habits. A cycle never holds parts of two.
const (
	Training  Kind = "training"  // one run per cycle, for days, busy
	Notebook  Kind = "notebook"  // held from some weekday to Friday evening, used in working hours
	Inference Kind = "inference" // always held, busier by day, a new pod each cycle
	Batch     Kind = "batch"     // up to Jobs runs per cycle, some of a few seconds
)

// Workload is one habit of one tenant on some lanes.
type Workload struct {
	Name    string // stem of pod names
	Kind    Kind
	Tenant  string
	Project string // empty: the tenant's first
	Places  []Place
	Gang    bool // one owner has all places at once; all on one node
	// Cycle is the period of the habit; for batch it divides the day.
	// Notebooks take the week.
	Cycle       time.Duration
	FillPercent int64 // share of a cycle that is held; notebooks: of the weeks
	Jobs        int64 // batch: at most so many a cycle
	WorkHours   bool  // batch: only cycles that begin in working hours
}

// Place names leaves of some boards of a node by their index.
type Place struct {
	Node    string
	Boards  []int
	Leaves  []int // empty: all leaves of the board
	Replica int   // lane of a time-sliced leaf
}

// IncidentRule plants one incident in every month: at a time of day, some days
// from the n-th Saturday of the tenant's month, so that every month has it.
type IncidentRule struct {
	Kind      string // IdleAllocation or OffHoursSpike
	Tenant    string
	Label     string
	Saturday  int // 1 to 4
	DayOffset int
	At        time.Duration // local time of day
	Length    time.Duration
	Places    []Place
}

// Kinds of incidents, named as the analyzer's findings are.
const (
	IdleAllocation = "idle_allocation"
	OffHoursSpike  = "off_hours_spike"
)

// FailureKind says what breaks.
type FailureKind string

// The failures. Reboot and ExporterGap are a node's, the rest a board's, except
// AttributionFailure, which is a node's too.
const (
	GPULost            FailureKind = "gpu_lost"            // off the bus until a reset
	GPUUnhealthy       FailureKind = "gpu_unhealthy"       // flagged and at rest until a reset
	NodeReboot         FailureKind = "node_reboot"         // no batches, then new counters
	ExporterGap        FailureKind = "exporter_gap"        // nothing seen, work goes on
	AttributionFailure FailureKind = "attribution_failure" // owners can't be read
	EnergyReset        FailureKind = "energy_reset"        // at one instant
)

// Failure recurs on one day of every UTC month.
type Failure struct {
	Kind   FailureKind
	Node   string
	Board  int
	Day    int           // of the month, 1 to 28
	At     time.Duration // into that UTC day
	Length time.Duration
	XID    int64 // reported at the start; 0: none
}
