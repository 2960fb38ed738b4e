package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/gpuledger/gpuledger/internal/meter"
)

// epoch is a state of rules and mapping. A change of either starts a new one,
// and republishes the hours from where it takes effect (R5, R15).
type epoch struct {
	Epoch     uint32    `ch:"epoch"`
	Rules     uint16    `ch:"rules"`
	Mapping   string    `ch:"mapping"`
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

// epochs are all of them, the last one for the rules and the mapping as they
// are now; isNew says that it hasn't been started yet.
func (l *Ledger) epochs(ctx context.Context) (all []epoch, isNew bool, err error) {
	if err := l.deps.Store.Select(ctx, &all, selectEpochs); err != nil {
		return nil, false, fmt.Errorf("read epochs: %w", err)
	}
	if n := len(all); n > 0 && all[n-1].Rules == meter.RulesVersion && all[n-1].Mapping == l.mapping.hash {
		return all, false, nil
	}
	next := epoch{Epoch: uint32(len(all)) + 1, Rules: meter.RulesVersion, Mapping: l.mapping.hash, Effective: time.Unix(0, 0).UTC()}
	return append(all, next), true, nil
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
	l.deps.Log.Info("rules or tenant mapping are new: hours are published under a new epoch", "epoch", next.Epoch)
	return all, nil
}

func (l *Ledger) insertEpoch(ctx context.Context, e epoch) error {
	number, rules, mapping := new(proto.ColUInt32), new(proto.ColUInt16), new(proto.ColStr)
	effective, created := new(proto.ColDateTime), new(proto.ColDateTime64).WithPrecision(proto.PrecisionMilli)
	number.Append(e.Epoch)
	rules.Append(e.Rules)
	mapping.Append(e.Mapping)
	effective.Append(e.Effective)
	created.Append(l.deps.Clock.Now().UTC())
	if err := l.deps.Store.Insert(ctx, "epochs", proto.Input{
		{Name: "epoch", Data: number},
		{Name: "rules", Data: rules},
		{Name: "mapping", Data: mapping},
		{Name: "effective", Data: effective},
		{Name: "created_at", Data: created},
	}); err != nil {
		return fmt.Errorf("start epoch %d: %w", e.Epoch, err)
	}
	return nil
}
