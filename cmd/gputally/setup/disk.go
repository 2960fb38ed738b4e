package setup

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/internal/cli"
)

// FleetSize is the fleet of a disk estimate.
type FleetSize struct {
	Gpus int // boards
	Mig  int // of them, divided into seven instances
}

// Validate refuses an impossible fleet.
func (f FleetSize) Validate() error {
	switch {
	case f.Gpus < 0 || f.Gpus > 10_000_000:
		return cli.UsageError(fmt.Errorf("--gpus %d: want 0 to 10000000", f.Gpus))
	case f.Mig < 0 || f.Mig > f.Gpus:
		return cli.UsageError(fmt.Errorf("--mig %d: want at most %d, the number of --gpus", f.Mig, f.Gpus))
	}
	return nil
}

// diskTables are the bytes on disk per GPU and day in slots of measuredSlot,
// after merges, on nodes of eight GPUs: `go test -run '^$' -bench DiskPerGPUDay
// -benchtime 1x ./ingest/ledger` measures them, on noise that is meant to be like
// a real fleet's. The ledger's own rows don't depend on the slot.
var diskTables = []struct {
	name       string
	whole, mig float64 // of a whole GPU, and of one in seven instances
	raw, slots bool    // dropped after raw_retention; of slots
}{
	{"holds", 50_000, 325_000, true, true},
	{"samples", 110_000, 300_000, true, true},
	{"batches (the journal)", 89_000, 89_000, false, true},
	{"usage_hourly", 1_800, 2_900, false, false},
}

const (
	measuredSlot = 10 * time.Second
	// Bytes of one slot of a node, as the spool keeps them, by the same benchmark.
	wholeNodeBytes = 2_000
	migNodeBytes   = 7_000
)

// estimateDisk returns what a day of the fleet adds in slots of that length, by diskTables.
func estimateDisk(f FleetSize, slot time.Duration) []float64 {
	bytes := make([]float64, len(diskTables))
	for i, t := range diskTables {
		bytes[i] = t.whole*float64(f.Gpus-f.Mig) + t.mig*float64(f.Mig)
		if t.slots {
			bytes[i] *= measuredSlot.Seconds() / slot.Seconds()
		}
	}
	return bytes
}

// writeDiskEstimate prints the fleet's disk usage under the configuration.
func writeDiskEstimate(w io.Writer, f FleetSize, cfg settings.Config) error {
	var b strings.Builder
	fmt.Fprintf(&b, "disk for %d GPUs, %d of them in seven instances, on nodes of 8, in slots of %s:\n", f.Gpus, f.Mig,
		cfg.Cluster.Slot)
	t := cli.Table{Columns: cli.Columns("table", "a_day number", "a_year number")}
	add := func(name string, bytes float64) {
		t.Rows = append(t.Rows, []string{name, bytesText(bytes), bytesText(bytes * 365)})
	}
	var raw, rest float64
	for i, bytes := range estimateDisk(f, cfg.Cluster.Slot) {
		if add(diskTables[i].name, bytes); diskTables[i].raw {
			raw += bytes
		} else {
			rest += bytes
		}
	}
	add("in all", raw+rest)
	b.WriteString(t.Text(false))
	if keep := cfg.Ledger.RawRetention; keep > 0 {
		// A week is dropped as a whole, after its last day's retention.
		fmt.Fprintf(&b, "raw_retention %s: holds and samples come to %s and stay there; all else grows by %s a year\n",
			keep, bytesText(raw*(keep.Hours()/24+7)), bytesText(rest*365))
	} else {
		b.WriteString("raw_retention 0: holds and samples are kept for ever\n")
	}
	fmt.Fprintf(&b, "spool_max_bytes %s: %s of a node of 8 whole GPUs, %s of one in instances, while the broker is away\n",
		bytesText(float64(cfg.Collector.SpoolMaxBytes)), spoolDays(cfg, wholeNodeBytes), spoolDays(cfg, migNodeBytes))
	b.WriteString("Kafka's log is not counted; merges need about a week's raw in addition\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// spoolDays is how long the spool of one node suffices.
func spoolDays(cfg settings.Config, bytesPerSlot float64) string {
	perDay := bytesPerSlot * (24 * time.Hour).Seconds() / cfg.Cluster.Slot.Seconds()
	return fmt.Sprintf("%.1f days", float64(cfg.Collector.SpoolMaxBytes)/perDay)
}

// bytesText formats bytes in decimal units, with at least two digits.
func bytesText(n float64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	i := 0
	for n >= 1000 && i < len(units)-1 {
		n, i = n/1000, i+1
	}
	if n < 10 && i > 0 {
		return fmt.Sprintf("%.1f %s", n, units[i])
	}
	return fmt.Sprintf("%.0f %s", n, units[i])
}
