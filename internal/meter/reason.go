package meter

// Why is the reason for a row's bucket. The values are stored in table holds; the
// texts are stable, programs may compare them.
type Why uint8

// Reasons given by Classify, one per row.
const (
	WhyPlain       Why = 0 // no reason is stored
	WhyLost        Why = 1 // unhealthy: the GPU fell off the bus
	WhyFlagged     Why = 2 // unhealthy: flagged by its health, and no work was seen
	WhyAttribution Why = 3 // pending: the owners are unknown
	WhyExcess      Why = 4 // unobserved: leaves cover more slices than the GPU has
	WhyInferred    Why = 5 // unproven: inferred over a gap of at most GapMaxMS between equal holders
	WhyListed      Why = 6 // unobserved: listed, but no part of the slot was observed
	WhyCapacity    Why = 7 // unobserved: not covered by an allocation, in a pool of unknown capacity
	WhyRecords     Why = 8 // unproven: held by allocation records, in a slot without a collector's batch

	WhyActivity    Why = 9  // active: SM_ACTIVE, or GR_ENGINE_ACTIVE without it, is not quiet
	WhyUtil        Why = 10 // active: there is no activity metric, and GPU_UTIL is above 0
	WhyShared      Why = 11 // unproven: work by one of several owners on the leaf
	WhyQuiet       Why = 12 // idle: at least two signals, all quiet
	WhyParked      Why = 13 // idle: as WhyQuiet, and power is above idle by what an open CUDA context takes; on MIG, no instance works
	WhyOtherWorks  Why = 14 // idle on MIG: quiet while another instance works, so profiling metrics are collected
	WhyPartly      Why = 15 // unproven: quiet, but held for only a part of the observed slot
	WhyNoSignal    Why = 16 // unproven: no signal is valid
	WhyOneSignal   Why = 17 // unproven: only one signal is valid, and quiet; two are needed
	WhyContrary    Why = 18 // unproven: signals disagree, such as quiet activity and utilisation but high power
	WhyMIGBlind    Why = 19 // unproven on MIG: there is no activity metric
	WhyMIGAlone    Why = 20 // unproven on MIG: quiet, and nothing shows that profiling metrics are collected
	WhyNotHeld     Why = 21 // free
	WhyUnownedWork Why = 22 // free: work by a process that holds nothing
	WhyPoolFree    Why = 23 // free: the part of a pool that no allocation covers
	WhyUncovered   Why = 24 // stranded: no leaf covers it
	WhyImported    Why = 25 // unproven: imported from allocation records, which contain no evidence of work
)

// Reasons given by Hour; no row of table holds has them.
const (
	WhyFewer     Why = 40 // stranded: the slot has fewer slices than the hour began with
	WhyNotListed Why = 41 // unhealthy: missing from a complete list of the node's GPUs
	WhyNoBatch   Why = 42 // unobserved: the node has no batch for the slot
	WhyUnlisted  Why = 43 // unobserved: missing from a partial list of the node's GPUs
	WhyNothing   Why = 44 // unobserved: the batch observed no part of the slot
	WhyPart      Why = 45 // unobserved: the batch observed only a part of the slot
)

var whyNames = [...]string{
	WhyPlain: "not_stored", WhyLost: "lost", WhyFlagged: "flagged", WhyAttribution: "attribution", WhyExcess: "excess",
	WhyInferred: "inferred", WhyListed: "listed_only", WhyCapacity: "unknown_capacity", WhyRecords: "allocation_record",
	WhyActivity: "activity", WhyUtil: "gpu_util", WhyShared: "shared_work", WhyQuiet: "quiet", WhyParked: "parked",
	WhyOtherWorks: "mig_other_works", WhyPartly: "held_partly", WhyNoSignal: "no_signal", WhyOneSignal: "one_signal",
	WhyContrary: "contradictory", WhyMIGBlind: "mig_no_activity", WhyMIGAlone: "mig_unproven", WhyNotHeld: "not_held",
	WhyUnownedWork: "unowned_work", WhyPoolFree: "not_allocated", WhyUncovered: "uncovered", WhyImported: "imported",
	WhyFewer:     "fewer_slices",
	WhyNotListed: "not_enumerated", WhyNoBatch: "no_batch", WhyUnlisted: "not_listed", WhyNothing: "nothing_seen",
	WhyPart: "slot_in_part",
}

func (w Why) String() string {
	if int(w) < len(whyNames) && whyNames[w] != "" {
		return whyNames[w]
	}
	return "why?"
}

// EnergyWhy is how the energy of a GPU's slot was split. The values are stored.
type EnergyWhy uint8

// Ways to split energy (R16). In the first three the idle power, over the time that
// the counter's movement covers, goes to all observed rows by slice-ms.
const (
	EnergyNone     EnergyWhy = 0 // the counter did not move, or the GPU has none
	EnergyByWork   EnergyWhy = 1 // the rest by slice-ms × activity over held time
	EnergyByTime   EnergyWhy = 2 // the rest by slice-ms over held time: an activity is unknown, or all are 0
	EnergyNotHeld  EnergyWhy = 3 // the rest goes to the platform: nothing was held
	EnergyPlatform EnergyWhy = 4 // all goes to the platform: the GPU was lost or its owners are unknown
	EnergyUnseen   EnergyWhy = 5 // all goes to the platform: no part of the slot was observed
	EnergyLong     EnergyWhy = 6 // unattributed: the counter's movement covers more than 1.5 slots
	EnergyReset    EnergyWhy = 7 // unattributed: the counter was reset
	EnergyRefused  EnergyWhy = 8 // left out: more than a GPU can take in that time
)

var energyNames = [...]string{
	EnergyNone: "none", EnergyByWork: "by_work", EnergyByTime: "by_time", EnergyNotHeld: "not_held",
	EnergyPlatform: "platform",
	EnergyUnseen:   "nothing_seen", EnergyLong: "long_movement", EnergyReset: "reset", EnergyRefused: "implausible",
}

func (e EnergyWhy) String() string {
	if int(e) < len(energyNames) {
		return energyNames[e]
	}
	return "energy?"
}

// GapWhy is why a gap, or some leaves of it, was not inferred (R10).
type GapWhy uint8

// Reasons against inference.
const (
	GapNone      GapWhy = iota
	GapFirst            // nothing is known before the gap
	GapLast             // nothing is known after it
	GapLong             // it is longer than GapMaxMS
	GapHolders          // its two sides differ in leaves, holders or shares
	GapNobody           // nothing was held on either side
	GapMoved            // the GPU went to another node
	GapKnown            // the GPU was lost, or its batch exceeded its capacity, in between
	GapRetired          // the GPU was retired in between
	GapOtherwise        // inferred, except for leaves that were listed differently or not held
)

var gapNames = [...]string{
	GapNone: "", GapFirst: "nothing_before", GapLast: "nothing_after", GapLong: "too_long", GapHolders: "holders_differ",
	GapNobody: "not_held",
	GapMoved:  "moved", GapKnown: "known_otherwise", GapRetired: "retired", GapOtherwise: "in_part",
}

func (g GapWhy) String() string {
	if int(g) < len(gapNames) {
		return gapNames[g]
	}
	return "gap?"
}
