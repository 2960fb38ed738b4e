package store

import (
	"context"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Querier runs queries.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (driver.Rows, error)
}

// Each calls visit for each row of a query, until visit fails. fields returns the destinations of a row's columns;
// what names the rows in errors.
func Each[T any](ctx context.Context, db Querier, what, sql string, args []any, fields func(*T) []any,
	visit func(*T) error,
) error {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return fmt.Errorf("query %s: %w", what, err)
	}
	defer func() { _ = rows.Close() }() // rows.Err has returned any relevant error
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

// Select returns all rows of a query; without rows, an empty list.
func Select[T any](ctx context.Context, db Querier, what, sql string, args []any, fields func(*T) []any) ([]T, error) {
	all := []T{}
	err := Each(ctx, db, what, sql, args, fields, func(row *T) error {
		all = append(all, *row)
		return nil
	})
	return all, err
}
