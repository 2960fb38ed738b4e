package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/billing/prices"
)

// policyFlag is the flag --policy; it refuses any other word.
type policyFlag struct{ policy prices.Policy }

func (p *policyFlag) String() string { return string(p.policy) }

// Type is what help calls the flag's value.
func (p *policyFlag) Type() string { return "POLICY" }

// Set takes a policy's name.
func (p *policyFlag) Set(text string) (err error) {
	p.policy, err = prices.ParsePolicy(text)
	return err
}

func (s *session) pricesDeriveCommand() *cobra.Command {
	var policy policyFlag
	var models []string
	cmd := &cobra.Command{
		Use:   "derive FILE",
		Short: "Derive rates of MIG profiles from those of whole GPUs",
		Long: "Prints, for each model with MIG and each version of the price book FILE, the rate of each profile as YAML that\n" +
			"can be pasted into a book: an exact part of the whole GPU's rate, rounded half-even to 4 places. The part is\n" +
			"  compute-slice  compute slices of the GPU's 7 (A30, RTX PRO 6000: 4), as unpriced profiles are priced\n" +
			"  memory         memory slices of the GPU's 8 (4)\n" +
			"  sm             SMs of those that the GPU's largest profile has\n" +
			"  dominant       the larger of compute-slice and memory\n" +
			"To use the rates, put the profiles of each model into the same version of the book.",
		Example: examples(
			"gputally prices derive --policy dominant prices.yaml", "rates to look at, or to paste",
			"gputally prices derive --policy memory prices.yaml --model 'NVIDIA H200'", "one model's",
		),
		Args: argumentsOfUse,
	}
	flags := cmd.Flags()
	flags.Var(&policy, "policy", "the `POLICY`: compute-slice, memory, sm or dominant")
	flags.StringArrayVar(&models, "model", nil, "only this `MODEL`; repeat it for more")
	if err := cmd.MarkFlagRequired("policy"); err != nil {
		panic(err) // the flag was defined a few lines above
	}
	cmd.RunE = s.run(func(_ context.Context, args []string) error { return s.derive(args[0], policy.policy, models) })
	return cmd
}

func (s *session) derive(path string, policy prices.Policy, models []string) error {
	book, err := loadBook(path)
	if err != nil {
		return err
	}
	derived, err := prices.Derive(book, policy, models)
	if err != nil && len(models) == 0 {
		err = fmt.Errorf("%w\n--model MODEL derives the others", err)
	}
	if err != nil {
		return usageError{err}
	}
	if len(derived) == 0 {
		return usageError{fmt.Errorf("derive profile rates: %s has no model with MIG", path)}
	}
	return s.writef("# %s of each whole GPU's rate, rounded half-even to 4 places\n%s", policy, prices.YAML(derived))
}
