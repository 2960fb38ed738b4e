package store

import "github.com/ClickHouse/clickhouse-go/v2"

// Named returns a {name:Type} parameter with its value.
func Named(name string, value any) any { return clickhouse.Named(name, value) }
