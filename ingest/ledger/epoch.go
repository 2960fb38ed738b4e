package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/tables"
	"github.com/gputally/gputally/internal/tenants"
)

// epoch is a version of rules and tenant mapping. A change of either starts a new
// epoch and republishes the hours from its effective date (R5, R15).
type epoch = tables.Epoch

// epochAt is the epoch under which an hour must be computed: the newest that is
// effective at its start.
func epochAt(epochs []epoch, hour time.Time) uint32 {
	var at uint32
	for _, e := range epochs {
		if !e.Effective.After(hour) {
			at = max(at, e.Epoch)
		}
	}
	return at
}

// epochs returns all epochs, and sets the mapping in force in l. If hours must be
// published under a new epoch, isNew is true and the last epoch returned is the one to
// start: for newer rules, for two mappings under one number, and, while starting, for
// the mapping in l's own file. Otherwise the newest epoch is followed, whatever l's
// file says: two services with different files would republish in turn for ever.
func (l *Ledger) epochs(ctx context.Context, starting bool) (all []epoch, isNew bool, err error) {
	if err := l.deps.Store.Select(ctx, &all, selectEpochs); err != nil {
		return nil, false, fmt.Errorf("read epochs: %w", err)
	}
	if len(all) == 0 {
		l.mapping = l.own
		return []epoch{l.nextEpoch(1, everything)}, true, nil
	}
	newest := claimsOfNewest(all)
	inForce, mappings := newest[0], make([]*tenants.Mapping, len(newest))
	if inForce.Rules > meter.RulesVersion {
		return nil, false, fmt.Errorf("follow epoch %d: its rules have version %d, this program has only version %d: update "+
			"the program", inForce.Epoch, inForce.Rules, meter.RulesVersion)
	}
	for i, c := range newest {
		if mappings[i], err = tenants.Parse(fmt.Sprintf("tenants of epoch %d", c.Epoch), []byte(c.Tenants)); err != nil {
			return nil, false, err
		}
	}
	l.mapping = mappings[0]
	if starting && !l.cfg.KeepMapping {
		l.mapping = l.own
	}
	l.reportContested(newest)
	if len(newest) == 1 && inForce.Rules == meter.RulesVersion && inForce.Mapping == l.mapping.Hash() {
		return all, false, nil
	}
	return append(all, l.nextEpoch(inForce.Epoch+1, l.changedFrom(newest, mappings))), true, nil
}

// claimsOfNewest returns the rows with the highest number: more than one if two
// services started the epoch at once. Every reader takes the first: the one with the
// newer rules, then with the smaller SHA-256 of the mapping.
func claimsOfNewest(all []epoch) []epoch {
	number := all[len(all)-1].Epoch
	return all[slices.IndexFunc(all, func(e epoch) bool { return e.Epoch == number }):]
}

// changedFrom is the first hour that may have been published differently under one of
// the claims than l would publish it.
func (l *Ledger) changedFrom(claims []epoch, mappings []*tenants.Mapping) time.Time {
	var from time.Time
	for i, c := range claims {
		at := everything
		if c.Rules == meter.RulesVersion {
			at = mappings[i].DiffersFrom(l.mapping)
		}
		if i == 0 || at.Before(from) {
			from = at
		}
	}
	return from
}

func (l *Ledger) nextEpoch(number uint32, effective time.Time) epoch {
	return epoch{
		Epoch: number, Rules: meter.RulesVersion, Mapping: l.mapping.Hash(), Tenants: l.mapping.Text(),
		Effective: effective,
	}
}

// startEpoch records a new epoch before any hour is computed under it, and reads it
// back: another service may have started the same one meanwhile.
func (l *Ledger) startEpoch(ctx context.Context) ([]epoch, error) {
	for {
		all, isNew, err := l.epochs(ctx, !l.started)
		if err != nil {
			return nil, err
		}
		if !isNew {
			l.started = true
			l.reportMapping(all[len(all)-1].Epoch)
			return all, nil
		}
		next := all[len(all)-1]
		if err := l.insertEpoch(ctx, next); err != nil {
			return nil, err
		}
		l.started = true
		if len(all) == 1 {
			l.deps.Log.Info("the ledger is new: recorded its metering rules and tenant mapping", "epoch", next.Epoch)
			continue
		}
		l.deps.Log.Info("rules or tenant mapping changed: hours are republished under a new epoch", "epoch", next.Epoch,
			"from", next.Effective)
	}
}

// reportContested logs once that several services started an epoch.
func (l *Ledger) reportContested(claims []epoch) {
	if len(claims) == 1 || !l.logged.First(fmt.Sprintf("epoch %d is contested", claims[0].Epoch)) {
		return
	}
	l.m.contested.Inc()
	l.deps.Log.Error("services with different tenant mappings or rules started the same epoch: one of them is in force, "+
		"the affected hours are republished",
		"epoch", claims[0].Epoch, "claims", len(claims), "rules", claims[0].Rules, "mapping", claims[0].Mapping)
}

// reportMapping logs and measures whether the mapping in force is that of l's own
// file.
func (l *Ledger) reportMapping(number uint32) {
	if l.cfg.KeepMapping || l.own.Hash() == l.mapping.Hash() {
		l.m.mappingDiffers.Set(0)
		return
	}
	l.m.mappingDiffers.Set(1)
	if l.logged.First(fmt.Sprintf("epoch %d has another mapping", number)) {
		l.deps.Log.Error("another service started an epoch with another tenant mapping: that mapping is in force, and this "+
			"service's tenants file is not",
			"epoch", number, "in_force", l.mapping.Hash(), "tenants_file", l.cfg.TenantsFile, "own", l.own.Hash())
	}
}

// checkMapping compares the mapping in force with l's own file (R15). Anyone who may
// write to ClickHouse can start an epoch. A file that no epoch ever had takes effect
// when ingest is restarted.
func (l *Ledger) checkMapping(epochs []epoch, isNew bool, res *check.Result) {
	if isNew {
		epochs = epochs[:len(epochs)-1] // it isn't stored yet
	}
	if len(epochs) == 0 {
		return
	}
	inForce, own := claimsOfNewest(epochs)[0], l.own.Hash()
	text := fmt.Sprintf("epoch %d publishes under tenant mapping %s, ledger.tenants_file %q has %s", inForce.Epoch,
		inForce.Mapping, l.cfg.TenantsFile, own)
	switch {
	case inForce.Mapping == own:
	case !l.cfg.CompareMapping:
		res.Note(fmt.Sprintf(
			"epoch %d publishes under tenant mapping %s; it was compared with no tenants file, because there is no "+
				"configuration file", inForce.Epoch, inForce.Mapping))
	case slices.ContainsFunc(epochs, func(e epoch) bool { return e.Mapping == own }):
		res.Fail("%s: another service or somebody else started the epoch; restart ingest to put its own file in force", text)
	default:
		res.Note(text + ", which was never in force: restart ingest to put it in force")
	}
}

func (l *Ledger) insertEpoch(ctx context.Context, e epoch) error {
	e.Claim, e.CreatedAt = fmt.Sprintf("%d %s", e.Rules, e.Mapping), l.deps.Clock.Now().UTC()
	if err := tables.Insert(ctx, l.deps.Store, "epochs", e); err != nil {
		return fmt.Errorf("start epoch %d: %w", e.Epoch, err)
	}
	return nil
}
