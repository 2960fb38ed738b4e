package meter

// Bucket is where slice-milliseconds go. Values are stored.
type Bucket uint8

// The seven buckets, and Pending for what only the hour can decide.
const (
	Active     Bucket = 1 // held, evidence of work
	Idle       Bucket = 2 // held, evidence of no work
	Unproven   Bucket = 3 // held, evidence missing or contradictory
	Free       Bucket = 4 // observed, not held
	Stranded   Bucket = 5 // no leaf covers it
	Unhealthy  Bucket = 6 // lost, or flagged and not doing work
	Unobserved Bucket = 7 // nobody could see
	Pending    Bucket = 8 // decided with the hour (R10); never in the ledger
)

var bucketNames = [...]string{"", "active", "idle", "unproven", "free", "stranded", "unhealthy", "unobserved", "pending"}

func (b Bucket) String() string {
	if int(b) < len(bucketNames) {
		return bucketNames[b]
	}
	return "bucket?"
}

// Why says what put a row into its bucket. Values are stored.
type Why uint8

// Reasons; WhyRule is the plain course of R9.
const (
	WhyRule        Why = 0
	WhyLost        Why = 1 // the GPU fell off the bus
	WhyFlagged     Why = 2 // health flag
	WhyAttribution Why = 3 // owners could not be read (R4)
	WhyExcess      Why = 4 // leaves beyond the GPU's slices
	WhyInferred    Why = 5 // a gap inside the slot between equal holders (R10)
	WhyListed      Why = 6 // listed, but nothing of the slot was seen
	WhyCapacity    Why = 7 // of a pool of unknown capacity, and in nobody's allocation (R18)
	WhyRecords     Why = 8 // held by allocation records, in a slot that nobody saw (R18)
)
