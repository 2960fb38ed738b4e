package exporter

import (
	"strings"

	"github.com/gputally/gputally/collector/source/field"
)

// Reasons for absent values, in addition to package field's.
const (
	absentMIGUtil = "mig_gpu_util"
	absentNoGPU   = "no_gpu" // the row has no GPU
	// absentUnknown: the metric looks like a needed one, but its name isn't in the table, as in an unknown version.
	absentUnknown = "unknown_name"
)

// ownField returns whether a field has a place of its own in the batch, so that it isn't repeated among the metrics.
func ownField(id uint32) bool {
	switch id {
	case field.MIGMode, field.MIGMaxSlices, field.PowerWatts, field.EnergyMJ, field.GPUUtil,
		field.GREngineActive, field.SMActive:
		return true
	}
	return false
}

// trueLabel parses a DCGM boolean that is exported as a label.
func trueLabel(s string) (on, known bool) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "1", "true", "enabled":
		return true, true
	case "0", "false", "disabled":
		return false, true
	}
	return false, false
}
