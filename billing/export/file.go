package export

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/files"
)

// Folder is the subdirectory of the data directory for exports.
const Folder = "export"

// Chargeback writes a month into dir/export/chargeback-2026-10.csv and returns the file's path. An older export of
// the month is replaced atomically.
func Chargeback(dir string, month *invoice.Month) (path string, err error) {
	// The period becomes part of a path, so it must be a valid month.
	period, err := rating.ParsePeriod(month.Period)
	if err != nil {
		return "", fmt.Errorf("export chargeback: %w", err)
	}
	path = filepath.Join(dir, Folder, "chargeback-"+period.String()+".csv")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("export chargeback: %w", err)
	}
	if err := files.Replace(path, func(w io.Writer) error { return WriteChargeback(w, month) }); err != nil {
		return "", fmt.Errorf("export chargeback to %s: %w", path, err)
	}
	return path, nil
}
