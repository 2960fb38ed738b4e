package meter

// Why is the reason for a row's bucket. Values are stored in table holds; the
// text is stable, programs may compare it.
type Why uint8

// Reasons of settlement, one per row that a batch makes.
const (
	WhyPlain       Why = 0 // no reason is stored
	WhyLost        Why = 1 // unhealthy: the GPU fell off the bus
	WhyFlagged     Why = 2 // unhealthy: by its health, and no work was seen
	WhyAttribution Why = 3 // pending: owners could not be read
	WhyExcess      Why = 4 // unobserved: leaves cover more slices than the GPU has
	WhyInferred    Why = 5 // unproven: a gap of at most GapMaxMS between equal holders
	WhyListed      Why = 6 // unobserved: listed, and nothing of the slot was seen
	WhyCapacity    Why = 7 // unobserved: what no allocation covers of a pool of unknown capacity
	WhyRecords     Why = 8 // unproven: held by allocation records, in a slot of which no batch tells

	WhyActivity    Why = 9  // active: SM_ACTIVE, else GR_ENGINE_ACTIVE, is not quiet
	WhyUtil        Why = 10 // active: no activity was read, and GPU_UTIL is above 0
	WhyShared      Why = 11 // unproven: work, and several owners on the leaf
	WhyQuiet       Why = 12 // idle: at least two signals, all quiet
	WhyParked      Why = 13 // idle: so too, with the power that an open CUDA context takes
	WhyOtherWorks  Why = 14 // idle on MIG: quiet, and another instance works, so the profiler lives
	WhyPartly      Why = 15 // unproven: quiet, and not held in all that was seen of the slot
	WhyNoSignal    Why = 16 // unproven: no signal is valid
	WhyOneSignal   Why = 17 // unproven: one quiet signal is not enough
	WhyContrary    Why = 18 // unproven: activity and utilisation are quiet, power is not; or the like
	WhyMIGBlind    Why = 19 // unproven on MIG: no activity was read
	WhyMIGAlone    Why = 20 // unproven on MIG: quiet, and nothing shows that the profiler lives
	WhyNotHeld     Why = 21 // free
	WhyUnownedWork Why = 22 // free: somebody works without a hold
	WhyPoolFree    Why = 23 // free: what no allocation covers of a pool
	WhyUncovered   Why = 24 // stranded: no leaf covers it
	WhyImported    Why = 25 // unproven: imported from allocation records, which bring no evidence
)

// Reasons of the hour; no row of table holds has them.
const (
	WhyFewer     Why = 40 // stranded: the slot has fewer slices than its hour began with
	WhyNotListed Why = 41 // unhealthy: a complete enumeration lacks the GPU
	WhyNoBatch   Why = 42 // unobserved: no batch of the node tells of the slot
	WhyUnlisted  Why = 43 // unobserved: a partial enumeration lacks the GPU
	WhyNothing   Why = 44 // unobserved: the batch saw nothing of the slot
	WhyPart      Why = 45 // unobserved: the batch saw a part of the slot
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

// EnergyWhy says how the energy of a GPU's slot was split. Values are stored.
type EnergyWhy uint8

// Ways to split energy (R16). In the first three the idle power over the time
// that the counter's movement covers goes to all that was observed, by slice-ms.
const (
	EnergyNone     EnergyWhy = 0 // the counter did not move, or there is none
	EnergyByWork   EnergyWhy = 1 // the rest by slice-ms × activity over held time
	EnergyByTime   EnergyWhy = 2 // the rest by slice-ms over held time: an activity was absent, or all were 0
	EnergyNotHeld  EnergyWhy = 3 // the rest is the platform's: nobody held anything
	EnergyPlatform EnergyWhy = 4 // all is the platform's: the GPU was lost or its owners were not read
	EnergyUnseen   EnergyWhy = 5 // all is the platform's: nothing of the slot was seen
	EnergyLong     EnergyWhy = 6 // unattributed: the movement covers more than 1.5 slots
	EnergyReset    EnergyWhy = 7 // unattributed: the counter was reset
	EnergyRefused  EnergyWhy = 8 // left out: more than a GPU can take in the time
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

// GapWhy says why nothing was inferred of a gap, or not for all leaves (R10).
type GapWhy uint8

// Reasons against inference.
const (
	GapNone      GapWhy = iota
	GapFirst            // nothing is known before the gap
	GapLast             // nothing is known after it
	GapLong             // it is longer than GapMaxMS
	GapHolders          // its two sides have other leaves, holders or shares
	GapNobody           // nobody held anything on either side
	GapMoved            // the GPU went to another node
	GapKnown            // the GPU was lost or overfull in between
	GapRetired          // the GPU was taken out of the inventory in between
	GapOtherwise        // inferred, but for leaves that were listed otherwise or not held
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
