package gpustate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
)

// File keeps a source's State and what it knows besides. It is two lines: JSON,
// and the CRC-32C of it in hex. It is written in place, once per slot, because
// making and renaming a file costs more than everything else that is done with a
// reading; a write that a power cut tears is known by the sum.
type File struct {
	Path, Kind string

	f *os.File
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(line []byte) []byte { return fmt.Appendf(nil, "%08x", crc32.Checksum(line, castagnoli)) }

// Read reads the file into whole, which is or embeds the State at st. It refuses
// a file that is torn, or another kind's, format's or cluster's; a file that isn't
// there is fs.ErrNotExist.
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
		return fmt.Errorf("read %s %s: checksum %q, want %q: it was not written to its end", f.Kind, f.Path, got, sum(line))
	}
	return nil
}

// Write replaces what the file says.
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

// open makes sure of the file at the path: it may have been taken away.
func (f *File) open() error {
	if f.f != nil {
		there, err := os.Stat(f.Path)
		mine, mineErr := f.f.Stat()
		if err == nil && mineErr == nil && os.SameFile(there, mine) {
			return nil
		}
		_ = f.f.Close() // another file, or none, is at the path
	}
	var err error
	f.f, err = os.OpenFile(f.Path, os.O_CREATE|os.O_RDWR, 0o600)
	return err
}
