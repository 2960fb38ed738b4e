package tables

import (
	_ "embed"
	"time"
)

const (
	byWeek  = "toMonday(slot)"
	byMonth = "toYYYYMM(hour)"
)

// All are the tables, in the order of their creation.
var All = []Table{
	of[Cluster](Table{Name: "clusters", Order: []string{"cluster", "since", "slot_ms"}}),
	of[Batch](Table{
		Name: "batches", Version: "ingested_at", Partition: byWeek,
		Order: []string{"cluster", "toStartOfHour(slot)", "node", "slot", "topic", "partition", "offset"},
	}),
	of[Hold](Table{
		Name: "holds", Partition: byWeek,
		Order: []string{
			"cluster", "toStartOfHour(slot)", "node", "gpu", "slot", "leaf", "owner", "bucket", "why",
			"head", "batch",
		},
	}),
	of[Sample](Table{
		Name: "samples", Version: "rev", Partition: byWeek,
		Order: []string{"cluster", "toStartOfHour(slot)", "node", "gpu", "device", "slot"},
	}),
	of[Leaf](Table{Name: "leaves", Order: []string{"id"}}),
	of[Owner](Table{Name: "owners", Order: []string{"id"}}),
	of[Event](Table{
		Name: "events", Partition: "toYYYYMM(at)",
		Order: []string{"cluster", "at", "node", "gpu", "leaf", "kind", "code", "batch"},
	}),
	of[RawWeek](Table{Name: "raw_weeks", Version: "state", Order: []string{"week"}}),
	of[Late](Table{Name: "late_unprocessed", Version: "ingested_at", Order: []string{"topic", "partition", "offset"}}),
	of[Epoch](Table{Name: "epochs", Version: "created_at", Order: []string{"epoch", "claim"}}),
	of[Sighting](Table{
		Name: "sightings", Version: "version", Partition: byMonth,
		Order: []string{"cluster", "hour", "gpu", "node"},
	}),
	// A GPU's whole history is on one server of a cluster. Sharded by node, the versions of an hour in which it moved
	// would be on two servers, since the row has the last node of the hour only.
	of[UsageHour](Table{
		Name: "usage_hourly", Version: "version", Partition: byMonth, Order: []string{"cluster", "hour", "gpu"}, Shard: "gpu",
		Constraints: []string{
			"CONSTRAINT c6 CHECK toUInt64(slices) * present_ms = free + stranded + unhealthy + unobserved + arraySum(active) " +
				"+ arraySum(idle) + arraySum(unproven)",
		},
	}),
	of[Retirement](Table{Name: "retirements", Version: "recorded_at", Order: []string{"cluster", "gpu", "at"}}),
	of[Anomaly](Table{
		Name: "anomalies", Version: "version", Partition: "toYYYYMM(start)",
		Order: []string{"start", "id"},
	}),
	of[Allocation](Table{
		Name: "allocations", Version: "revision",
		Order: []string{"cluster", "source", "start_ms", "record", "part"},
	}),
	of[AllocationHour](Table{
		Name: "allocation_hours", Version: "revision",
		Order: []string{"cluster", "source", "node", "hour"},
	}),
	of[Decision](Table{Name: "decisions", Order: []string{"offset"}}),
	of[Invoice](Table{Name: "invoices", Order: []string{"period", "tenant", "revision"}}),
	of[InvoiceUsage](Table{
		Name:  "invoice_usage",
		Order: []string{"period", "tenant", "revision", "hour", "project", "model", "profile", "bucket"},
	}),
}

//go:embed views/usage.sql
var usage string

//go:embed views/usage_daily.sql
var usageDaily string

//go:embed views/samples_5m.sql
var samples5m string

//go:embed views/invoiced_usage.sql
var invoicedUsage string

//go:embed views/slot_lengths.sql
var slotLengths string

// Views are the views, in the order of their creation.
var Views = []View{
	{"slot_lengths", slotLengths},
	{"usage", usage},
	{"usage_daily", usageDaily},
	{"samples_5m", samples5m},
	{"invoiced_usage", invoicedUsage},
}

// Migrations is the table of applied migrations.
var Migrations = of[Migration](Table{Name: "schema_migrations", Version: "applied_at", Order: []string{"version"}})

// Migration is an applied migration.
type Migration struct {
	Version   uint32    `ch:"version" sql:"UInt32"`
	Name      string    `ch:"name" sql:"String"`
	SHA256    string    `ch:"sha256" sql:"String COMMENT 'of the file, hex'"`
	AppliedAt time.Time `ch:"applied_at" sql:"DateTime64(3, 'UTC')"`
}
