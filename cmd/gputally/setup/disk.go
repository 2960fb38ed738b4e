package setup

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/internal/cli"
)

// FleetSize is what a disk estimate is asked for.
type FleetSize struct {
	Gpus int // boards
	Mig  int // of them, cut into seven instances
}

// Validate refuses a fleet that there can't be.
func (f FleetSize) Validate() error {
	switch {
	case f.Gpus < 0 || f.Gpus > 10_000_000:
		return cli.UsageError(fmt.Errorf("--gpus %d: want 0 to 10000000", f.Gpus))
	case f.Mig < 0 || f.Mig > f.Gpus:
		return cli.UsageError(fmt.Errorf("--mig %d: want at most %d, the number of --gpus", f.Mig, f.Gpus))
	}
	return nil
}

// Bytes on disk per GPU and day in slots of measuredSlot, after merges, on
// nodes of eight GPUs: `go test -run '^$' -bench DiskPerGPUDay -benchtime 1x
// ./ingest/ledger` measures them, on noise that is meant to be like a real
// fleet's. The ledger's own rows don't depend on the slot.
var (
	wholeGPUDay = diskPerDay{holds: 50_000, samples: 110_000, journal: 89_000, usage: 1_800}
	migGPUDay   = diskPerDay{holds: 325_000, samples: 300_000, journal: 89_000, usage: 2_900}
)

const (
	measuredSlot = 10 * time.Second
	// Bytes of one slot of a node, as the spool keeps them, by the same benchmark.
	wholeNodeBytes = 2_000
	migNodeBytes   = 7_000
)

// diskPerDay are bytes that a day adds, by table.
type diskPerDay struct{ holds, samples, journal, usage float64 }

func (d diskPerDay) times(n float64) diskPerDay {
	return diskPerDay{d.holds * n, d.samples * n, d.journal * n, d.usage * n}
}

func (d diskPerDay) plus(o diskPerDay) diskPerDay {
	return diskPerDay{d.holds + o.holds, d.samples + o.samples, d.journal + o.journal, d.usage + o.usage}
}

// estimateDisk is what a day of the fleet adds in slots of that length.
func estimateDisk(f FleetSize, slot time.Duration) diskPerDay {
	d := wholeGPUDay.times(float64(f.Gpus - f.Mig)).plus(migGPUDay.times(float64(f.Mig)))
	usage := d.usage
	d = d.times(measuredSlot.Seconds() / slot.Seconds())
	d.usage = usage
	return d
}

// writeDiskEstimate prints what the fleet takes under the configuration.
func writeDiskEstimate(w io.Writer, f FleetSize, cfg settings.Config) error {
	d := estimateDisk(f, cfg.Cluster.Slot)
	raw, rest := d.holds+d.samples, d.journal+d.usage
	var b strings.Builder
	fmt.Fprintf(&b, "disk for %d GPUs, %d of them in seven instances, on nodes of 8, in slots of %s:\n", f.Gpus, f.Mig,
		cfg.Cluster.Slot)
	t := cli.Table{Columns: cli.Columns("table", "a_day number", "a_year number")}
	for _, line := range []struct {
		name  string
		bytes float64
	}{
		{"holds", d.holds},
		{"samples", d.samples},
		{"batches (the journal)", d.journal},
		{"usage_hourly", d.usage},
		{"in all", raw + rest},
	} {
		t.Rows = append(t.Rows, []string{line.name, bytesText(line.bytes), bytesText(line.bytes * 365)})
	}
	b.WriteString(t.Text(false))
	if keep := cfg.Ledger.RawRetention; keep > 0 {
		// A week goes whole, after its last day's retention.
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

// spoolDays is how long the spool of one node lasts.
func spoolDays(cfg settings.Config, bytesPerSlot float64) string {
	perDay := bytesPerSlot * (24 * time.Hour).Seconds() / cfg.Cluster.Slot.Seconds()
	return fmt.Sprintf("%.1f days", float64(cfg.Collector.SpoolMaxBytes)/perDay)
}

// bytesText is bytes in decimal units, two digits and more.
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
