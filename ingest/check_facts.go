package ingest

import (
	"context"
	"fmt"

	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/tables"
)

// factsPage is the number of leaves or owners read at once.
const factsPage = 50_000

const selectOwnerFacts = `
SELECT id, owner, tenant, project, namespace, pod, uid, job, user, account FROM owners
WHERE id > {after:UInt64} ORDER BY id LIMIT {page:UInt64} WITH TIES`

const selectLeafFacts = `
SELECT id, leaf, slices, profile, gi, ci, mig_uuid FROM leaves
WHERE id > {after:UInt64} ORDER BY id LIMIT {page:UInt64} WITH TIES`

// checkFacts proves that the ids of owners and leaves in raw rows are the hashes of
// the stored facts. Every stored copy is checked; copies that ClickHouse has not merged yet count once.
func (d CheckDeps) checkFacts(ctx context.Context, res *check.Result) error {
	owners, err := eachFact(ctx, d.Store, selectOwnerFacts, func(o *tables.Owner) uint64 {
		facts := ledger.OwnerFacts(o)
		if facts.Hash() != o.ID || facts.ID() != o.Owner {
			res.Fail("owner %016x is not the hash of its facts: namespace %q, pod %q, tenant %q, job %q, user %q", o.ID,
				o.Namespace, o.Pod, o.Tenant, o.Job, o.User)
		}
		return o.ID
	})
	if err != nil {
		return fmt.Errorf("read owners: %w", err)
	}
	leaves, err := eachFact(ctx, d.Store, selectLeafFacts, func(l *tables.Leaf) uint64 {
		facts := ledger.LeafFacts(l)
		if facts.Hash() != l.ID {
			res.Fail("leaf %016x is not the hash of its facts: %q, %d slices, profile %q", l.ID, l.Leaf, l.Slices, l.Profile)
		}
		return l.ID
	})
	if err != nil {
		return fmt.Errorf("read leaves: %w", err)
	}
	res.Say(fmt.Sprintf("the ids of %d owners and %d leaves are the hashes of their facts", owners, leaves))
	return nil
}

// eachFact visits all rows in order of id, a page at a time, and returns the number of ids; visit returns the row's
// id.
func eachFact[T any](ctx context.Context, db Store, sql string, visit func(*T) uint64) (n int, err error) {
	for after := uint64(0); ; {
		var page []T
		if err := db.Select(ctx, &page, sql, store.Named("after", after),
			store.Named("page", uint64(factsPage))); err != nil || len(page) == 0 {
			return n, err
		}
		for i := range page {
			if id := visit(&page[i]); id != after {
				after = id
				n++
			}
		}
	}
}
