package check

import (
	"context"
	"fmt"
	"slices"
)

// MaxFindings is how many violations a Result describes; the rest are counted.
const MaxFindings = 5

// Check is one invariant that can be tested against what is stored.
type Check interface {
	// Name is the invariant's name in the design, such as "C6".
	Name() string
	// Run looks at everything there is. An error means that the check could not
	// be carried out; a violated invariant is a Result, not an error.
	Run(ctx context.Context) (Result, error)
}

// Result is the outcome of one Check.
type Result struct {
	// Name and Title say which invariant was tested, such as "C6" and
	// "buckets sum to capacity".
	Name  string `json:"name"`
	Title string `json:"title"`
	// OK is false when the invariant is violated, could not be tested, or had
	// nothing to be proven on.
	OK bool `json:"ok"`
	// NotProven is a check that did not fail and proved nothing, or not all:
	// there was nothing to look at, or a month has no prices. Figures say why.
	NotProven bool `json:"not_proven"`
	// Checked counts what was looked at, in the check's own unit: GPU-hours,
	// journal rows, invoices.
	Checked int64 `json:"checked"`
	// Violations counts every violation, described in Findings or not.
	Violations int64 `json:"violations"`
	// Figures is one line of the sums that were compared, with units.
	Figures string `json:"figures"`
	// Findings are the first MaxFindings violations, each with place and values.
	Findings []string `json:"findings"`
	// Noted counts what is no violation and yet for somebody to look at; Notes
	// are the first MaxNotes of it.
	Noted int64    `json:"noted,omitempty"`
	Notes []string `json:"notes,omitempty"`
}

// MaxNotes is how many notes a Result describes; the rest are counted.
const MaxNotes = 20

// Note records what proves nothing wrong and yet has to be looked at.
func (r *Result) Note(text string) {
	r.Noted++
	if len(r.Notes) < MaxNotes {
		r.Notes = append(r.Notes, text)
	}
}

// New returns a Result that passes until Fail is called.
func New(name, title string) Result {
	return Result{Name: name, Title: title, OK: true, Findings: []string{}}
}

// Fail records a violation: its place and its values, as fmt.Sprintf does.
func (r *Result) Fail(format string, args ...any) {
	r.OK, r.NotProven = false, false
	r.Violations++
	if len(r.Findings) < MaxFindings {
		r.Findings = append(r.Findings, fmt.Sprintf(format, args...))
	}
}

// NotProve says, in Figures, why there is no proof; a violation found before or
// after weighs more.
func (r *Result) NotProve(why string) {
	r.Say(why)
	if r.Violations == 0 {
		r.OK, r.NotProven = false, true
	}
}

// Say adds to Figures.
func (r *Result) Say(figures string) {
	if r.Figures != "" {
		r.Figures += "; "
	}
	r.Figures += figures
}

// Failed is a violation, or a check that could not be carried out.
func (r *Result) Failed() bool { return !r.OK && !r.NotProven }

// Run carries out the checks one after the other and returns a Result for each.
// A check that returns an error, or a Result of another name, is a failed
// Result that says so. The error is ctx's, when ctx ends before the last check.
func Run(ctx context.Context, checks []Check) ([]Result, error) {
	results := make([]Result, 0, len(checks))
	for _, c := range checks {
		if err := ctx.Err(); err != nil {
			return results, fmt.Errorf("run check %s: %w", c.Name(), err)
		}
		result, err := c.Run(ctx)
		if ctxErr := ctx.Err(); err != nil && ctxErr != nil {
			return results, fmt.Errorf("run check %s: %w", c.Name(), ctxErr)
		}
		results = append(results, complete(c.Name(), result, err))
	}
	return results, nil
}

func complete(name string, r Result, err error) Result {
	if r.Findings == nil {
		r.Findings = []string{}
	}
	if err == nil && r.Name == name {
		return r
	}
	if err == nil {
		err = fmt.Errorf("check %s answered with a result named %q", name, r.Name)
	}
	if r.Title == "" {
		r.Title = "not carried out"
	}
	r.Name = name
	r.Fail("could not be carried out: %v", err)
	return r
}

// NoneFailed reports whether there is a result and none failed: no check at all
// is not a proof. One that had nothing to prove does not fail.
func NoneFailed(results []Result) bool {
	return len(results) > 0 && !slices.ContainsFunc(results, func(r Result) bool { return r.Failed() })
}
