package projection

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/store"
)

const selectBook = `
SELECT body FROM decisions FINAL WHERE kind = 'price_book' AND accepted = 1 ORDER BY offset DESC LIMIT 1`

// BookInForce returns the price book that was published last, as far as decisions are projected: for readers of
// ClickHouse only. Nil: none is published.
func BookInForce(ctx context.Context, db *store.DB) (*prices.Book, error) {
	var rows []struct {
		Body string `ch:"body"`
	}
	if err := db.Select(ctx, &rows, selectBook); err != nil {
		return nil, fmt.Errorf("read price book in force: %w", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	var published decisions.PriceBook
	if err := json.Unmarshal([]byte(rows[0].Body), &published); err != nil {
		return nil, fmt.Errorf("read price book in force: %w", err)
	}
	book, err := prices.Parse(published.Name, []byte(published.Text))
	if err != nil {
		return nil, fmt.Errorf("read price book in force: %w", err)
	}
	return book, nil
}

const selectFindings = `
SELECT offset, who, body FROM decisions FINAL WHERE kind = 'finding' AND accepted = 1 ORDER BY offset`

// Findings returns the marks of findings, as far as decisions are projected: for readers of ClickHouse only.
func Findings(ctx context.Context, db *store.DB) (*decisions.Findings, error) {
	type row struct {
		offset    uint64
		who, body string
	}
	findings := &decisions.Findings{}
	fields := func(r *row) []any { return []any{&r.offset, &r.who, &r.body} }
	err := store.Each(ctx, db, "marks of findings", selectFindings, nil, fields, func(r *row) error {
		d := decisions.Decided[decisions.Finding]{Offset: int64(r.offset), Who: r.who}
		if err := json.Unmarshal([]byte(r.body), &d.Body); err != nil {
			return fmt.Errorf("at offset %d: %w", r.offset, err)
		}
		findings.Fold(d)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read marks of findings: %w", err)
	}
	return findings, nil
}
