package ingest

import (
	"fmt"
	"time"
)

// Config of the ingester.
type Config struct {
	Group        string        `yaml:"group"`
	ChunkRecords int           `yaml:"chunk_records"` // messages per insert, at most
	ChunkBytes   int           `yaml:"chunk_bytes"`   // of messages per insert; a larger one goes alone
	ChunkWait    time.Duration `yaml:"chunk_wait"`    // how long a chunk waits for its first message
	MaxLate      time.Duration `yaml:"max_late"`      // R11: older live batches are dead-lettered
	MaxEarly     time.Duration `yaml:"max_early"`     // R11: live batches later than the append time plus this are
}

// DefaultConfig works for one machine and for many.
func DefaultConfig() Config {
	return Config{
		Group: "gputally-ingest", ChunkRecords: 5000, ChunkBytes: 8 << 20, ChunkWait: time.Second,
		MaxLate: 35 * 24 * time.Hour, MaxEarly: 2 * time.Minute,
	}
}

// Validate names the field and the value that can't be used.
func (c Config) Validate() error {
	switch {
	case c.Group == "":
		return fmt.Errorf("ingest.group is empty")
	case c.ChunkRecords < 1 || c.ChunkRecords > 100_000:
		return fmt.Errorf("ingest.chunk_records %d: must be 1 to 100000", c.ChunkRecords)
	case c.ChunkBytes < 1<<16 || c.ChunkBytes > 1<<30:
		return fmt.Errorf("ingest.chunk_bytes %d: must be 65536 to 1073741824", c.ChunkBytes)
	case c.ChunkWait <= 0:
		return fmt.Errorf("ingest.chunk_wait %s: must be positive", c.ChunkWait)
	case c.MaxLate <= 0:
		return fmt.Errorf("ingest.max_late %s: must be positive", c.MaxLate)
	case c.MaxEarly < 0:
		return fmt.Errorf("ingest.max_early %s: must not be negative", c.MaxEarly)
	}
	return nil
}
