package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gputally/gputally/internal/fault"
	"github.com/gputally/gputally/internal/files"
	"github.com/gputally/gputally/internal/trust"
)

// Format is the version of the data directory's layout that this build reads
// and writes.
const Format = 1

// formatPrefix is the text of the FORMAT file before its version.
const formatPrefix = "gputally data directory, format "

// formerName is the project's former name, the first word of old FORMAT files.
const formerName = "gpuledger"

const (
	lockName   = "LOCK"
	formatName = "FORMAT"
	runName    = "run.json"
)

// Holder is the process that holds a data directory.
type Holder struct {
	PID     int       `json:"pid"`
	Command string    `json:"command"` // such as "gputally standalone --data …"
	Started time.Time `json:"started"`
}

func (h Holder) String() string {
	if h.PID == 0 {
		return "another process"
	}
	return fmt.Sprintf("process %d (%s), since %s", h.PID, h.Command, h.Started.UTC().Format(time.RFC3339))
}

// LockedError means that another process holds the data directory.
type LockedError struct {
	Path   string
	Holder Holder // zero if the holder has not yet written it
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("data directory %s is in use by %s", e.Path, e.Holder)
}

// Class is fault.Environment.
func (*LockedError) Class() fault.Class { return fault.Environment }

// FormatError means that this build can't read the directory's FORMAT.
type FormatError struct {
	Path    string
	Text    string // content of the file
	Version int    // version in the file; 0: none
}

func (e *FormatError) Error() string {
	if e.Version > Format {
		return fmt.Sprintf(
			"open data directory %s: its format %d is newer than %d, the newest this gputally knows: use the gputally that "+
				"wrote it, or a newer one",
			e.Path, e.Version, Format)
	}
	if strings.HasPrefix(e.Text, formerName+" ") {
		return fmt.Sprintf(
			"open data directory %s: %s wrote it, as gputally was called before its first release, and its data can't be "+
				"converted: use a new directory",
			e.Path, formerName)
	}
	return fmt.Sprintf("open data directory %s: its file %s contains %q, want %q and a number", e.Path, formatName, e.Text,
		formatPrefix)
}

// Class is fault.Environment.
func (*FormatError) Class() fault.Class { return fault.Environment }

// Dir is a data directory that this process holds.
type Dir struct {
	path string
	lock *files.Lock
	self Holder

	tempPrefix string // of the name of temp
	temp       string
}

// Open creates the data directory if it is missing, locks it and checks its format. The error is a *LockedError if
// another process holds it, a *FormatError if its format is unknown. Open sets self.PID.
func Open(path string, self Holder) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open data directory %s: %w", path, err)
	}
	if err := refuseForeign(path); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create data directory %s: %w", path, err)
	}
	if err := trust.File(path); err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	self.PID = os.Getpid()
	d := &Dir{path: path, self: self}
	if err := d.takeLock(); err != nil {
		return nil, err
	}
	if err := d.prepare(); err != nil {
		return nil, errors.Join(err, d.lock.Close())
	}
	return d, nil
}

// refuseForeign refuses a directory with other contents.
func refuseForeign(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open data directory %s: %w", path, err)
	}
	foreign := ""
	for _, e := range entries {
		switch name := e.Name(); {
		case name == formatName || name == lockName:
			return nil
		case name == "lost+found": // in the root directory of a new file system
		case strings.HasSuffix(name, ".yaml"): // configuration put there before the first start
		default:
			foreign = name
		}
	}
	if foreign != "" {
		return fault.New(fault.Environment,
			"open data directory %s: it has no file %s but contains other files (%s): use an empty or a new directory",
			path, formatName, foreign)
	}
	return nil
}

func (d *Dir) takeLock() (err error) {
	d.lock, err = files.TakeLock(d.Join(lockName))
	if errors.Is(err, files.ErrLocked) {
		return &LockedError{Path: d.path, Holder: readHolder(d.path)}
	}
	if err != nil {
		return fmt.Errorf("lock data directory %s: %w", d.path, err)
	}
	if d.tempPrefix, err = prefixOf(d.lock.File); err != nil {
		return errors.Join(fmt.Errorf("lock data directory %s: %w", d.path, err), d.lock.Close())
	}
	return nil
}

// The subdirectories.
const (
	EngineDir = "clickhouse"     // data of the embedded ClickHouse
	BrokerDir = "kafka"          // data of the embedded broker
	SpoolDir  = "spool"          // a subdirectory for each collector
	CopyDir   = "decisions-copy" // the second copy of the decisions
	ExportDir = "export"         // chargeback files
)

// folders are private, while the data directory itself may be readable by others.
var folders = []string{EngineDir, BrokerDir, SpoolDir, CopyDir, ExportDir}

// closeFolders removes the permissions of group and others from existing subdirectories: older versions created some
// with mode 0750.
func (d *Dir) closeFolders() error {
	for _, name := range folders {
		info, err := os.Stat(d.Join(name))
		if err == nil && info.IsDir() && info.Mode().Perm()&0o077 != 0 {
			err = os.Chmod(d.Join(name), 0o700)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("make %s private: %w", d.Join(name), err)
		}
	}
	return nil
}

func (d *Dir) prepare() error {
	if err := d.checkFormat(); err != nil {
		return err
	}
	if err := d.closeFolders(); err != nil {
		return err
	}
	// A killed holder leaves its run.json; remove it, so that no command uses its addresses.
	if stale, err := ReadRun(d.path); err == nil {
		removeStale(stale.TempDir, d.tempPrefix)
	}
	if err := files.Remove(d.Join(runName)); err != nil {
		return fmt.Errorf("remove stale %s: %w", runName, err)
	}
	text, err := json.Marshal(d.self)
	if err != nil {
		return fmt.Errorf("encode %s: %w", lockName, err)
	}
	if err := d.lock.Truncate(0); err != nil {
		return fmt.Errorf("write %s: %w", d.lock.Name(), err)
	}
	if _, err := d.lock.WriteAt(append(text, '\n'), 0); err != nil {
		return fmt.Errorf("write %s: %w", d.lock.Name(), err)
	}
	d.temp, err = makeTemp(d.tempPrefix)
	return err
}

func (d *Dir) checkFormat() error {
	data, err := os.ReadFile(d.Join(formatName))
	if errors.Is(err, fs.ErrNotExist) {
		return files.Write(d.Join(formatName), []byte(formatPrefix+strconv.Itoa(Format)+"\n"))
	}
	if err != nil {
		return fmt.Errorf("read data directory's format: %w", err)
	}
	text := strings.TrimSpace(string(data))
	number, ok := strings.CutPrefix(text, formatPrefix)
	version, err := strconv.Atoi(number)
	if !ok || err != nil {
		version = 0
	}
	if version < 1 || version > Format {
		return &FormatError{Path: d.path, Text: text, Version: version}
	}
	return nil
}

// Path is the directory's absolute path.
func (d *Dir) Path() string { return d.path }

// Join is a path inside the directory.
func (d *Dir) Join(elem ...string) string {
	return filepath.Join(append([]string{d.path}, elem...)...)
}

// TempDir is a private directory (mode 0700) that exists until Close, with a path short enough for a Unix socket in
// it.
func (d *Dir) TempDir() string { return d.temp }

// Close removes run.json and the temporary directory, and releases the lock. The LOCK file stays: removing it would
// let two processes lock two files with the same name.
func (d *Dir) Close() error {
	err := files.Remove(d.Join(runName))
	removeTemp(d.temp)
	if err := errors.Join(err, d.lock.Close()); err != nil {
		return fmt.Errorf("close data directory %s: %w", d.path, err)
	}
	return nil
}

// readHolder returns the zero Holder if LOCK is empty.
func readHolder(path string) Holder {
	var h Holder
	data, err := os.ReadFile(filepath.Join(path, lockName))
	if err != nil || json.Unmarshal(data, &h) != nil {
		return Holder{}
	}
	return h
}

// WriteFile replaces a file of the directory atomically and durably.
func (d *Dir) WriteFile(name string, data []byte) error { return files.Write(d.Join(name), data) }
