package ingest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

// TestFreshnessIsOfTheNewestLiveSlot by cluster, whatever order batches come in;
// what isn't live says nothing of it.
func TestFreshnessIsOfTheNewestLiveSlot(t *testing.T) {
	appended := time.Unix(1_800_000_000, 0)
	p := newPipeline(t)
	for _, c := range []struct {
		cluster string
		back    time.Duration
		origin  wire.Origin
	}{
		{"a", 30 * time.Second, wire.Origin_ORIGIN_LIVE},
		{"a", 10 * time.Second, wire.Origin_ORIGIN_UNSPECIFIED},
		{"a", 20 * time.Second, wire.Origin_ORIGIN_LIVE},
		{"b", time.Minute, wire.Origin_ORIGIN_LIVE},
		{"b", 0, wire.Origin_ORIGIN_SIMULATED},
		{"c", 0, wire.Origin_ORIGIN_IMPORT},
		{"a", -time.Hour, wire.Origin_ORIGIN_LIVE}, // dead: from the future
	} {
		b := fleetBatch(0, 0)
		b.Cluster, b.Origin, b.SlotStartMs = c.cluster, c.origin, appended.Add(-c.back).UnixMilli()
		p.topic.append(encoded(t, b))
	}
	r := p.start(t, ingest.DefaultConfig(), p.db, clock.Real())
	r.read(t)
	want := `
# HELP gputally_ingest_held_bytes Bytes of messages that were fetched and are not in the journal yet.
# TYPE gputally_ingest_held_bytes gauge
gputally_ingest_held_bytes 0
# HELP gputally_ingest_newest_slot_timestamp_seconds End of the newest live slot that this ingester journalled, by cluster. Freshness is the current time minus the greatest value of all ingesters.
# TYPE gputally_ingest_newest_slot_timestamp_seconds gauge
gputally_ingest_newest_slot_timestamp_seconds{cluster="a"} 1.8e+09
gputally_ingest_newest_slot_timestamp_seconds{cluster="b"} 1.79999995e+09
`
	if err := testutil.GatherAndCompare(r.reg, strings.NewReader(want), "gputally_ingest_held_bytes",
		"gputally_ingest_newest_slot_timestamp_seconds"); err != nil {
		t.Error(err)
	}
}

func TestConfigNamesWhatCannotWork(t *testing.T) {
	if err := ingest.DefaultConfig().Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	for want, change := range map[string]func(*ingest.Config){
		"ingest.chunk_bytes 65535": func(c *ingest.Config) { c.ChunkBytes = 1<<16 - 1 },
		"ingest.chunk_records 0":   func(c *ingest.Config) { c.ChunkRecords = 0 },
		"ingest.chunk_wait 0s":     func(c *ingest.Config) { c.ChunkWait = 0 },
		"ingest.max_late 0s":       func(c *ingest.Config) { c.MaxLate = 0 },
		"ingest.max_early -1s":     func(c *ingest.Config) { c.MaxEarly = -time.Second },
		"ingest.group is empty":    func(c *ingest.Config) { c.Group = "" },
	} {
		c := ingest.DefaultConfig()
		if change(&c); c.Validate() == nil || !strings.Contains(c.Validate().Error(), want) {
			t.Errorf("got %v, want %q", c.Validate(), want)
		}
	}
}
