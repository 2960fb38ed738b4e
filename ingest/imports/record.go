package imports

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gputally/gputally/internal/wire"
)

// Record is one allocation: who held how many GPUs, from when to when.
type Record struct {
	Line int // in the file; 0: from an earlier import

	Job, Tenant, Project, User, Account string

	Node    string // empty: unknown
	Model   string // as in the file; empty: unknown
	Devices []string
	// MilliGPUs are thousandths of a GPU, for all devices together.
	MilliGPUs uint32
	// StartMS and EndMS are Unix ms, [start, end).
	StartMS, EndMS int64
	// Part numbers the rows of one record, such as one per node.
	Part uint32
}

// key identifies a record: its start, and its job, or its facts without a job.
type key struct {
	startMS int64
	record  string
}

func (r *Record) key() key {
	if r.Job != "" {
		return key{r.StartMS, r.Job}
	}
	sum := digest(r.Tenant, r.Project, r.User, r.Account, r.Node, r.Model, strings.Join(r.Devices, ","))
	return key{r.StartMS, "facts:" + hex.EncodeToString(sum[:8])}
}

// place is the part in which two rows of one record must differ.
func (r *Record) place() string {
	return strings.Join([]string{r.Node, r.Model, strings.Join(r.Devices, ",")}, "\x00")
}

// content is the SHA-256 of all fields of a record.
func (r *Record) content() [32]byte {
	var numbers [28]byte
	binary.BigEndian.PutUint64(numbers[0:], uint64(r.StartMS))
	binary.BigEndian.PutUint64(numbers[8:], uint64(r.EndMS))
	binary.BigEndian.PutUint32(numbers[16:], r.MilliGPUs)
	binary.BigEndian.PutUint32(numbers[20:], r.Part)
	return digest(string(numbers[:]), r.Job, r.Tenant, r.Project, r.User, r.Account, r.Node, r.Model,
		strings.Join(r.Devices, ","))
}

func digest(parts ...string) [32]byte {
	h := sha256.New()
	var size [4]byte
	for _, p := range parts {
		binary.BigEndian.PutUint32(size[:], uint32(len(p)))
		h.Write(size[:])
		h.Write([]byte(p))
	}
	return [32]byte(h.Sum(nil))
}

// label names the allocation in messages.
func (r *Record) label() string {
	if r.Job != "" {
		return r.Job
	}
	name := cmp.Or(r.Tenant, r.Account, r.User, r.Project, "allocation")
	return name + "/" + strings.TrimPrefix(r.key().record, "facts:")[:6]
}

func (r *Record) owner() *wire.Owner {
	return &wire.Owner{Tenant: r.Tenant, Project: r.Project, Job: r.Job, User: r.User, Account: r.Account}
}

// byAdmission is the order in which records get capacity: by start, then job.
func byAdmission(a, b *Record) int {
	ka, kb := a.key(), b.key()
	return cmp.Or(cmp.Compare(a.StartMS, b.StartMS), cmp.Compare(ka.record, kb.record), cmp.Compare(a.Part, b.Part))
}

// Counts are the rows of a file that bill nothing, or that were corrected, by kind.
type Counts struct {
	NeverRan    int // without a start, or of no length
	NoGPUs      int // of zero GPUs
	Outside     int // completely outside the given window
	Steps       int // steps of a job, which the job's own row includes
	Copies      int // exact repetitions
	Superseded  int // contradicted further down in the file
	Ambiguous   int // local times that occurred twice, read as the first
	InvalidText int // fields with invalid UTF-8, written as escapes in names
}

// Limits of one file, so that memory is bounded whatever size a gzipped file unpacks
// to.
const (
	maxRecords   = 1_000_000
	maxTextBytes = 256 << 20 // of all records
	maxBad       = 100_000
	maxReason    = 300 // bytes
)

// File is the content of a file of allocation records.
type File struct {
	Rows    int
	Records []Record
	Counts  Counts
	Bad     []BadLine

	textBytes int
}

// keep adds a record with its own copies of the texts: those of a row share the row's
// memory.
func (f *File) keep(r Record) {
	for _, text := range []*string{&r.Job, &r.Tenant, &r.Project, &r.User, &r.Account, &r.Node, &r.Model} {
		*text = strings.Clone(*text)
		f.textBytes += len(*text)
	}
	r.Devices = slices.Clone(r.Devices)
	for i := range r.Devices {
		r.Devices[i] = strings.Clone(r.Devices[i])
		f.textBytes += len(r.Devices[i])
	}
	f.Records = append(f.Records, r)
}

// full returns an error for a file with more than an import can hold.
func (f *File) full() error {
	switch {
	case len(f.Records) > maxRecords:
		return fmt.Errorf("more than %d records by line %d: split the file, such as by month", maxRecords,
			f.Records[maxRecords].Line)
	case f.textBytes > maxTextBytes:
		return fmt.Errorf("more than %d bytes of names by line %d: split the file, such as by month", maxTextBytes,
			f.Records[len(f.Records)-1].Line)
	case len(f.Bad) > maxBad:
		last := f.Bad[maxBad]
		return fmt.Errorf("more than %d bad rows, the last one line %d: %s", maxBad, last.Line, last.Reason)
	}
	return nil
}

func (f *File) bad(line int, err error) {
	reason := err.Error()
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	f.Bad = append(f.Bad, BadLine{Line: line, Reason: strings.Clone(reason)})
}

// clean trims a field, and counts invalid UTF-8, which names show as escapes.
func (f *File) clean(text string) string {
	if !utf8.ValidString(text) {
		f.Counts.InvalidText++
	}
	return strings.TrimSpace(text)
}

// name normalises the names of the owner (R15), and refuses nodes and models that
// can't be names.
func (r *Record) name() error {
	for _, fact := range [...]*string{&r.Job, &r.Tenant, &r.Project, &r.User, &r.Account} {
		*fact = wire.Name(*fact)
	}
	if err := cmp.Or(checkName("node", r.Node), checkName("model", r.Model)); err != nil {
		return err
	}
	for _, device := range r.Devices {
		if err := checkName("device", device); err != nil {
			return err
		}
	}
	return nil
}

func checkName(field, name string) error {
	if wire.Name(name) != name {
		return fmt.Errorf("%s %.60q: must be UTF-8 in NFC of at most %d bytes, without invisible characters", field, name,
			wire.MaxNameBytes)
	}
	return nil
}

// sortBad sorts bad lines by line number.
func (f *File) sortBad() {
	slices.SortStableFunc(f.Bad, func(a, b BadLine) int { return cmp.Compare(a.Line, b.Line) })
}
