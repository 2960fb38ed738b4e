package invoice

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/fault"
	"github.com/gputally/gputally/internal/store"
)

// findingKindSQL reads the kind of a finding. Parameter: id.
const findingKindSQL = `SELECT toString(kind) FROM anomalies FINAL WHERE id = {id:String} AND deleted = 0`

// ErrNoFinding means that table anomalies has no finding with an ID, or that a target has no marks to clear.
var ErrNoFinding = fault.New(fault.NotFound, "no such finding")

// Mark decides an action on findings and returns it as recorded; already: a request with the same key did. Of a
// finding whose kind isn't given, that of table anomalies is recorded. An empty key stands for a new one. Errors:
// ErrNoFinding; fault.Invalid for what the fold would refuse; *ConflictError.
func (r *Register) Mark(ctx context.Context, f decisions.Finding, who, key string) (
	done decisions.Finding, already bool, err error,
) {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	if err := r.decidable(ctx); err != nil {
		return f, false, err
	}
	what, err := markRequest(f)
	if err != nil {
		return f, false, err
	}
	if done, used, err := r.markedWith(ctx, key, what); used || err != nil {
		return done, used, err
	}
	if f.Action == decisions.FindingClear {
		if !ask(r, func(s *decisions.State) bool { return s.Findings().Has(f.Target) }) {
			return f, false, fmt.Errorf("clear %s: %w has marks", f.Target, ErrNoFinding)
		}
	} else if f.ID != "" && f.Kind == "" {
		if f.Kind, err = r.kindOf(ctx, f.ID); err != nil {
			return f, false, err
		}
	}
	if key == "" {
		key = fmt.Sprintf("finding/%d/%s", ask(r, (*decisions.State).Next), what)
	}
	outcome, err := r.append(ctx, decisions.KindFinding, key, what, who, &f)
	if reason, _ := ReasonOf(err); reason == ReasonRecord {
		err = fault.New(fault.Invalid, "%w", err)
	}
	return f, outcome.Repeats >= 0, err
}

// Marks is what people have said of a finding, as of now and of the last read decisions.
func (r *Register) Marks(of decisions.Target) decisions.Marks {
	return ask(r, func(s *decisions.State) decisions.Marks { return s.Findings().Marks(of, r.deps.Clock.Now()) })
}

// markRequest identifies what was asked for: without the kind of one finding, which may be gone when it is asked again.
func markRequest(f decisions.Finding) (string, error) {
	if f.ID != "" {
		f.Target = decisions.Target{ID: f.ID}
	}
	text, err := json.Marshal(f)
	return request("finding", string(text)), err
}

// markedWith answers a request whose idempotency key was used.
func (r *Register) markedWith(ctx context.Context, key, what string) (done decisions.Finding, used bool, err error) {
	outcome, used := lookup(r, (*decisions.State).Used, key)
	if !used {
		return done, false, nil
	}
	record, body, err := r.deps.Decisions.Record(ctx, outcome.Offset)
	if err != nil {
		return done, true, err
	}
	if f, ok := body.(*decisions.Finding); ok && record.Request == what {
		return *f, true, nil
	}
	return done, true, keyUsed()
}

func (r *Register) kindOf(ctx context.Context, id string) (string, error) {
	kinds, err := store.Select(ctx, r.deps.DB, "finding", findingKindSQL, []any{store.Named("id", id)},
		func(kind *string) []any { return []any{kind} })
	if err == nil && len(kinds) == 0 {
		err = fmt.Errorf("%w: %s", ErrNoFinding, id)
	}
	if err != nil {
		return "", err
	}
	return kinds[0], nil
}
