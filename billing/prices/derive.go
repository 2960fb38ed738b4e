package prices

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"
	"go.yaml.in/yaml/v3"
)

// Policy is the share of its board by which `prices derive` proposes the price of a MIG
// profile, for a book to be written. Nothing here prices usage: a profile without a price
// in the book is priced by its slices (rating.priceRow).
type Policy string

// The policies (R19).
const (
	// ByComputeSlice is the share of the board's compute slices, as for a profile without a price.
	ByComputeSlice Policy = "compute-slice"
	// ByMemory is the share of the board's memory slices.
	ByMemory Policy = "memory"
	// BySM is the share of the streaming multiprocessors of the board's largest instance.
	BySM Policy = "sm"
	// Dominant is the larger of the compute and memory shares, which others can't use.
	Dominant Policy = "dominant"
)

// Policies are all policies, in the order of the help text.
func Policies() []Policy { return []Policy{ByComputeSlice, ByMemory, BySM, Dominant} }

// ParsePolicy parses a policy's name.
func ParsePolicy(text string) (Policy, error) {
	if policy := Policy(text); slices.Contains(Policies(), policy) {
		return policy, nil
	}
	names := make([]string, 0, len(Policies()))
	for _, policy := range Policies() {
		names = append(names, string(policy))
	}
	return "", fmt.Errorf("policy %q: want one of %s", text, strings.Join(names, ", "))
}

// ratePlaces is the number of places of derived rates, rounded half-even.
const ratePlaces = 4

// ProfileRate is the derived price of an hour of a profile: Share × the rate of
// the whole GPU, rounded half-even to 4 places.
type ProfileRate struct {
	Profile string
	Share   *big.Rat
	Rate    decimal.Decimal
}

// Derivation are the profile rates of one model in one version.
type Derivation struct {
	Effective time.Time
	Model     string
	GPUHour   decimal.Decimal
	Board     *Board
	Rates     []ProfileRate
}

// Derive computes profile rates from the whole-GPU rates of a book, in all of its versions: for the given models, or
// without any for all with MIG. Errors: a model that is in no version or has no MIG, an UnknownModelError, a board
// with unknown SMs for BySM.
func Derive(book *Book, policy Policy, models []string) ([]Derivation, error) {
	var derived []Derivation
	var errs []error
	seen := map[string]bool{}
	for i := range book.Versions {
		version := &book.Versions[i]
		for _, model := range slices.Sorted(maps.Keys(version.Models)) {
			if len(models) > 0 && !slices.Contains(models, model) {
				continue
			}
			d, err := deriveModel(version, model, policy)
			switch {
			case err == nil:
				derived = append(derived, d)
			case errors.Is(err, ErrNoMIG) && len(models) == 0:
			case !seen[model]:
				errs = append(errs, err)
			}
			seen[model] = true
		}
	}
	for _, model := range models {
		if !seen[model] {
			errs = append(errs, fmt.Errorf("model %q has no rate in %s", model, book.Name))
		}
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("derive profile rates: %w", errors.Join(errs...))
	}
	return derived, nil
}

func deriveModel(version *Version, model string, policy Policy) (Derivation, error) {
	board, err := BoardOf(model)
	if err != nil {
		return Derivation{}, err
	}
	d := Derivation{Effective: version.Effective, Model: model, GPUHour: version.Models[model].GPUHour, Board: board}
	for _, profile := range board.Profiles {
		share, err := board.Share(profile, policy)
		if err != nil {
			return d, fmt.Errorf("model %q: %w", model, err)
		}
		rate := roundShare(d.GPUHour, share)
		for _, suffix := range append([]string{""}, profile.Variants...) {
			d.Rates = append(d.Rates, ProfileRate{profile.Name + suffix, share, rate})
		}
	}
	return d, nil
}

// Share is a profile's share of the board, 0…1, by a policy.
func (b *Board) Share(p Profile, policy Policy) (*big.Rat, error) {
	compute, memory := big.NewRat(int64(p.Compute), int64(b.Compute)), big.NewRat(int64(p.Memory), int64(b.Memory))
	switch policy {
	case ByComputeSlice:
		return compute, nil
	case ByMemory:
		return memory, nil
	case Dominant:
		if compute.Cmp(memory) > 0 {
			return compute, nil
		}
		return memory, nil
	}
	if b.SMs == 0 {
		return nil, fmt.Errorf("the SMs of profiles of %s are not known; use another policy", b.Name)
	}
	return big.NewRat(int64(p.SMs), int64(b.SMs)), nil
}

// roundShare is share × rate, half-even to ratePlaces.
func roundShare(rate decimal.Decimal, share *big.Rat) decimal.Decimal {
	return RoundRat(new(big.Rat).Mul(rate.Rat(), share), ratePlaces)
}

// RoundRat rounds half-even to some decimal places.
func RoundRat(value *big.Rat, digits int32) decimal.Decimal {
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil)
	numerator := new(big.Int).Mul(new(big.Int).Abs(value.Num()), scale)
	quotient, remainder := new(big.Int).QuoRem(numerator, value.Denom(), new(big.Int))
	if tie := remainder.Lsh(remainder, 1).Cmp(value.Denom()); tie > 0 || tie == 0 && quotient.Bit(0) == 1 {
		quotient.Add(quotient, big.NewInt(1))
	}
	if value.Sign() < 0 {
		quotient.Neg(quotient)
	}
	return decimal.NewFromBigInt(quotient, -digits)
}

// flowProfiles formats {1g.10gb: "0.3557", …}.
func flowProfiles(rates []ProfileRate) string {
	list := make([]string, len(rates))
	for i, rate := range rates {
		list[i] = fmt.Sprintf("%s: %q", rate.Profile, rate.Rate.StringFixed(ratePlaces))
	}
	return "{" + strings.Join(list, ", ") + "}"
}

// YAML formats the derivations as a part of a book, to be pasted into one.
func YAML(derived []Derivation) string {
	var b strings.Builder
	b.WriteString("versions:\n")
	for i, d := range derived {
		if i == 0 || !d.Effective.Equal(derived[i-1].Effective) {
			fmt.Fprintf(&b, "- effective: %s\n  models:\n", d.Effective.Format(time.RFC3339))
		}
		fmt.Fprintf(&b, "    %s: # %s\n      gpu_hour: %q\n      profiles: %s\n",
			yamlKey(d.Model), d.Board.Source, d.GPUHour.String(), flowProfiles(d.Rates))
	}
	return b.String()
}

// yamlKey quotes a name that YAML would read as another type.
func yamlKey(name string) string {
	text, err := yaml.Marshal(name)
	if err != nil {
		return fmt.Sprintf("%q", name)
	}
	return strings.TrimSuffix(string(text), "\n")
}
