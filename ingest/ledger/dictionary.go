package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/tables"
)

// dictionary maps the hashes in raw rows to leaves and owners.
type dictionary struct {
	leaves map[uint64]tables.Leaf
	owners map[uint64]ownerName
}

// LeafFacts converts a row of table leaves.
func LeafFacts(l *tables.Leaf) meter.Leaf {
	return meter.Leaf{ID: l.Leaf, Slices: int(l.Slices), Profile: l.Profile, GI: l.GI, CI: l.CI, MIGUUID: l.MIGUUID}
}

type ownerName struct {
	id    string
	facts meter.Owner
}

func newDictionary() *dictionary {
	return &dictionary{leaves: map[uint64]tables.Leaf{}, owners: map[uint64]ownerName{}}
}

// namesPerQuery keeps a query's parameters, which are sent in the URL, below the
// limits of HTTP servers.
const namesPerQuery = 2000

// dictionaryKept bounds the number of leaves and owners in memory.
const dictionaryKept = 200_000

// OwnerFacts converts a row of table owners.
func OwnerFacts(o *tables.Owner) meter.Owner {
	return meter.Owner{
		Tenant: o.Tenant, Project: o.Project, Namespace: o.Namespace, Pod: o.Pod, UID: o.UID, Job: o.Job, User: o.User,
		Account: o.Account,
	}
}

// bound empties the dictionary once it is large. It must not be called within a chunk:
// rows are named when all of them are computed.
func (d *dictionary) bound() {
	if len(d.leaves)+len(d.owners) > dictionaryKept {
		clear(d.leaves)
		clear(d.owners)
	}
}

// learn reads the names of the hashes in raw rows that are not known yet. It must be
// called after the journal was read: what the journal lists has been written.
func (l *Ledger) learn(ctx context.Context, r *raw) error {
	leaves, owners := l.names.unknown(r)
	if err := l.readNames(ctx, leaves, owners); err != nil {
		return err
	}
	if leaves, owners = l.names.unknown(r); len(leaves)+len(owners) > 0 {
		return fmt.Errorf("raw rows refer to %d leaves and %d owners that are missing from tables leaves and owners",
			len(leaves), len(owners))
	}
	return nil
}

// readNames reads leaves and owners, as far as they are stored.
func (l *Ledger) readNames(ctx context.Context, leaves, owners []uint64) error {
	d := l.names
	for part := range slices.Chunk(leaves, namesPerQuery) {
		var rows []tables.Leaf
		if err := l.deps.Store.Select(ctx, &rows, selectLeaves, store.Named("ids", part)); err != nil {
			return fmt.Errorf("read %d leaves: %w", len(part), err)
		}
		for _, x := range rows {
			d.leaves[x.ID] = x
		}
	}
	for part := range slices.Chunk(owners, namesPerQuery) {
		var rows []tables.Owner
		if err := l.deps.Store.Select(ctx, &rows, selectOwners, store.Named("ids", part)); err != nil {
			return fmt.Errorf("read %d owners: %w", len(part), err)
		}
		for _, o := range rows {
			d.owners[o.ID] = ownerName{id: o.Owner, facts: OwnerFacts(&o).Named()}
		}
	}
	return nil
}

// unknown lists the hashes in r that the dictionary lacks.
func (d *dictionary) unknown(r *raw) (leaves, owners []uint64) {
	seenLeaf, seenOwner := map[uint64]bool{}, map[uint64]bool{}
	for _, nodes := range r.gpus {
		for _, s := range nodes {
			for i := range s.records {
				for _, row := range s.records[i].Rows {
					if _, ok := d.leaves[row.Leaf]; !ok && row.Leaf != 0 && !seenLeaf[row.Leaf] {
						seenLeaf[row.Leaf] = true
						leaves = append(leaves, row.Leaf)
					}
					if _, ok := d.owners[row.Owner]; !ok && row.Owner != 0 && !seenOwner[row.Owner] {
						seenOwner[row.Owner] = true
						owners = append(owners, row.Owner)
					}
				}
			}
		}
	}
	return leaves, owners
}

func (d *dictionary) leafSlices(leaf uint64) int { return int(d.leaves[leaf].Slices) }

func (d *dictionary) ownerID(owner uint64) string { return d.owners[owner].id }

// user is the owner's contact: the user, else the account.
func (o ownerName) user() string { return cmp.Or(o.facts.User, o.facts.Account) }
