package meter

// Bucket classifies slice-milliseconds. The values are stored.
type Bucket uint8

// The seven buckets, and Pending for time that only the whole hour can classify.
const (
	Active     Bucket = 1 // held, with evidence of work
	Idle       Bucket = 2 // held, with evidence that no work was done
	Unproven   Bucket = 3 // held, with evidence missing or contradictory
	Free       Bucket = 4 // observed, not held
	Stranded   Bucket = 5 // no leaf covers it
	Unhealthy  Bucket = 6 // lost, or flagged by its health and not doing work
	Unobserved Bucket = 7 // nobody observed the GPU
	Pending    Bucket = 8 // classified with the hour, when gaps are known (R10); never in the ledger
)

var bucketNames = [...]string{
	"", "active", "idle", "unproven", "free", "stranded", "unhealthy",
	"unobserved", "pending",
}

func (b Bucket) String() string {
	if int(b) < len(bucketNames) {
		return bucketNames[b]
	}
	return "bucket?"
}
