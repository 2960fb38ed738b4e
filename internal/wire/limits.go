package wire

// The limits of the contract: what hardware can have, and what settlement can do
// in a tenth of a second. A batch over one of them is refused whole, with the
// reason "limits", since it contradicts hardware; a reading over one is absent.
// docs/rules.md lists them.
const (
	// MaxNameBytes is the length of a name: what identifies capacity (cluster,
	// node, collector, GPU, model, leaf, profile), and what Name makes of an owner
	// fact. Kubernetes' own names end at 253 bytes, hardly any comes near it.
	MaxNameBytes = 200
	// MaxTextBytes is the length of any other string, and of an owner fact before
	// Name.
	MaxTextBytes = 1 << 10

	// MinTimeMS is 2000-01-01T00:00:00Z: no GPU was metered before, and a clock that
	// was never set shows 1970. MaxTimeMS is 2106-02-07T06:28:16Z, where the seconds
	// of rows end.
	MinTimeMS = 946_684_800_000
	MaxTimeMS = 1000 << 32
	// MaxSeq is a batch per millisecond for 34 years. Checks add to it.
	MaxSeq = 1 << 40

	// MaxGPUs is how many boards a node has: the largest have 72 in one rack.
	MaxGPUs = 256
	// MaxPools is how many pools a node has: one per model.
	MaxPools = 256
	// MaxSlices is the compute slices of a board or of its leaf: 7 today.
	MaxSlices = 1 << 10
	// MaxPoolSlices is a million GPUs in milli-GPUs: of a pool, and of all pools of
	// a batch together.
	MaxPoolSlices = 1_000_000_000

	// MaxLeavesAtOnce is how many leaves of a board exist at one instant (seven
	// instances of seven compute instances each are 49), MaxBoardLeaves how many in
	// one slot, when MIG is cut anew in it.
	MaxLeavesAtOnce = 64
	MaxBoardLeaves  = 1 << 10
	// MaxLeaves is how many leaves a batch has, of all boards and pools: an
	// allocation of a pool is one.
	MaxLeaves = 1 << 14
	// MaxHolds is how many holds a batch has.
	MaxHolds = 1 << 14
	// MaxHolders is how many holds of a leaf there are at one instant. Time slicing
	// and MPS share a board among 48 clients at most.
	MaxHolders = 128
	// MaxReplicas bounds a share's denominator, which settlement keeps in 16 bits.
	MaxReplicas = 1<<16 - 1

	// MaxObserved is into how many parts a slot is cut by clock steps and failures.
	MaxObserved = 64
	// MaxEvents is how many events a slot has.
	MaxEvents = 1 << 12
	// MaxGaps is how many lost ranges of sequence numbers one batch announces.
	MaxGaps = 1 << 12
	// MaxReasons is how many reasons a boot's counters tell apart.
	MaxReasons = 64
	// MaxMetrics is how many other metrics a GPU or a leaf has.
	MaxMetrics = 256

	// MaxWatts is beyond any board. More power is a broken reading: absent.
	MaxWatts = 3000
	// EnergyToleranceMS lengthens the time an energy delta covers when it is held
	// against MaxWatts: a counter is read up to one period of sampling (1 s) late at
	// either end.
	EnergyToleranceMS = 2000
	// MaxEnergySpanMS is 397 days, longer than a counter runs without a reader. The
	// energy of a longer span is absent.
	MaxEnergySpanMS = 1 << 35
)
