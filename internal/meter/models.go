package meter

import "strings"

// Model is what is known about a GPU model without asking the device.
type Model struct {
	Name      string         // the family, such as "H100"
	Slices    int            // compute slices of the whole board; 1 without MIG
	IdleWatts float64        // board power at rest, in W; 0: unknown
	Profiles  map[string]int // MIG GPU-instance profile, without attributes such as +me, to its compute slices
}

// models is searched from the top: a model matches if all its words are words of the
// device's name.
//
// Slices and profiles: NVIDIA Multi-Instance GPU User Guide, "Supported MIG
// Profiles"; for GB200 and B300 the profile lists that AWS publishes for
// SageMaker HyperPod P6e and P6.
//
// Idle watts are thresholds ("at rest" is at or below them), set a few watts
// above what was measured at rest without a CUDA context:
//   - A100: 75.7 to 76.0 W with MIG on and nothing running, in dcgm-exporter
//     captures published with run-ai/fake-gpu-operator; hence 80.
//   - H100 (SXM): 65.7 to 68.7 W on the seven unallocated GPUs of a node, in the
//     dcgm-exporter capture published with NVIDIA/aicr; hence 80.
//   - H200 (SXM): 73.65 W mean (conservemode.com, "H200 GPU Idle State
//     Validation", nvidia-smi at 1 s) and 80.3 W (serialalice.pt, "GPU Energy
//     Benchmark"); hence 85.
//
// An open CUDA context alone adds 26 to 50 W on these boards (arXiv:2605.23918), so
// power up to 60 W above the figure is quiet, too (ContextWatts). Where no measurement
// was found the figure is 0, and power is no evidence.
//
// Before a board with a small power limit gets a figure, compare the limit with the
// figure plus 60 W: a T4 (limit 70 W) or L4 (72 W) would be quiet by power at nearly
// every load. Its power would show nothing, and activity and utilisation alone would
// have to show work.
var models = []struct {
	words []string
	model Model
}{
	{[]string{"A100"}, Model{Name: "A100", Slices: 7, IdleWatts: 80, Profiles: profilesA100}},
	{[]string{"A100X"}, Model{Name: "A100X", Slices: 7, Profiles: profilesA100}},
	{[]string{"A800"}, Model{Name: "A800", Slices: 7, IdleWatts: 80, Profiles: profilesA100}},
	{[]string{"GH200"}, Model{Name: "GH200", Slices: 7, Profiles: profilesH200}},
	{[]string{"H100"}, Model{Name: "H100", Slices: 7, IdleWatts: 80, Profiles: profilesH100}},
	{[]string{"H800"}, Model{Name: "H800", Slices: 7, IdleWatts: 80, Profiles: profilesH100}},
	{[]string{"H20"}, Model{Name: "H20", Slices: 7, Profiles: profilesH200}},
	{[]string{"H200"}, Model{Name: "H200", Slices: 7, IdleWatts: 85, Profiles: profilesH200}},
	{[]string{"B200"}, Model{Name: "B200", Slices: 7, Profiles: profilesB200}},
	{[]string{"GB200"}, Model{Name: "GB200", Slices: 7, Profiles: profilesB200}},
	{[]string{"B300"}, Model{Name: "B300", Slices: 7, Profiles: profilesB300}},
	{[]string{"GB300"}, Model{Name: "GB300", Slices: 7, Profiles: profilesB300}},
	{[]string{"A30"}, Model{Name: "A30", Slices: 4, Profiles: profilesA30}},
	{[]string{"A30X"}, Model{Name: "A30X", Slices: 4, Profiles: profilesA30}},
	{[]string{"RTX", "PRO", "6000"}, Model{Name: "RTX PRO 6000", Slices: 4, Profiles: profilesPRO6000}},
	{[]string{"RTX", "PRO", "5000"}, Model{Name: "RTX PRO 5000", Slices: 2, Profiles: profilesPRO5000}},
	{[]string{"RTX", "PRO", "4500"}, Model{Name: "RTX PRO 4500", Slices: 2, Profiles: profilesPRO4500}},
	{[]string{"V100"}, Model{Name: "V100", Slices: 1}},
	{[]string{"P100"}, Model{Name: "P100", Slices: 1}},
	{[]string{"T4"}, Model{Name: "T4", Slices: 1}},
	{[]string{"A2"}, Model{Name: "A2", Slices: 1}},
	{[]string{"A10"}, Model{Name: "A10", Slices: 1}},
	{[]string{"A10G"}, Model{Name: "A10G", Slices: 1}},
	{[]string{"A16"}, Model{Name: "A16", Slices: 1}},
	{[]string{"A40"}, Model{Name: "A40", Slices: 1}},
	{[]string{"L4"}, Model{Name: "L4", Slices: 1}},
	{[]string{"L40"}, Model{Name: "L40", Slices: 1}},
	{[]string{"L40S"}, Model{Name: "L40S", Slices: 1}},
}

// Boards of one family differ in memory, which changes a profile's name but
// not its slices, so one table serves a family.
var (
	profilesA100 = map[string]int{
		"1g.5gb": 1, "2g.10gb": 2, "3g.20gb": 3, "4g.20gb": 4, "7g.40gb": 7,
		"1g.10gb": 1, "1g.20gb": 1, "2g.20gb": 2, "3g.40gb": 3, "4g.40gb": 4, "7g.80gb": 7,
	}
	profilesH100 = map[string]int{
		"1g.10gb": 1, "1g.20gb": 1, "2g.20gb": 2, "3g.40gb": 3, "4g.40gb": 4, "7g.80gb": 7,
		"1g.12gb": 1, "1g.24gb": 1, "2g.24gb": 2, "3g.47gb": 3, "4g.47gb": 4, "7g.94gb": 7,
		"3g.48gb": 3, "4g.48gb": 4, "7g.96gb": 7,
	}
	profilesH200 = map[string]int{
		"1g.12gb": 1, "1g.24gb": 1, "2g.24gb": 2, "3g.48gb": 3, "4g.48gb": 4, "7g.96gb": 7,
		"1g.18gb": 1, "1g.35gb": 1, "2g.35gb": 2, "3g.71gb": 3, "4g.71gb": 4, "7g.141gb": 7,
		"1g.36gb": 1, "2g.36gb": 2, "3g.72gb": 3, "4g.72gb": 4, "7g.144gb": 7,
	}
	profilesB200 = map[string]int{
		"1g.23gb": 1, "1g.45gb": 1, "2g.45gb": 2, "3g.90gb": 3, "4g.90gb": 4, "7g.180gb": 7,
		"1g.47gb": 1, "2g.47gb": 2, "3g.93gb": 3, "4g.93gb": 4, "7g.186gb": 7,
	}
	profilesB300 = map[string]int{
		"1g.34gb": 1, "1g.67gb": 1, "2g.67gb": 2, "3g.135gb": 3, "4g.135gb": 4, "7g.269gb": 7,
	}
	profilesA30     = map[string]int{"1g.6gb": 1, "2g.12gb": 2, "4g.24gb": 4}
	profilesPRO6000 = map[string]int{"1g.24gb": 1, "2g.48gb": 2, "4g.96gb": 4}
	profilesPRO5000 = map[string]int{"1g.24gb": 1, "2g.48gb": 2}
	profilesPRO4500 = map[string]int{"1g.16gb": 1, "2g.32gb": 2}
)

// ModelByName finds the model that DCGM calls name (DCGM_FI_DEV_NAME, field
// 50), such as "NVIDIA A100-SXM4-40GB" or "NVIDIA H100 80GB HBM3". An unknown
// name, and a virtual GPU (which is a part of a board, "GRID A100-10C"), is a
// model of one slice, and false. The profiles are shared: do not change them.
func ModelByName(name string) (Model, bool) {
	words := make(map[string]bool)
	for _, w := range strings.FieldsFunc(strings.ToUpper(name), notAlphanumeric) {
		words[w] = true
		if isVGPU(w) {
			return Model{Name: name, Slices: 1}, false
		}
	}
	for _, m := range models {
		if hasAll(words, m.words) {
			return m.model, true
		}
	}
	return Model{Name: name, Slices: 1}, false
}

// ProfileSlices serves MIG instances on GPUs of an unknown model. It returns the
// compute slices of the instance and of the GPU if every model that offers the profile
// agrees on both. "1g.5gb" exists only on A100, which has 7; "1g.24gb" exists on GPUs
// of 7, 4 and 2, so ok is false.
func ProfileSlices(profile string) (instance, board int, ok bool) {
	base := BaseProfile(profile)
	for _, m := range models {
		n, offered := m.model.Profiles[base]
		switch {
		case !offered:
		case !ok:
			instance, board, ok = n, m.model.Slices, true
		case instance != n || board != m.model.Slices:
			return 0, 0, false
		}
	}
	return instance, board, ok
}

// BaseProfile removes a profile's attributes: +me, +me.all, -me and +gfx name engines
// that come with an instance and don't change its number of compute slices.
func BaseProfile(profile string) string {
	p := strings.ToLower(strings.TrimPrefix(strings.TrimSpace(profile), "MIG "))
	if i := strings.IndexAny(p, "+-"); i >= 0 {
		p = p[:i]
	}
	return p
}

// isVGPU recognises the last word of a vGPU type name: memory in GB and a series
// letter, as in "A100-10C" or "A10-4Q". Older names begin with GRID.
func isVGPU(word string) bool {
	if word == "GRID" {
		return true
	}
	digits := strings.TrimRight(word, "ABCQ")
	return len(word)-len(digits) == 1 && digits != "" && strings.Trim(digits, "0123456789") == ""
}

func notAlphanumeric(r rune) bool {
	return (r < '0' || r > '9') && (r < 'A' || r > 'Z')
}

func hasAll(set map[string]bool, words []string) bool {
	for _, w := range words {
		if !set[w] {
			return false
		}
	}
	return true
}
