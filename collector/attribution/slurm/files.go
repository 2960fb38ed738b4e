package slurm

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gputally/gputally/collector/attribution"
)

// maxFileBytes bounds a mapping file: thousands of jobs on one device.
const maxFileBytes = 64 << 10

// mapped is one file of the mapping directory: a device and its jobs. Either uuid is set, or position and possibly
// gi.
type mapped struct {
	path     string
	uuid     string
	position uint32
	gi       *uint32
	jobs     []string
	stamp    stamp
}

// stamp identifies a version of a file.
type stamp struct {
	size     int64
	modified time.Time
}

// marker is the file that a prolog creates in the directory: without it no prolog writes there, and missing jobs mean
// nothing.
const marker = ".prolog"

// directory reads the mapping directory.
type directory struct {
	path string
	// unfinished is the content, by file name, that had no newline at its end in the last poll: it counts if it is
	// unchanged in the next.
	unfinished map[string]string
}

// read returns the files that name a job. Files that are removed meanwhile are free.
func (d *directory) read() ([]mapped, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("read mapping directory: %w", err)
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == marker }) {
		return nil, fmt.Errorf("mapping directory %s: has no file %s, which the prolog creates: run the prolog when the "+
			"machine starts", d.path, marker)
	}
	before := d.unfinished
	d.unfinished = map[string]string{}
	var all []mapped
	var errs []error
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		m, err := d.file(entry.Name(), before)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			errs = append(errs, err)
		case len(m.jobs) > 0:
			all = append(all, m)
		}
	}
	return all, errors.Join(errs...)
}

func (d *directory) file(name string, before map[string]string) (m mapped, err error) {
	path := filepath.Join(d.path, name)
	if m, err = parseFileName(name); err != nil {
		return m, fmt.Errorf("mapping file %s: %w", path, err)
	}
	m.path = path
	text, err := m.readBounded()
	if err != nil {
		return m, fmt.Errorf("read mapping file: %w", err)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		d.unfinished[name] = text
		if before[name] != text {
			return m, fmt.Errorf("mapping file %s: the last line has no newline; write a temporary file and rename it", path)
		}
	}
	if m.jobs, err = parseJobLines(text); err != nil {
		return m, fmt.Errorf("mapping file %s:%w", path, err)
	}
	return m, nil
}

// readBounded reads a regular file: a pipe would never end.
func (m *mapped) readBounded() (string, error) {
	info, err := os.Lstat(m.path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s: is not a regular file but %s", m.path, info.Mode())
	}
	m.stamp = stamp{info.Size(), info.ModTime()}
	f, err := os.Open(m.path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(text) > maxFileBytes {
		err = fmt.Errorf("%s: has more than %d bytes", m.path, maxFileBytes)
	}
	return string(text), err
}

func parseFileName(name string) (m mapped, err error) {
	if isUUID(name) {
		return mapped{uuid: name}, nil
	}
	position, gi, isInstance := strings.Cut(name, ".")
	if m.position, err = parseUint32(position); err == nil && isInstance {
		m.gi = new(uint32)
		*m.gi, err = parseUint32(gi)
	}
	if err != nil {
		return m, fmt.Errorf("name %q: want a position, position.GI or a UUID", name)
	}
	return m, nil
}

// parseJobLines returns the job ids of a mapping file, without duplicates. Its error begins with the line's number.
func parseJobLines(text string) ([]string, error) {
	var jobs []string
	for i, line := range strings.Split(text, "\n") {
		id := strings.TrimSpace(line)
		if id == "" {
			continue
		}
		if n, err := parseUint32(id); err != nil || n == 0 {
			return nil, fmt.Errorf("%d: %q: want a job id, SLURM_JOB_ID", i+1, shortened(id))
		}
		if !slices.Contains(jobs, id) {
			jobs = append(jobs, id)
		}
	}
	return jobs, nil
}

// device returns the device that the file's name denotes.
func (m mapped) device(l layout) (attribution.Device, error) {
	if m.uuid != "" {
		return attribution.Device{UUID: m.uuid}, nil
	}
	d, err := l.at(m.position)
	if err != nil {
		return d, fmt.Errorf("mapping file %s: %w", m.path, err)
	}
	if m.gi == nil {
		return d, nil
	}
	if d.GI != nil || strings.HasPrefix(d.UUID, "MIG-") {
		return d, fmt.Errorf("mapping file %s: position %d is the instance %s, so .GI is not allowed", m.path, m.position, d)
	}
	d.GI, d.Whole = m.gi, false
	return d, nil
}

// shortened truncates a wrong value in an error.
func shortened(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}
