package attribution

import (
	"context"
	"time"

	"github.com/gputally/gputally/internal/wire"
)

// Device is a reader's name of a held device. Fields that are empty or nil match any; all others must match. UUID
// alone may name a MIG device; all other fields name a board, and GI and CI a part of it.
type Device struct {
	UUID  string  // GPU-… of a board, or MIG-… of an instance
	Index *uint32 // DCGM's and NVML's index of the board
	Minor *uint32 // N of /dev/nvidiaN
	GI    *uint32 // NVML's GPU-instance id
	CI    *uint32 // NVML's compute-instance id
	// Whole means that the board is held as one piece: if it has MIG enabled, the reader can't know which instance is
	// meant, and the slot fails.
	Whole bool
}

// Holding is one owner having one device, or one replica of it.
type Holding struct {
	Device  Device
	Replica string // identifies a replica of a shared device; empty: the whole device
	Owner   *wire.Owner
}

// Shared is a device that is offered in Replicas shares, held or not (R12).
type Shared struct {
	Device   Device
	Replicas uint32
}

// Snapshot is all holdings at one instant; if some are unknown, the Reader fails.
type Snapshot struct {
	At       time.Time // when it was taken; zero: now
	Holdings []Holding
	Shared   []Shared
}

// Reader is a source of owners.
type Reader interface {
	// Name is the reader's kind, for logs and metrics: "kubelet", "slurm", "static".
	Name() string
	// Read returns the current holdings. An error means that they are unknown, never that there are none. It returns
	// by the time ctx ends, and is never called concurrently.
	Read(ctx context.Context) (Snapshot, error)
}
