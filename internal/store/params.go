package store

import "github.com/ClickHouse/clickhouse-go/v2"

// Named is the value of a {name:Type} parameter.
func Named(name string, value any) any { return clickhouse.Named(name, value) }
