package field

import (
	_ "embed"
	"maps"
	"math"
	"slices"

	"github.com/gputally/gputally/internal/config"
)

// DCGM field ids (dcgm_fields.h) that are used individually.
const (
	MIGMode         = 67
	MIGMaxSlices    = 69
	GPUTemp         = 150
	PowerWatts      = 155
	EnergyMJ        = 156
	GPUUtil         = 203
	XID             = 230
	FBFree          = 251
	FBUsed          = 252
	RowRemapFailure = 395
	GREngineActive  = 1001
	SMActive        = 1002
)

// Field is one quantity as DCGM measures it: its names in all versions, and the range outside of which a value is
// impossible. Min, Max and every value that this package returns are in Unit.
type Field struct {
	ID       uint32
	Names    []string // classic, DCGM 4.6, dcgm-exporter 1.x; the first is displayed
	Unit     Unit     // empty: HELP texts are not compared with it
	Min, Max float64
	Instance bool // measured per MIG instance; else the board's, repeated
	Counter  bool // only increases, until a reset. dcgm-exporter's list has rates as counters, too
	// Help describes the field, after dcgm_fields.h, with its unit; empty: batches don't contain the field.
	Help string
	Base Base
}

// Base is the same quantity as a separate DCGM field in a base unit (DCGM 4.7, dcgm-exporter 4.9); zero: none.
type Base struct {
	ID   uint32
	Name string
	Unit Unit
	// Times and Per convert Unit to the field's: v*Times/Per, exact for whole values.
	Times, Per float64
	// Slack is by how much, in the field's Unit, the two may differ if both are reported: they are read one after the
	// other, and rounded differently.
	Slack float64
}

// ByID returns a field by DCGM's id; nil: unknown.
func ByID(id uint32) *Field { return byID[id] }

// Names are all known names, ascending.
func Names() []string { return slices.Sorted(maps.Keys(byName)) }

// WithBase are the fields that have a Base, by id.
func WithBase() []*Field { return withBase }

// OnInstance returns whether a value of the field on an instance's row is the instance's own; otherwise it is the
// board's, repeated.
func OnInstance(id uint32) bool {
	f := byID[id]
	return f != nil && f.Instance
}

//go:embed fields.yaml
var fieldsYAML []byte

var (
	table    struct{ Fields []Field }
	byName   = map[string]Series{}
	byID     = map[uint32]*Field{}
	withBase []*Field
)

func init() {
	if err := config.Decode("fields.yaml", fieldsYAML, &table); err != nil {
		panic(err) // the file is a part of the program
	}
	for i := range table.Fields {
		f := &table.Fields[i]
		byID[f.ID] = f
		for _, name := range f.Names {
			byName[name] = Series{Name: name, field: f, classic: f.Base.ID != 0 && name != gpuUtilRatio}
		}
		if f.Base.ID == 0 {
			continue
		}
		withBase = append(withBase, f)
		if f.Base.Name != gpuUtilRatio {
			byName[f.Base.Name] = Series{Name: f.Base.Name, field: f, base: true}
		}
	}
}

// Reasons for absent values.
const (
	AbsentBlank = "blank" // a DCGM sentinel: not supported, not found, no permission
	AbsentNaN   = "nan"   // NaN or infinite
	AbsentRange = "range" // impossible for the field
	// AbsentUndecided is for GPU_UTIL_RATIO if its unit is unknown.
	AbsentUndecided = "undecided_unit"
	AbsentHelp      = "help_unit" // HELP has another unit than the table, or an unknown one
	// AbsentContradiction is for two names of a quantity whose values contradict each other.
	AbsentContradiction = "contradiction"
)

// Check returns v if it is a possible value of f; otherwise the reason why it is absent. Ratios are averages and may
// exceed 1 by rounding: up to 1 % more counts as 1.
func (f *Field) Check(v float64) (value float64, absent string) {
	v, absent = finite(v)
	switch {
	case absent != "":
		return 0, absent
	case f.Max == 1 && f.Instance && v > 1 && v <= 1.01:
		return 1, ""
	case v < f.Min || v > f.Max:
		return 0, AbsentRange
	}
	return v, ""
}

func finite(v float64) (value float64, absent string) {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return 0, AbsentNaN
	case IsBlank(v):
		return 0, AbsentBlank
	}
	return v, ""
}

// IsBlank recognises DCGM's blank values in texts: int64 0x7ffffffffffffff0 to …f3 (equal as float64), int32
// 0x7ffffff0 to …f3 widened, and float64 2^47 to 2^47+3 (dcgm_structs.h, DCGM_*_BLANK).
func IsBlank(v float64) bool {
	const int64Blank, int32Blank, doubleBlank = 9223372036854775792, 2147483632, 140737488355328
	return v >= int64Blank ||
		(v >= int32Blank && v <= int32Blank+3) ||
		(v >= doubleBlank && v <= doubleBlank+3)
}
