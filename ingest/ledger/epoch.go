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

// epoch is a state of rules and mapping. A change of either starts a new one,
// and republishes the hours from where it takes effect (R5, R15).
type epoch = tables.Epoch

// epochAt is the epoch that an hour must be computed under: the newest that
// took effect at or before it.
func epochAt(epochs []epoch, hour time.Time) uint32 {
	var at uint32
	for _, e := range epochs {
		if !e.Effective.After(hour) {
			at = max(at, e.Epoch)
		}
	}
	return at
}

// epochs are all of them, and brings the mapping in force into l. Where hours
// must be published under another than the newest one, isNew says so, and the
// last of all is the epoch that has to be started for it: for newer rules, for
// two mappings under one number, and, while starting, for the mapping of l's
// own file. Apart from that the newest epoch is followed, whatever the file
// says: two services with different files would publish in turn for ever.
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
		return nil, false, fmt.Errorf("follow epoch %d: it is of rules %d, this program has %d: update it", inForce.Epoch,
			inForce.Rules, meter.RulesVersion)
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
	l.tellContested(newest)
	if len(newest) == 1 && inForce.Rules == meter.RulesVersion && inForce.Mapping == l.mapping.Hash() {
		return all, false, nil
	}
	return append(all, l.nextEpoch(inForce.Epoch+1, l.changedFrom(newest, mappings))), true, nil
}

// claimsOfNewest are the rows of the highest number: more than one where it was
// started by two services at once. The first is in force, for every reader: the
// newer rules, then the smaller SHA-256 of the mapping.
func claimsOfNewest(all []epoch) []epoch {
	number := all[len(all)-1].Epoch
	return all[slices.IndexFunc(all, func(e epoch) bool { return e.Epoch == number }):]
}

// changedFrom is the first hour that may have been published otherwise under
// one of the claims than l would.
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
	return epoch{Epoch: number, Rules: meter.RulesVersion, Mapping: l.mapping.Hash(), Tenants: l.mapping.Text(),
		Effective: effective}
}

// startEpoch writes a new epoch down before any hour is computed under it, and
// reads it back: another service may have started the same one meanwhile.
func (l *Ledger) startEpoch(ctx context.Context) ([]epoch, error) {
	for {
		all, isNew, err := l.epochs(ctx, !l.started)
		if err != nil {
			return nil, err
		}
		if !isNew {
			l.started = true
			l.tellMapping(all[len(all)-1].Epoch)
			return all, nil
		}
		next := all[len(all)-1]
		if err := l.insertEpoch(ctx, next); err != nil {
			return nil, err
		}
		l.started = true
		l.deps.Log.Info("rules or tenant mapping are new: hours are published under a new epoch", "epoch", next.Epoch,
			"from", next.Effective)
	}
}

// tellContested reports once that several services started an epoch.
func (l *Ledger) tellContested(claims []epoch) {
	key := fmt.Sprintf("epoch %d is contested", claims[0].Epoch)
	if len(claims) == 1 || l.told[key] {
		return
	}
	l.told[key] = true
	l.m.contested.Inc()
	l.deps.Log.Error("services with different tenant mappings or rules started the same epoch: one of them is in "+
		"force, the hours between are published anew",
		"epoch", claims[0].Epoch, "claims", len(claims), "rules", claims[0].Rules, "mapping", claims[0].Mapping)
}

// tellMapping says whether the mapping in force is that of l's own file.
func (l *Ledger) tellMapping(number uint32) {
	if l.cfg.KeepMapping || l.own.Hash() == l.mapping.Hash() {
		l.m.mappingDiffers.Set(0)
		return
	}
	l.m.mappingDiffers.Set(1)
	if key := fmt.Sprintf("epoch %d has another mapping", number); !l.told[key] {
		l.told[key] = true
		l.deps.Log.Error("another service has started an epoch with another tenant mapping: it is followed, the file of "+
			"this one is not in force",
			"epoch", number, "in_force", l.mapping.Hash(), "tenants_file", l.cfg.TenantsFile, "own", l.own.Hash())
	}
}

// checkMapping holds the mapping in force against l's own file (R15). Who may write
// ClickHouse may start an epoch; a file that no epoch ever had waits for a restart.
func (l *Ledger) checkMapping(epochs []epoch, isNew bool, res *check.Result) {
	if isNew {
		epochs = epochs[:len(epochs)-1] // it isn't stored
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
			"epoch %d publishes under tenant mapping %s; without a configuration file it was held against no tenants file",
			inForce.Epoch, inForce.Mapping))
	case slices.ContainsFunc(epochs, func(e epoch) bool { return e.Mapping == own }):
		res.Fail("%s: another service or somebody else started the epoch; ingest puts its own file in force when it is "+
			"restarted", text)
	default:
		res.Note(text + ", which was never in force: ingest takes it when it is restarted")
	}
}

func (l *Ledger) insertEpoch(ctx context.Context, e epoch) error {
	e.Claim, e.CreatedAt = fmt.Sprintf("%d %s", e.Rules, e.Mapping), l.deps.Clock.Now().UTC()
	if err := tables.Insert(ctx, l.deps.Store, "epochs", e); err != nil {
		return fmt.Errorf("start epoch %d: %w", e.Epoch, err)
	}
	return nil
}
