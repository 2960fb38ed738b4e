package prices

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gputally/gputally/internal/meter"
)

// Profile is a MIG GPU-instance profile as a part of its board.
type Profile struct {
	// Name is the plain one, such as "1g.10gb".
	Name string
	// Compute and Memory are the slices it has of each; SMs are the streaming
	// multiprocessors that the driver gives it, 0 where no figure was found.
	Compute, Memory, SMs int
	// Variants are suffixes, such as "+me", of profiles that differ only in
	// the media and graphics engines that come with them.
	Variants []string
}

// Board is how MIG divides a GPU model. Compute and Memory are its slices; SMs
// are those of its largest instance, which are what MIG can give away: fewer
// than the board has outside MIG on A100 (98 of 108).
type Board struct {
	Name                 string
	Compute, Memory, SMs int
	Profiles             []Profile // smallest first
	// Source says where profiles and SMs are from.
	Source string
}

// ErrNoMIG is a model that can't be divided into MIG instances.
var ErrNoMIG = errors.New("the model has no MIG")

// UnknownModelError is a model whose MIG profiles are in no table here.
type UnknownModelError struct{ Model string }

// Error names what is known.
func (e *UnknownModelError) Error() string {
	return fmt.Sprintf("MIG profiles of model %q are not known (known: %s)", e.Model, strings.Join(boardNames(), ", "))
}

const guide = "NVIDIA MIG User Guide, Supported MIG Profiles"

// SMs of the profiles 1g, 1g with double memory, 2g, 3g, 4g and 7g, as
// nvidia-smi mig -lgip prints them.
var (
	smsA100     = []int{14, 14, 28, 42, 56, 98}
	smsH100     = []int{16, 26, 32, 60, 64, 132}
	smsH100PCIe = []int{14, 14, 30, 46, 62, 114}
	smsUnknown  = make([]int, 6)
)

// boards is matched from the top: all words must be words of the model's name.
// A name without its memory's size (A100) fits none, since a profile's name
// depends on it: 1g.10gb has one memory slice of an A100 of 80 GB, two of one
// of 40 GB.
var boards = []struct {
	words string
	board *Board
}{
	{"A100 40GB", sevenths("A100 40GB", "5 10 20 40", smsA100, guide+"; SMs: go-nvml, mock of a DGX A100")},
	{"A100 80GB", boardA100},
	{"A100X", boardA100},
	{"A800 40GB", sevenths("A800 40GB", "5 10 20 40", smsA100, guide+", A100")},
	{"A800 80GB", boardA100},
	{"A30", boardA30},
	{"A30X", boardA30},
	{"H100 PCIE", boardH100PCIe},
	{"H800 PCIE", boardH100PCIe},
	{"H100 NVL", boardH100NVL},
	{"H800 NVL", boardH100NVL},
	{"H100 80GB", boardH100},
	{"H800", boardH100},
	{"GH200 480GB", sevenths("GH200 480GB", "12 24 48 96", smsH100, guide+", H100 96GB; SMs: nvidia-smi of one")},
	{"GH200 144G", sevenths("GH200 144GB", "18 36 72 144", smsH100, "NVIDIA/mig-parted#139; 3g to 7g: SMs of GH100")},
	{"H20 3E", nil},
	{"H20", sevenths("H20", "12 24 48 96", smsUnknown, guide+", as H100 96GB")},
	{"H200", sevenths("H200", "18 35 71 141", smsH100, guide+"; SMs: NVIDIA/mig-parted#120")},
	{"B200", sevenths("B200", "23 45 90 180", smsUnknown, guide)},
	{"GB200", sevenths("GB200", "23 47 93 186", smsUnknown, "NVIDIA/mig-parted#227 and #228")},
	{"B300", sevenths("B300", "34 67 135 269", smsUnknown, "AWS SageMaker HyperPod, profiles of P6-B300")},
	{"GB300", sevenths("GB300", "35 70 139 278", smsUnknown, "NVIDIA/gpu-operator, default mig-parted configuration")},
	{"RTX PRO 6000", boardPRO6000},
}

var (
	boardA100     = sevenths("A100 80GB", "10 20 40 80", smsA100, guide+"; SMs: nvidia-smi of one")
	boardH100     = sevenths("H100 80GB", "10 20 40 80", smsH100, guide+"; SMs: nvidia-smi of one")
	boardH100PCIe = sevenths("H100 PCIe", "10 20 40 80", smsH100PCIe, guide+"; SMs: nvidia-smi of one")
	boardH100NVL  = sevenths("H100 NVL", "12 24 47 94", smsH100, guide+"; SMs: NVIDIA/gpu-operator#903")
	boardA30      = &Board{
		Name: "A30", Compute: 4, Memory: 4, SMs: 56, Source: guide + "; SMs: nvidia-smi of one",
		Profiles: []Profile{
			{"1g.6gb", 1, 1, 14, []string{"+me"}},
			{"2g.12gb", 2, 2, 28, []string{"+me"}},
			{"4g.24gb", 4, 4, 56, nil},
		},
	}
	boardPRO6000 = &Board{
		Name: "RTX PRO 6000", Compute: 4, Memory: 4, SMs: 188, Source: guide + "; SMs: nvidia-smi of one",
		Profiles: []Profile{
			{"1g.24gb", 1, 1, 46, []string{"+gfx", "+me", "+me.all", "-me"}},
			{"2g.48gb", 2, 2, 94, []string{"+gfx", "+me.all", "-me"}},
			{"4g.96gb", 4, 4, 188, []string{"+gfx"}},
		},
	}
)

// sevenths is a board of 7 compute and 8 memory slices, as all of A100's size
// and larger are. sizes are the names' GB of 1, 2, 4 and all 8 memory slices;
// an instance of three compute slices has half of the memory.
func sevenths(name, sizes string, sms []int, source string) *Board {
	gb := strings.Fields(sizes)
	return &Board{
		Name: name, Compute: 7, Memory: 8, SMs: sms[5], Source: source,
		Profiles: []Profile{
			{"1g." + gb[0] + "gb", 1, 1, sms[0], []string{"+me"}},
			{"1g." + gb[1] + "gb", 1, 2, sms[1], nil},
			{"2g." + gb[1] + "gb", 2, 2, sms[2], nil},
			{"3g." + gb[2] + "gb", 3, 4, sms[3], nil},
			{"4g." + gb[2] + "gb", 4, 4, sms[4], nil},
			{"7g." + gb[3] + "gb", 7, 8, sms[5], nil},
		},
	}
}

// withoutMIG are words of names of boards that can't be divided, beside those
// that the meter knows as boards of one slice.
var withoutMIG = []string{
	"A6000", "A5500", "A5000", "A4500", "A4000", "A2000", "GEFORCE", "QUADRO", "TITAN", "TESLA",
	"P40", "P4", "K80",
}

// BoardOf is the board that DCGM calls model, such as "NVIDIA A100-SXM4-40GB".
// Errors: ErrNoMIG, UnknownModelError. The board is shared: do not change it.
func BoardOf(model string) (*Board, error) {
	known, ok := meter.ModelByName(model)
	words := strings.FieldsFunc(strings.ToUpper(model), func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z')
	})
	named := func(word string) bool { return slices.Contains(words, word) }
	if ok && known.Slices == 1 || !ok && slices.ContainsFunc(withoutMIG, named) {
		return nil, fmt.Errorf("model %q: %w", model, ErrNoMIG)
	}
	if !ok {
		return nil, &UnknownModelError{model}
	}
	for _, candidate := range boards {
		if !containsAll(words, strings.Fields(candidate.words)) {
			continue
		}
		if candidate.board == nil {
			break
		}
		return candidate.board, nil
	}
	return nil, &UnknownModelError{model}
}

func containsAll(words, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(w string) bool { return !slices.Contains(words, w) })
}

func boardNames() []string {
	var list []string
	for _, candidate := range boards {
		if candidate.board != nil && !slices.Contains(list, candidate.board.Name) {
			list = append(list, candidate.board.Name)
		}
	}
	return list
}

// profile finds a profile by its name, also one with a variant's suffix.
func (b *Board) profile(name string) (Profile, bool) {
	for _, p := range b.Profiles {
		if suffix, ok := strings.CutPrefix(name, p.Name); ok && (suffix == "" || slices.Contains(p.Variants, suffix)) {
			return p, true
		}
	}
	return Profile{}, false
}
