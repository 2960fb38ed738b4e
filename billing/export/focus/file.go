package focus

import (
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/gputally/gputally/billing/export"
	"github.com/gputally/gputally/billing/export/focus/focuscheck"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/files"
	"github.com/gputally/gputally/internal/plural"
)

// File writes the bills of a billing period into dir/export/focus-1.2-2026-10.csv and their metadata, created at an
// instant, into focus-1.2-2026-10.metadata.json beside it; it returns the first one's path. Older files are replaced
// atomically. Errors: as of Write, bills of another period, the disk, and rules of FOCUS that the file would violate.
func File(
	dir, period string, options Options, created time.Time, bills iter.Seq2[Bill, error],
) (string, Summary, error) {
	// Both become part of a path, so they must be a valid month and version.
	month, err := rating.ParsePeriod(period)
	if err != nil {
		return "", Summary{}, fmt.Errorf("export FOCUS: %w", err)
	}
	if options, err = options.withDefaults(); err != nil {
		return "", Summary{}, fmt.Errorf("export FOCUS: %w", err)
	}
	name := filepath.Join(dir, export.Folder, "focus-"+options.Version+"-"+month.String())
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return "", Summary{}, fmt.Errorf("export FOCUS: %w", err)
	}
	var summary Summary
	err = files.Replace(name+".csv", func(w io.Writer) (err error) {
		summary, err = writeChecked(w, month.String(), options, bills)
		return err
	})
	if err == nil {
		err = files.Replace(name+".metadata.json", func(w io.Writer) error {
			return WriteMetadata(w, options, summary, created)
		})
	}
	if err != nil {
		return "", Summary{}, fmt.Errorf("export FOCUS to %s.csv: %w", name, err)
	}
	return name + ".csv", summary, nil
}

// shownViolations bounds the violations in an error.
const shownViolations = 3

// writeChecked writes, and checks the output at the same time.
func writeChecked(w io.Writer, period string, options Options, bills iter.Seq2[Bill, error]) (Summary, error) {
	reader, writer := io.Pipe()
	type verdict struct {
		violations []focuscheck.Violation
		err        error
	}
	checked := make(chan verdict, 1)
	go func() {
		violations, err := focuscheck.Check(reader, focuscheck.Options{Version: options.Version})
		_, _ = io.Copy(io.Discard, reader) // so that the writer isn't blocked by a check that has ended
		checked <- verdict{violations, err}
	}()
	summary, err := write(io.MultiWriter(w, writer), period, options, bills)
	_ = writer.CloseWithError(err) // it never fails; nil is the end of the file
	found := <-checked
	switch {
	case err != nil:
		return Summary{}, err
	case found.err != nil:
		return Summary{}, found.err
	case len(found.violations) > 0:
		return Summary{}, fmt.Errorf("FOCUS %s: %s, such as %v", options.Version,
			plural.Of(len(found.violations), "violation"),
			found.violations[:min(shownViolations, len(found.violations))])
	}
	return summary, nil
}
