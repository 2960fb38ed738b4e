package local

import (
	"math"
	"time"

	"github.com/gputally/gputally/collector/source/gpustate"
)

// Reading is a node's state at one instant, the end of a slot.
type Reading struct {
	At       time.Time
	Complete bool // every GPU of the node is listed (R2)
	GPUs     []GPU
	XIDs     []XID // since the previous reading
}

// GPU is one GPU.
type GPU struct {
	UUID, Model string
	Index       uint32
	Slices      uint32 // compute slices, from the device; 0: determined by the model
	MIG         bool
	Lost        bool // listed, but no longer answers
	// Reset: the driver was reloaded or the GPU reset since the previous reading, if that is known by more than the
	// energy counter.
	Reset    bool
	EnergyAt time.Time // when the energy counter was read; zero: Reading.At
	Values   []Value
	// Instances are the GPU instances without compute instances, and all compute instances.
	Instances []Instance
}

// Key identifies an instance from look to look.
type Key struct {
	GI      uint32
	CI      int64 // -1: the GPU instance has no compute instance
	Profile string
	UUID    string // MIG-…, if known
	Slices  uint32 // compute slices, from the device; 0: determined by the profile
}

// Instance is an instance that can be allocated to a workload.
type Instance struct {
	Key
	Values []Value
}

// Value is the value of a DCGM field; NaN: absent.
type Value struct {
	ID uint32
	V  float64
}

// XID is one error event.
type XID struct {
	At   time.Time
	UUID string
	Part gpustate.Part
	Code int64
}

// find returns a field's value in a list; NaN: none.
func find(values []Value, id uint32) float64 {
	for _, v := range values {
		if v.ID == id {
			return v.V
		}
	}
	return math.NaN()
}
