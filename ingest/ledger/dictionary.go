package ledger

import (
	"cmp"
	"context"
	"fmt"

	"github.com/gpuledger/gpuledger/internal/meter"
)

// dictionary is what the hashes in raw rows stand for.
type dictionary struct {
	leaves map[uint64]leafName
	owners map[uint64]ownerName
}

type leafName struct {
	ID      uint64 `ch:"id"`
	Leaf    string `ch:"leaf"`
	Slices  uint16 `ch:"slices"`
	Profile string `ch:"profile"`
}

type ownerName struct {
	id    string
	facts meter.Owner
}

type ownerRow struct {
	ID        uint64 `ch:"id"`
	Owner     string `ch:"owner"`
	Tenant    string `ch:"tenant"`
	Project   string `ch:"project"`
	Namespace string `ch:"namespace"`
	Pod       string `ch:"pod"`
	UID       string `ch:"uid"`
	Job       string `ch:"job"`
	User      string `ch:"user"`
	Account   string `ch:"account"`
}

// readDictionary is read after the journal: what the journal promises is there.
func (l *Ledger) readDictionary(ctx context.Context) (*dictionary, error) {
	var leaves []leafName
	if err := l.deps.Store.Select(ctx, &leaves, selectLeaves); err != nil {
		return nil, fmt.Errorf("read leaves: %w", err)
	}
	var owners []ownerRow
	if err := l.deps.Store.Select(ctx, &owners, selectOwners); err != nil {
		return nil, fmt.Errorf("read owners: %w", err)
	}
	d := &dictionary{leaves: make(map[uint64]leafName, len(leaves)), owners: make(map[uint64]ownerName, len(owners))}
	for _, x := range leaves {
		d.leaves[x.ID] = x
	}
	for _, o := range owners {
		d.owners[o.ID] = ownerName{id: o.Owner, facts: meter.Owner{
			Tenant: o.Tenant, Project: o.Project, Namespace: o.Namespace, Pod: o.Pod, UID: o.UID, Job: o.Job, User: o.User, Account: o.Account,
		}}
	}
	return d, nil
}

func (d *dictionary) leafSlices(leaf uint64) int { return int(d.leaves[leaf].Slices) }

func (d *dictionary) ownerID(owner uint64) string { return d.owners[owner].id }

// user is who people would call: the user, else the account.
func (o ownerName) user() string { return cmp.Or(o.facts.User, o.facts.Account) }
