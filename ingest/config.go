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
	MaxLate      time.Duration `yaml:"max_late"`      // older live batches are dead-lettered (R11)
	MaxEarly     time.Duration `yaml:"max_early"`     // so are live ones that end this long after the append time (R11)
}

// DefaultConfig suits one machine as well as many.
func DefaultConfig() Config {
	return Config{
		Group: "gputally-ingest", ChunkRecords: 5000, ChunkBytes: 8 << 20, ChunkWait: time.Second,
		MaxLate: 35 * 24 * time.Hour, MaxEarly: 2 * time.Minute,
	}
}

// Validate returns an error that names the field and its value.
func (c Config) Validate() error {
	switch {
	case c.Group == "":
		return fmt.Errorf("ingest.group is empty: name the Kafka consumer group")
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
