package e2e

import (
	"time"
)

const tortureRows = 2_000_000

// hostileMost is what a message may take to decode and settle.
const hostileMost = 100 * time.Millisecond
