package prices

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gputally/gputally/internal/meter"
)

// Profile is a MIG GPU-instance profile with its size.
type Profile struct {
	// Name is the name without suffix, such as "1g.10gb".
	Name string
	// Compute and Memory are its numbers of slices; SMs are the streaming multiprocessors that the driver assigns to
	// it, 0 if unknown.
	Compute, Memory, SMs int
	// Variants are suffixes, such as "+me", of profiles that differ only in their media and graphics engines.
	Variants []string
}

// Board is how MIG divides a GPU model. Compute and Memory are its slices; SMs are those of its largest instance:
// fewer than the board has without MIG on A100 (98 of 108).
type Board struct {
	Name                 string
	Compute, Memory, SMs int
	Profiles             []Profile // smallest first
	// Source is the source of profiles and SMs.
	Source string
}

// ErrNoMIG means that a model can't be divided into MIG instances.
var ErrNoMIG = errors.New("the model has no MIG")

// UnknownModelError is a model whose MIG profiles are unknown.
type UnknownModelError struct{ Model string }

// Error lists the known models.
func (e *UnknownModelError) Error() string {
	return fmt.Sprintf("MIG profiles of model %q are not known (known: %s)", e.Model, strings.Join(boardNames(), ", "))
}

// candidate is a board, and the words in the names of its models.
type candidate struct {
	words string
	board *Board // nil: not known
}

// boards.tsv has the boards and their sources. SMs are as nvidia-smi mig -lgip prints them.
//
//go:embed boards.tsv
var boardsTSV string

// boards is searched from the top: all words must be in the model's name. A name without its memory's size (A100)
// matches none, since a profile's name depends on it: 1g.10gb has one memory slice of an A100 of 80 GB, two of one
// of 40 GB.
var boards = func() (all []candidate) {
	for _, row := range strings.Split(strings.TrimSpace(boardsTSV), "\n")[1:] {
		cells := strings.Split(row, "\t")
		c := candidate{words: cells[0]}
		if cells[1] != "" {
			c.board = &Board{Name: cells[1], Compute: count(cells[2]), Memory: count(cells[3]), Source: cells[5]}
			for text := range strings.SplitSeq(cells[4], "; ") {
				w := strings.Fields(text)
				c.board.Profiles = append(c.board.Profiles, Profile{w[0], count(w[1]), count(w[2]), count(w[3]), w[4:]})
				c.board.SMs = count(w[3]) // of the largest, which comes last
			}
		}
		all = append(all, c)
	}
	return all
}()

func count(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err) // the table is part of the program, and tested
	}
	return n
}

// withoutMIG are words in names of boards that can't be divided, in addition to those known to package meter as
// boards of one slice.
var withoutMIG = []string{
	"A6000", "A5500", "A5000", "A4500", "A4000", "A2000", "GEFORCE", "QUADRO", "TITAN", "TESLA",
	"P40", "P4", "K80",
}

// BoardOf returns the board of DCGM's model name, such as "NVIDIA A100-SXM4-40GB". Errors: ErrNoMIG,
// UnknownModelError. The board is shared: don't modify it.
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

// profile returns a profile by its name, including one with a variant's suffix.
func (b *Board) profile(name string) (Profile, bool) {
	for _, p := range b.Profiles {
		if suffix, ok := strings.CutPrefix(name, p.Name); ok && (suffix == "" || slices.Contains(p.Variants, suffix)) {
			return p, true
		}
	}
	return Profile{}, false
}
