//go:build race

package main

import "time"

// tortureRows fits a test run under the race detector.
const tortureRows = 200_000

// hostileMost is what a message may take to decode and settle: the race detector
// slows it down.
const hostileMost = 2 * time.Second
