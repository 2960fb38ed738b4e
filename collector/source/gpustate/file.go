package gpustate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
)

// File stores a source's State and its further state. It has two lines: JSON, and its CRC-32C in hex. It is written
// in place, once per slot, because creating and renaming a file would take more time than the rest of a reading; a
// write that a power failure interrupts is detected by the checksum.
type File struct {
	Path, Kind string

	f *os.File
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(line []byte) []byte { return fmt.Appendf(nil, "%08x", crc32.Checksum(line, castagnoli)) }

// Read reads the file into whole, which is or embeds the State at st. It refuses a file that is incomplete, or of
// another kind, format or cluster; if the file is missing, the error is fs.ErrNotExist.
func (f *File) Read(cluster string, whole any, st *State) error {
	data, err := os.ReadFile(f.Path)
	if err != nil {
		return fmt.Errorf("read %s: %w", f.Kind, err)
	}
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	if err := json.Unmarshal(line, whole); err != nil {
		return fmt.Errorf("read %s %s, %d bytes: %w", f.Kind, f.Path, len(data), err)
	}
	if err := st.check(f.Kind, cluster); err != nil {
		return fmt.Errorf("read %s %s: %w", f.Kind, f.Path, err)
	}
	if got, _, _ := bytes.Cut(rest, []byte("\n")); !bytes.Equal(got, sum(line)) {
		return fmt.Errorf("read %s %s: checksum %q, want %q: the file is incomplete", f.Kind, f.Path, got, sum(line))
	}
	return nil
}

// Write replaces the file's content.
func (f *File) Write(whole any) error {
	line, err := json.Marshal(whole)
	if err != nil {
		return fmt.Errorf("encode %s: %w", f.Kind, err)
	}
	data := append(append(append(line, '\n'), sum(line)...), '\n')
	if err := f.open(); err != nil {
		return fmt.Errorf("write %s: %w", f.Kind, err)
	}
	if _, err = f.f.WriteAt(data, 0); err == nil {
		err = f.f.Truncate(int64(len(data)))
	}
	if err != nil {
		err = errors.Join(err, f.f.Close())
		f.f = nil
		return fmt.Errorf("write %s: %w", f.Kind, err)
	}
	return nil
}

// open opens the file at the path again if it was removed or replaced.
func (f *File) open() error {
	if f.f != nil {
		there, err := os.Stat(f.Path)
		mine, mineErr := f.f.Stat()
		if err == nil && mineErr == nil && os.SameFile(there, mine) {
			return nil
		}
		_ = f.f.Close() // the path has another file, or none
	}
	var err error
	f.f, err = os.OpenFile(f.Path, os.O_CREATE|os.O_RDWR, 0o600)
	return err
}
