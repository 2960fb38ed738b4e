package imports

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gputally/gputally/internal/wire"
)

// Names of the columns that an allocation file can have.
var columnNames = []string{
	"tenant", "project", "user", "account", "job", "node", "device", "model", "start", "end", "duration", "gpus",
}

// columnAliases are alternative column names.
var columnAliases = map[string]string{"workload": "job", "gpu": "device", "uuid": "device"}

// Columns maps our column names to the file's.
type Columns map[string]string

// ParseColumns reads "tenant=vc,start=start_time,…".
func ParseColumns(text string) (Columns, error) {
	out := Columns{}
	if strings.TrimSpace(text) == "" {
		return out, nil
	}
	for pair := range strings.SplitSeq(text, ",") {
		name, column, ok := strings.Cut(pair, "=")
		name, column = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(column)
		if alias, known := columnAliases[name]; known {
			name = alias
		}
		switch {
		case !ok || column == "":
			return nil, fmt.Errorf("column %q: must be NAME=COLUMN", pair)
		case !slices.Contains(columnNames, name):
			return nil, fmt.Errorf("column %q: NAME must be one of %s", name, strings.Join(columnNames, ", "))
		case out[name] != "":
			return nil, fmt.Errorf("column %q is mapped twice", name)
		}
		out[name] = column
	}
	return out, nil
}

// Reading configures how the rows of a file are read.
type Reading struct {
	Columns Columns // of allocations; a column that isn't mapped keeps its own name
	Zone    *time.Location
	// Delimiter of a CSV; 0: the one most frequent in the header.
	Delimiter rune
	// WindowFromMS and WindowToMS are the requested window, Unix ms; 0: none.
	WindowFromMS, WindowToMS int64
	// SlurmCluster selects the jobs of one cluster where sacct lists several.
	SlurmCluster string
	// ByNode divides a job's GPUs among the nodes that sacct lists.
	ByNode bool
	Horizon
}

func (r *Reading) windowed() bool { return r.WindowToMS > 0 }

// ReadAllocations reads CSV with a header, or JSON lines, either of them gzipped or
// not. It returns an error for problems of the whole file or the mapping; problems of
// single rows are listed in File.Bad.
func ReadAllocations(in io.Reader, how Reading) (*File, error) {
	t, err := openTable(in, how.Delimiter)
	if err != nil {
		return nil, err
	}
	columns, err := resolve(how.Columns, t.header)
	if err != nil {
		return nil, err
	}
	a := &allocationReader{how: &how, columns: columns, file: &File{}, met: map[string]bool{}}
	if err := each(t, a.file, a.add); err != nil {
		return nil, err
	}
	for name, column := range how.Columns {
		if t.header == nil && a.file.Rows > 0 && !a.met[name] {
			return nil, fmt.Errorf("column %s=%s: no line of the file has that field", name, column)
		}
	}
	a.file.distinct(false)
	return a.file, nil
}

// each passes the rows of a table to add, and lists those that can't be read.
func each(t *table, f *File, add func(row)) error {
	for {
		one, err := t.next()
		var wrong *rowError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &wrong):
			f.Rows++
			f.bad(wrong.line, wrong.err)
		case err != nil:
			return fmt.Errorf("read rows: %w", err)
		default:
			f.Rows++
			add(one)
		}
		if err := f.full(); err != nil {
			return err
		}
	}
}

// resolve maps our column names to those of the header; nil: the file is JSON lines.
func resolve(given Columns, header []string) (Columns, error) {
	out := Columns{}
	for _, name := range columnNames {
		column := given[name]
		switch {
		case header == nil && column == "":
			out[name] = name
		case header == nil || slices.Contains(header, column):
			out[name] = column
		case column != "":
			return nil, fmt.Errorf("column %s=%s: the header has no such column (it has %s)", name, column,
				strings.Join(header, ", "))
		case slices.Contains(header, name):
			out[name] = name
		}
	}
	if given["end"] != "" && given["duration"] != "" {
		return nil, errors.New("end and duration are both mapped: map only one of them")
	}
	if given["duration"] != "" {
		delete(out, "end")
	}
	if header == nil {
		return out, nil
	}
	switch {
	case out["start"] == "":
		return nil, errors.New("start: no column maps to the start of allocations; map one with start=COLUMN")
	case out["end"] == "" && out["duration"] == "":
		return nil, errors.New("end: no column maps to the end or duration of allocations; map one with end=COLUMN or " +
			"duration=COLUMN")
	case out["gpus"] == "" && out["device"] == "":
		return nil, errors.New("gpus: no column maps to the allocated GPUs; map one with gpus=COLUMN or device=COLUMN")
	}
	return out, nil
}

type allocationReader struct {
	how     *Reading
	columns Columns
	file    *File
	met     map[string]bool // columns that have a value in some line
}

func (a *allocationReader) get(r row, name string) string {
	column, ok := a.columns[name]
	if !ok {
		return ""
	}
	text, ok := r.get(column)
	if ok {
		a.met[name] = true
	}
	return a.file.clean(text)
}

func (a *allocationReader) add(r row) {
	rec := Record{
		Line: r.line, Job: a.get(r, "job"), Tenant: a.get(r, "tenant"), Project: a.get(r, "project"),
		User: a.get(r, "user"), Account: a.get(r, "account"), Node: a.get(r, "node"), Model: a.get(r, "model"),
	}
	devices, gpus := a.get(r, "device"), a.get(r, "gpus")
	ran, err := a.file.span(&rec, a.how, a.get(r, "start"), a.get(r, "end"), a.get(r, "duration"))
	if err != nil {
		a.file.bad(r.line, err)
		return
	}
	if err := rec.hold(devices, gpus, a.columns["device"] != "" && a.columns["gpus"] == ""); err != nil {
		a.file.bad(r.line, err)
		return
	}
	switch {
	case !ran:
	case rec.MilliGPUs == 0:
		a.file.Counts.NoGPUs++
	default:
		a.file.keep(rec)
	}
}

// span reads when a record ran. If it never ran, or never within the window, it counts
// that and returns ran = false.
func (f *File) span(rec *Record, how *Reading, start, end, duration string) (ran bool, err error) {
	from, err := parseMoments(start, how.Zone)
	if err != nil {
		return false, fmt.Errorf("start: %w", err)
	}
	if len(from) == 0 {
		f.Counts.NeverRan++
		return false, nil
	}
	rec.StartMS = from[0]
	to, err := parseMoments(end, how.Zone)
	if err != nil {
		return false, fmt.Errorf("end: %w", err)
	}
	switch {
	case len(to) > 0:
		rec.EndMS = to[0]
		if rec.EndMS < rec.StartMS { // a local hour that occurred twice, and the job ended in the second one
			rec.EndMS = to[len(to)-1]
		}
	case !absentWords[strings.ToLower(duration)]:
		ms, err := parseDuration(duration)
		if err != nil {
			return false, err
		}
		rec.EndMS = rec.StartMS + ms
	case how.windowed():
		rec.EndMS = max(rec.StartMS, how.close(how.WindowToMS))
	default:
		return false, errors.New("end: missing, and there is no end of the window that could take its place")
	}
	if len(from) > 1 || len(to) > 1 {
		f.Counts.Ambiguous++
	}
	switch {
	case rec.EndMS < rec.StartMS:
		return false, fmt.Errorf("end %s is before start %s", rfc3339(rec.EndMS), rfc3339(rec.StartMS))
	case rec.EndMS >= wire.MaxTimeMS:
		return false, fmt.Errorf("end %s: must not be after 2106-02-07T06:28:16Z", rfc3339(rec.EndMS))
	case how.windowed() &&
		(rec.StartMS >= how.WindowToMS || (rec.EndMS <= how.WindowFromMS && rec.StartMS < how.WindowFromMS)):
		f.Counts.Outside++
		return false, nil
	case rec.EndMS == rec.StartMS:
		f.Counts.NeverRan++
		return false, nil
	}
	if err := how.check("end", rec.EndMS); err != nil {
		return false, err
	}
	return true, nil
}

func rfc3339(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.999Z07:00")
}

// hold reads what a record held: named devices, or a number of GPUs.
func (r *Record) hold(devices, gpus string, named bool) error {
	r.Devices = strings.FieldsFunc(devices, func(c rune) bool { return strings.ContainsRune(", ;\t", c) })
	slices.Sort(r.Devices)
	if len(r.Devices) > maxGPUs/1000 {
		return fmt.Errorf("device: %d devices in one record are too many (at most %d)", len(r.Devices), maxGPUs/1000)
	}
	for i := 1; i < len(r.Devices); i++ {
		if r.Devices[i] == r.Devices[i-1] {
			return fmt.Errorf("device %q is named twice", r.Devices[i])
		}
	}
	if gpus == "" {
		if len(r.Devices) == 0 && !named {
			return errors.New("gpus: must not be empty")
		}
		r.MilliGPUs = uint32(len(r.Devices)) * 1000
		return nil
	}
	milli, err := parseMilliGPUs(gpus)
	if err != nil {
		return err
	}
	if n := uint32(len(r.Devices)); n > 0 && milli != n*1000 {
		return fmt.Errorf("gpus %q: must equal the number of named devices, %d, because a named device is held whole", gpus,
			n)
	}
	r.MilliGPUs = milli
	return nil
}

// distinct finds the records, drops copies of rows, and numbers the remaining rows of
// each record. Of rows that contradict each other the later one counts if latest is
// set; otherwise it is refused. Without a job id a copy can't be distinguished from a
// second allocation of the same owner, so every row counts.
func (f *File) distinct(latest bool) {
	type rowKey struct {
		key   key
		place string
	}
	first := make(map[rowKey]int, len(f.Records))
	out := f.Records[:0]
	for _, rec := range f.Records {
		if err := rec.name(); err != nil {
			f.bad(rec.Line, err)
			continue
		}
		at, met := first[rowKey{rec.key(), rec.place()}]
		switch {
		case rec.Job == "" || !met:
			first[rowKey{rec.key(), rec.place()}] = len(out)
			out = append(out, rec)
		case out[at].content() == rec.content():
			f.Counts.Copies++
		case latest:
			f.Counts.Superseded++
			out[at] = rec
		default:
			f.bad(rec.Line, fmt.Errorf("job %q from %s: contradicts line %d", rec.Job, rfc3339(rec.StartMS),
				out[at].Line))
		}
	}
	f.Records = out
	f.sortBad()
}
