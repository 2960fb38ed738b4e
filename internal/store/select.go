package store

import (
	"context"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Querier is what reading rows needs of a database.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (driver.Rows, error)
}

// Each hands the rows of a query to visit, one at a time, until it fails. fields
// are where a row's columns go; what names the rows in errors.
func Each[T any](ctx context.Context, db Querier, what, sql string, args []any, fields func(*T) []any,
	visit func(*T) error,
) error {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return fmt.Errorf("query %s: %w", what, err)
	}
	defer func() { _ = rows.Close() }() // rows.Err has told what matters
	for rows.Next() {
		var row T
		if err := rows.Scan(fields(&row)...); err != nil {
			return fmt.Errorf("read %s: %w", what, err)
		}
		if err := visit(&row); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read %s: %w", what, err)
	}
	return nil
}

// Select reads all rows of a query, as Each does; no row is an empty list.
func Select[T any](ctx context.Context, db Querier, what, sql string, args []any, fields func(*T) []any) ([]T, error) {
	all := []T{}
	err := Each(ctx, db, what, sql, args, fields, func(row *T) error {
		all = append(all, *row)
		return nil
	})
	return all, err
}
