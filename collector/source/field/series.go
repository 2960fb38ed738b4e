package field

import (
	"math"
	"regexp"
	"strings"
)

// gpuUtilRatio is the name of two fields: in DCGM 4.6 another name of field 203, in percent; since 4.7 field 1613, a
// ratio.
const gpuUtilRatio = "DCGM_FI_DEV_GPU_UTIL_RATIO"

// driverLabel is the label with the driver's version in dcgm-exporter 4.9. It can be configured with DCGM 4.6, too.
const driverLabel = "DCGM_FI_SYSTEM_DRIVER_VERSION"

// Series is a field under one of its names.
type Series struct {
	Name          string
	field         *Field
	classic, base bool // in the classic or the base unit, of a field that has both
}

// ByName returns a series by its name; false: unknown.
func ByName(name string) (Series, bool) {
	s, ok := byName[name]
	return s, ok
}

// Field is the series' field.
func (s Series) Field() *Field { return s.field }

// Generation is the version of DCGM as inferred from the names in an exposition. Base names exist since 4.7; without
// any of them the classic ones indicate an earlier version, unless the driver label is the new one. The unit is not
// inferred from a single value: 1 may be a hundredth or the whole.
type Generation struct {
	base, classic, label bool
	ratio, percent       bool // values that only one of them can have
}

// See adds a sample of the exposition.
func (g *Generation) See(s Series, value float64, labels map[string]string) {
	g.base = g.base || s.base
	g.classic = g.classic || s.classic
	g.label = g.label || labels[driverLabel] != ""
	if s.Name == gpuUtilRatio && !math.IsNaN(value) && !IsBlank(value) {
		g.ratio = g.ratio || value != math.Trunc(value)
		g.percent = g.percent || value > 1
	}
}

// utilIsRatio returns whether GPU_UTIL_RATIO is a ratio; decided is false if the names don't show it, or its values
// contradict them.
func (g Generation) utilIsRatio() (ratio, decided bool) {
	switch {
	case g.base:
		return true, !g.percent
	case g.classic && !g.label:
		return false, !g.ratio
	}
	return false, false
}

// Value returns a sample's value in the field's Unit, and the id of its DCGM field: the field's own, or its Base's;
// or the reason why it is absent.
func (g Generation) Value(s Series, v float64) (id uint32, value float64, absent string) {
	f, base := s.field, s.base
	if s.Name == gpuUtilRatio {
		ratio, decided := g.utilIsRatio()
		if !decided {
			return f.ID, 0, AbsentUndecided
		}
		base = ratio
	}
	if !base {
		value, absent = f.Check(v)
		return f.ID, value, absent
	}
	if v, absent = finite(v); absent != "" {
		return f.Base.ID, 0, absent
	}
	if v = v * f.Base.Times / f.Base.Per; f.Base.Unit == Ratio {
		v = math.Round(v*1e9) / 1e9 // 0.29 times 100 is 29
	}
	value, absent = f.Check(v)
	return f.Base.ID, value, absent
}

// Merge combines the values of a quantity that two fields report: the field's own if they agree.
func (f *Field) Merge(own, base float64) (value float64, absent string) {
	if d := math.Abs(own - base); d > f.Base.Slack && d > max(own, base)/2 {
		return 0, AbsentContradiction
	}
	return own, ""
}

// Unit of a value.
type Unit string

// The units of fields.
const (
	Percent    Unit = "%"
	Ratio      Unit = "ratio"
	Millijoule Unit = "mJ"
	Joule      Unit = "J"
	Watt       Unit = "W"
	Celsius    Unit = "C"
	MHz        Unit = "MHz"
	Hertz      Unit = "Hz"
	MiB        Unit = "MiB"
	Byte       Unit = "bytes"
)

// spelt maps the spellings of units in HELP texts. NVIDIA writes MB for MiB.
var spelt = map[string]Unit{
	"%": Percent, "percent": Percent, "percentage": Percent,
	"ratio": Ratio, "fraction": Ratio,
	"mJ": Millijoule, "millijoules": Millijoule, "J": Joule, "joules": Joule, "Joules": Joule,
	"W": Watt, "watts": Watt, "Watts": Watt,
	"C": Celsius, "°C": Celsius, "celsius": Celsius, "Celsius": Celsius, "degrees": Celsius,
	"MHz": MHz, "megahertz": MHz, "Hz": Hertz, "hertz": Hertz, "Hertz": Hertz,
	"MiB": MiB, "MB": MiB, "mebibytes": MiB, "bytes": Byte, "B": Byte, "Bytes": Byte,
}

// helpUnit matches "(in mJ)" and "in mJ" at a text's end or before a full stop.
var helpUnit = regexp.MustCompile(`\(in ([^()\s]{1,32})[^()]*\)|\bin (\S{1,32}?)[.,;]?(?:\s|$)`)

// HelpContradicts returns whether a HELP text has another unit than the series, or an unknown one such as (in kWh);
// false for a text without a unit.
func (s Series) HelpContradicts(help string) bool {
	if s.field.Unit == "" {
		return false
	}
	for _, m := range helpUnit.FindAllStringSubmatch(help, -1) {
		unit, known := spelt[strings.TrimRight(m[1]+m[2], ".,;")]
		switch {
		case !known && m[1] == "": // "in use", "in the last second"
		case s.Name == gpuUtilRatio:
			return unit != Percent && unit != Ratio
		case s.base:
			return unit != s.field.Base.Unit
		default:
			return unit != s.field.Unit
		}
	}
	return false
}

// alike are parts of names of fields that are billed or prove work, by field.
var alike = []struct {
	id   uint32
	part string
}{
	{EnergyMJ, "ENERGY"},
	{PowerWatts, "POWER_USAGE"},
	{PowerWatts, "BOARD_POWER"},
	{GPUUtil, "GPU_UTIL"},
	{FBUsed, "FB_USED"},
	{SMActive, "PROF_SM_"},
	{GREngineActive, "GR_ENGINE"},
	{XID, "XID_ERR"},
}

// Alike returns the field that an unknown DCGM name resembles; nil: none of these.
func Alike(name string) *Field {
	upper := strings.ToUpper(name)
	if !strings.HasPrefix(upper, "DCGM_") || strings.HasPrefix(upper, "DCGM_EXP_") {
		return nil
	}
	for _, a := range alike {
		if strings.Contains(upper, a.part) {
			return byID[a.id]
		}
	}
	return nil
}
