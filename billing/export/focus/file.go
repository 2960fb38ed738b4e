package focus

import (
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuledger/gpuledger/billing/export"
	"github.com/gpuledger/gpuledger/billing/rating"
)

// File writes the bills of a billing period into dir/export/focus-1.2-2026-10.csv
// and what describes them, created at an instant, beside it as
// focus-1.2-2026-10.metadata.json; it returns the first one's path. Older files
// are replaced as a whole. Errors as of Write, and of the disk.
func File(dir, period string, options Options, created time.Time, bills iter.Seq2[Bill, error]) (string, Summary, error) {
	// Both become part of a path: a month and a version, and nothing else.
	month, err := rating.ParsePeriod(period)
	if err != nil {
		return "", Summary{}, fmt.Errorf("export FOCUS: %w", err)
	}
	if options, err = options.withDefaults(); err != nil {
		return "", Summary{}, fmt.Errorf("export FOCUS: %w", err)
	}
	name := filepath.Join(dir, export.Folder, "focus-"+options.Version+"-"+month.String())
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		return "", Summary{}, fmt.Errorf("export FOCUS: %w", err)
	}
	var summary Summary
	err = export.Replace(name+".csv", func(w io.Writer) (err error) {
		summary, err = Write(w, options, bills)
		return err
	})
	if err == nil {
		err = export.Replace(name+".metadata.json", func(w io.Writer) error {
			return WriteMetadata(w, options, summary, created)
		})
	}
	if err != nil {
		return "", Summary{}, fmt.Errorf("export FOCUS to %s.csv: %w", name, err)
	}
	return name + ".csv", summary, nil
}
