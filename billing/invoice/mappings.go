package invoice

import (
	"context"
	"fmt"

	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/store"
)

// newMappingsSQL: the epochs after one, of each number first the one that is in
// force. Parameter: the epoch.
const newMappingsSQL = `
SELECT epoch, mapping, tenants, effective
FROM epochs FINAL
WHERE epoch > {after:UInt32}
ORDER BY epoch, rules DESC, mapping`

// noteTakerName is who records what the ledger was published under.
const noteTakerName = "gputally"

// NoteMappings records every tenant mapping that the ledger was published under
// and the decisions don't hold yet, and says how many (R6, R15): so the audit
// chain has the mapping that an invoice rests on, by the invoice's epoch.
func (r *Register) NoteMappings(ctx context.Context) (noted int, err error) {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	state, err := r.decidable(ctx)
	if err != nil {
		return 0, err
	}
	return r.noteMappings(ctx, state)
}

func (r *Register) noteMappings(ctx context.Context, state decidedState) (noted int, err error) {
	mappings, err := newMappings(ctx, r.deps.DB, state.lastMapping())
	if err != nil {
		return 0, err
	}
	for i := range mappings {
		m := &mappings[i]
		what := request("mapping", fmt.Sprint(m.Epoch), m.SHA256)
		outcome, err := r.deps.Decisions.Append(ctx, decisions.KindMapping, "mapping/"+what, what, noteTakerName, m)
		if err != nil {
			return noted, fmt.Errorf("note mapping of epoch %d: %w", m.Epoch, err)
		}
		if outcome.Accepted && outcome.Repeats < 0 {
			noted++ // else another process was first
		}
	}
	return noted, nil
}

// newMappings are those in force of the epochs after one, ascending.
func newMappings(ctx context.Context, db DB, after uint32) (mappings []decisions.Mapping, err error) {
	fields := func(m *decisions.Mapping) []any { return []any{&m.Epoch, &m.SHA256, &m.Text, &m.Effective} }
	err = store.Each(ctx, db, "epochs", newMappingsSQL, []any{store.Named("after", after)}, fields, func(m *decisions.Mapping) error {
		m.Effective = m.Effective.UTC()
		if last := len(mappings) - 1; last < 0 || mappings[last].Epoch < m.Epoch {
			mappings = append(mappings, *m)
		}
		return nil
	})
	return mappings, err
}
