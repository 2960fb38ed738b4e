package export

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/rating"
)

// Folder holds exports inside of the data directory.
const Folder = "export"

// Chargeback writes a month into dir/export/chargeback-2026-10.csv and returns
// the file's path. An older export of the month is replaced as a whole.
func Chargeback(dir string, month *invoice.Month) (path string, err error) {
	// The period becomes part of a path: it must be a month and nothing else.
	period, err := rating.ParsePeriod(month.Period)
	if err != nil {
		return "", fmt.Errorf("export chargeback: %w", err)
	}
	path = filepath.Join(dir, Folder, "chargeback-"+period.String()+".csv")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("export chargeback: %w", err)
	}
	if err := Replace(path, func(w io.Writer) error { return WriteChargeback(w, month) }); err != nil {
		return "", fmt.Errorf("export chargeback to %s: %w", path, err)
	}
	return path, nil
}

// Replace writes a file beside path, makes it durable and renames it to path:
// the file is whole, or what it was before.
func Replace(path string, write func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	buffer := bufio.NewWriter(file)
	err = write(buffer)
	if err == nil {
		err = buffer.Flush()
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename durable.
func syncDir(dir string) error {
	opened, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}
