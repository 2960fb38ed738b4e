package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/gpuledger/gpuledger/internal/meter"
	"github.com/gpuledger/gpuledger/internal/tenants"
)

// epoch is a state of rules and mapping. A change of either starts a new one,
// and republishes the hours from where it takes effect (R5, R15).
type epoch struct {
	Epoch     uint32    `ch:"epoch"`
	Rules     uint16    `ch:"rules"`
	Mapping   string    `ch:"mapping"`
	Tenants   string    `ch:"tenants"`
	Effective time.Time `ch:"effective"`
}

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

// epochs are all of them, the last one for the rules and the mapping in force;
// isNew says that it hasn't been started yet. A ledger that keeps the mapping
// takes it from the newest epoch.
func (l *Ledger) epochs(ctx context.Context) (all []epoch, isNew bool, err error) {
	if err := l.deps.Store.Select(ctx, &all, selectEpochs); err != nil {
		return nil, false, fmt.Errorf("read epochs: %w", err)
	}
	if len(all) == 0 {
		return []epoch{l.nextEpoch(1, everything)}, true, nil
	}
	last := all[len(all)-1]
	stored, err := tenants.Parse(fmt.Sprintf("tenants of epoch %d", last.Epoch), []byte(last.Tenants))
	if err != nil {
		return nil, false, err
	}
	if l.cfg.KeepMapping {
		l.mapping = stored
	}
	switch {
	case last.Rules != meter.RulesVersion:
		return append(all, l.nextEpoch(last.Epoch+1, everything)), true, nil
	case last.Mapping != l.mapping.Hash():
		return append(all, l.nextEpoch(last.Epoch+1, stored.DiffersFrom(l.mapping))), true, nil
	default:
		return all, false, nil
	}
}

func (l *Ledger) nextEpoch(number uint32, effective time.Time) epoch {
	return epoch{Epoch: number, Rules: meter.RulesVersion, Mapping: l.mapping.Hash(), Tenants: l.mapping.Text(), Effective: effective}
}

// startEpoch writes a new epoch down before any hour is computed under it.
func (l *Ledger) startEpoch(ctx context.Context) ([]epoch, error) {
	all, isNew, err := l.epochs(ctx)
	if err != nil || !isNew {
		return all, err
	}
	next := all[len(all)-1]
	if err := l.insertEpoch(ctx, next); err != nil {
		return nil, err
	}
	l.deps.Log.Info("rules or tenant mapping are new: hours are published under a new epoch", "epoch", next.Epoch, "from", next.Effective)
	return all, nil
}

func (l *Ledger) insertEpoch(ctx context.Context, e epoch) error {
	number, rules, mapping, text := new(proto.ColUInt32), new(proto.ColUInt16), new(proto.ColStr), new(proto.ColStr)
	effective, created := new(proto.ColDateTime), new(proto.ColDateTime64).WithPrecision(proto.PrecisionMilli)
	number.Append(e.Epoch)
	rules.Append(e.Rules)
	mapping.Append(e.Mapping)
	text.Append(e.Tenants)
	effective.Append(e.Effective)
	created.Append(l.deps.Clock.Now().UTC())
	if err := l.deps.Store.Insert(ctx, "epochs", proto.Input{
		{Name: "epoch", Data: number},
		{Name: "rules", Data: rules},
		{Name: "mapping", Data: mapping},
		{Name: "tenants", Data: text},
		{Name: "effective", Data: effective},
		{Name: "created_at", Data: created},
	}); err != nil {
		return fmt.Errorf("start epoch %d: %w", e.Epoch, err)
	}
	return nil
}
