package sim

import "time"

// What the demo fleet (demo.go) is described with.

const (
	day    = 24 * time.Hour
	hour   = time.Hour
	minute = time.Minute
)

// model is what the simulator needs to know of a GPU model.
type model struct {
	name        string // as DCGM_FI_DEV_NAME says it
	slices      uint32 // compute slices of the board
	idleWatts   float64
	restWatts   int64 // least power at rest; it wanders up to 10 W above
	maxWatts    int64 // power at full activity
	memoryMiB   int64
	smClockMHz  float64 // under load
	memClockMHz float64
}

// scheduler says which facts an owner on a node has.
type scheduler string

const (
	kubernetes scheduler = "kubernetes" // namespace, pod, UID
	slurm      scheduler = "slurm"      // job id, user, account
)

// layout is how a board is divided. Without MIG it is one leaf.
type layout struct {
	mig       bool
	instances []instance
	// instancesFrom is the time into each UTC month at which the instances are
	// created; they go at its end. Before it MIG is on and all is stranded.
	instancesFrom time.Duration
	replicas      uint32 // time slicing: the known number of shares; 0: none
}

// instance is a MIG GPU instance with one compute instance.
type instance struct {
	profile   string
	slices    uint32
	memoryMiB int64
}

// tenant is somebody who uses GPUs, with the hours in which it works.
type tenant struct {
	name             string        // Kubernetes namespace and Slurm account
	zoneName         string        // IANA name
	workFrom, workTo time.Duration // both from local midnight, Monday to Friday
	projects         []string
	users            []string

	zone *time.Location
	peak int64 // ms of the UTC day at which its day is busiest: 14:00 local
}

// kind is the habit of a workload.
type kind string

// The habits. A cycle never holds parts of two.
const (
	training  kind = "training"  // one run per cycle, for days, busy
	notebook  kind = "notebook"  // held from some weekday to Friday evening, used in working hours
	inference kind = "inference" // always held, busier by day, a new pod each cycle
	batch     kind = "batch"     // up to jobs runs per cycle, some of a few seconds

	hung  kind = "hung"  // an idle allocation
	spike kind = "spike" // off-hours work
)

// workload is one habit of one tenant on some lanes.
type workload struct {
	name    string // stem of pod names
	kind    kind
	tenant  string
	project string // empty: the tenant's first
	gang    bool   // one owner has all places at once; all on one node
	// cycle is the period of the habit, at most a week; for batch it divides the
	// day. Notebooks take the week.
	cycle       time.Duration
	fillPercent int64 // share of a cycle that is held; notebooks: of the weeks
	jobs        int64 // batch: at most so many a cycle
	workHours   bool  // batch: only cycles that begin in working hours
	places      []place
}

// place names leaves of some boards of a node by their index. No two workloads
// have a lane in common.
type place struct {
	node    string
	boards  []int
	leaves  []int // empty: all leaves of the board
	replica int   // lane of a time-sliced leaf
}

// incidentRule plants one incident in every month: at a time of day, some days
// from the n-th Saturday of the tenant's month, so that every month has it. No two
// incidents have a leaf at the same time, and none is on a time-sliced board.
type incidentRule struct {
	kind      string // IdleAllocation or OffHoursSpike
	tenant    string
	label     string
	saturday  int           // 1 to 4
	dayOffset int           // -6 to 6
	at        time.Duration // local time of day
	length    time.Duration // at most a week
	places    []place
}

// Kinds of incidents, named as the analyzer's findings are.
const (
	IdleAllocation = "idle_allocation"
	OffHoursSpike  = "off_hours_spike"
)

// failureKind says what breaks.
type failureKind string

// The failures. nodeReboot, exporterGap and attributionFailure are a node's, the
// rest a board's.
const (
	gpuLost            failureKind = "gpu_lost"            // off the bus until a reset
	gpuUnhealthy       failureKind = "gpu_unhealthy"       // flagged and at rest until a reset
	nodeReboot         failureKind = "node_reboot"         // no batches, then new counters
	exporterGap        failureKind = "exporter_gap"        // nothing seen, work goes on
	attributionFailure failureKind = "attribution_failure" // owners can't be read
	energyReset        failureKind = "energy_reset"        // at one instant
)

// failure recurs on one day of every UTC month. Reboots and gaps end within their
// day: energy over the blind time is read in the day in which it ends.
type failure struct {
	kind   failureKind
	node   string
	board  int
	day    int           // of the month, 1 to 28
	at     time.Duration // into that UTC day
	length time.Duration // at most a day
	xid    int64         // reported at the start; 0: none
}
