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

var bucketNames = [...]string{"", "active", "idle", "unproven", "free", "stranded", "unhealthy",
	"unobserved", "pending"}

func (b Bucket) String() string {
	if int(b) < len(bucketNames) {
		return bucketNames[b]
	}
	return "bucket?"
}
