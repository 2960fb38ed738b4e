package attribution

import (
	"context"
	"time"

	"github.com/gputally/gputally/internal/wire"
)

// Device is how a reader names what is held; fields that are empty or nil say
// nothing, those that are set must all match. UUID alone may name a MIG device;
// everything else names a board, and GI and CI a part of it.
type Device struct {
	UUID  string  // GPU-… of a board, or MIG-… of an instance
	Index *uint32 // DCGM's and NVML's index of the board
	Minor *uint32 // N of /dev/nvidiaN
	GI    *uint32 // NVML's GPU-instance id
	CI    *uint32 // NVML's compute-instance id
	// Whole says that the board is meant as one piece: where it has MIG on, the
	// reader can't know which instance it means, and the slot fails.
	Whole bool
}

// Holding is one owner having one device, or one replica of it.
type Holding struct {
	Device  Device
	Replica string // tells the replicas of a shared device apart; empty: the whole device
	Owner   *wire.Owner
}

// Shared is a device that is given out in Replicas shares, held or not (R12).
type Shared struct {
	Device   Device
	Replicas uint32
}

// Snapshot is who holds what at one instant: all of it, or the Reader fails.
type Snapshot struct {
	At       time.Time // when this was so; zero: now
	Holdings []Holding
	Shared   []Shared
}

// Reader is one source of owners.
type Reader interface {
	// Name is the reader's kind, for logs and metrics: "kubelet", "slurm", "static".
	Name() string
	// Read tells who holds what now. An error means that nothing is known, never
	// that nobody holds anything. It returns by the time ctx ends, and is never
	// called concurrently.
	Read(ctx context.Context) (Snapshot, error)
}
