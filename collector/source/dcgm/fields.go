package dcgm

import "github.com/gputally/gputally/collector/source/field"

// DCGM field ids (dcgm_fields.h) of names and events.
const (
	fieldDriver    = 1
	fieldCUDA      = 5
	fieldBind      = 6
	fieldName      = 50
	fieldSerial    = 53
	fieldUUID      = 54
	fieldMinor     = 55
	fieldPCI       = 57
	fieldVBIOS     = 85
	bindCompleted  = 2 // SystemReinitializationCompleted
	firstProfiling = 1001
)

// boardFields are read for each GPU; instanceFields for each instance, including the UUID to notice a recreated one.
var (
	boardFields = []uint16{
		field.MIGMode, field.MIGMaxSlices, 100, 101, 112, 140, field.GPUTemp, field.PowerWatts, field.EnergyMJ,
		202, field.GPUUtil, 204, 250, field.FBFree, field.FBUsed, 253, 310, 311, 312, 313,
		393, 394, field.RowRemapFailure, 449,
	}
	instanceFields = []uint16{fieldUUID, 250, field.FBFree, field.FBUsed, 253}
)

// profilingFields are the instances' profiling fields and PCIe's rates, which only GPUs have. basicProfiling is what
// older GPUs support at least.
var (
	profilingFields = []uint16{
		field.GREngineActive, field.SMActive, 1003, 1004, 1005, 1006, 1007, 1008, 1009,
		1010,
	}
	instanceProfilingFields = profilingFields[:8]
	basicProfiling          = []uint16{field.GREngineActive, field.SMActive, 1004, 1005}
)

var (
	xidFields  = []uint16{field.XID}
	bindFields = []uint16{fieldBind}
)

// activityFields are those whose value is the mean over the slot.
var activityFields = []uint16{field.SMActive, field.GREngineActive}

// isActivity returns a field's index in activityFields; -1: none.
func isActivity(id uint16) int {
	switch id {
	case field.SMActive:
		return 0
	case field.GREngineActive:
		return 1
	}
	return -1
}
