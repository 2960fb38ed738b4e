package ingest

import "time"

// SetAttemptLimit shortens how long one attempt of a step may take.
func (in *Ingester) SetAttemptLimit(d time.Duration) { in.attemptLimit = d }
