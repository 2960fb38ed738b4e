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
	// Name is the invariant's name, such as "C6".
	Name() string
	// Run checks all stored data. An error means that the check could not be completed; a violated invariant is a
	// Result, not an error.
	Run(ctx context.Context) (Result, error)
}

// Result is the outcome of one Check.
type Result struct {
	// Name and Title identify the invariant, such as "C6" and "buckets sum to capacity".
	Name  string `json:"name"`
	Title string `json:"title"`
	// OK is false if the invariant is violated, could not be checked, or there was nothing to check.
	OK bool `json:"ok"`
	// NotProven means that the check did not fail but proved nothing, or not everything: there was no data, or a
	// month has no prices. Figures has the reason.
	NotProven bool `json:"not_proven"`
	// Checked counts what was checked, in the check's own unit: GPU-hours, journal rows, invoices.
	Checked int64 `json:"checked"`
	// Violations counts all violations, including those missing in Findings.
	Violations int64 `json:"violations"`
	// Figures is one line with the compared sums and their units.
	Figures string `json:"figures"`
	// Findings are the first MaxFindings violations, each with place and values.
	Findings []string `json:"findings"`
	// Noted counts what is not a violation but should be reviewed; Notes are the first MaxNotes of them.
	Noted int64    `json:"noted,omitempty"`
	Notes []string `json:"notes,omitempty"`
}

// MaxNotes is how many notes a Result describes; the rest are counted.
const MaxNotes = 20

// Note records what is not a violation but should be reviewed.
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

// Fail records a violation: its place and its values, formatted as by fmt.Sprintf.
func (r *Result) Fail(format string, args ...any) {
	r.OK, r.NotProven = false, false
	r.Violations++
	if len(r.Findings) < MaxFindings {
		r.Findings = append(r.Findings, fmt.Sprintf(format, args...))
	}
}

// NotProve marks the result as not proven, and sets the reason in Figures; violations take precedence.
func (r *Result) NotProve(why string) {
	r.Say(why)
	if r.Violations == 0 {
		r.OK, r.NotProven = false, true
	}
}

// Say appends to Figures.
func (r *Result) Say(figures string) {
	if r.Figures != "" {
		r.Figures += "; "
	}
	r.Figures += figures
}

// Failed returns whether the invariant is violated or could not be checked.
func (r *Result) Failed() bool { return !r.OK && !r.NotProven }

// Run runs the checks one after the other and returns a Result for each. A check that returns an error, or a Result
// with another name, becomes a failed Result with the error. Run returns ctx's error if ctx ends before the last
// check.
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
		err = fmt.Errorf("check %s returned a result named %q", name, r.Name)
	}
	if r.Title == "" {
		r.Title = "not carried out"
	}
	r.Name = name
	r.Fail("check could not be completed: %v", err)
	return r
}

// NoneFailed returns whether there is at least one result and none failed; a result that is only not proven did not
// fail.
func NoneFailed(results []Result) bool {
	return len(results) > 0 && !slices.ContainsFunc(results, func(r Result) bool { return r.Failed() })
}
