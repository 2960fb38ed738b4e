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

// Record is one allocation: who had how many GPUs, from when to when.
type Record struct {
	Line int // of the file; 0: an earlier import's

	Job, Tenant, Project, User, Account string

	Node    string // empty: not told
	Model   string // as the file names it; empty: not told
	Devices []string
	// MilliGPUs are thousandths of a GPU, in all.
	MilliGPUs uint32
	// StartMS and EndMS are Unix ms, [start, end).
	StartMS, EndMS int64
	// Part counts the rows of one record, such as one per node.
	Part uint32
}

// key is what a record is told by: its start, and its job, else its facts.
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

// place is what two rows of one record must differ in.
func (r *Record) place() string {
	return strings.Join([]string{r.Node, r.Model, strings.Join(r.Devices, ",")}, "\x00")
}

// content is the SHA-256 of all that a record says.
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

// label is what people call the allocation.
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

// byAdmission is the order in which records are given room: by start, then job.
func byAdmission(a, b *Record) int {
	ka, kb := a.key(), b.key()
	return cmp.Or(cmp.Compare(a.StartMS, b.StartMS), cmp.Compare(ka.record, kb.record), cmp.Compare(a.Part, b.Part))
}

// Counts are the rows of a file that bill nothing, or were mended, by what was
// found.
type Counts struct {
	NeverRan    int // without a start, or of no length
	NoGPUs      int // of zero GPUs
	Outside     int // wholly outside the window that was given
	Steps       int // steps of a job, which its own row contains
	Copies      int // said again, word by word
	Superseded  int // said otherwise further down in the file
	Ambiguous   int // local times that a clock showed twice, read as the first
	InvalidText int // fields with invalid UTF-8, which names have written out
}

// What is kept of one file, so that memory is bounded whatever a packed file
// unpacks to.
const (
	maxRecords   = 1_000_000
	maxTextBytes = 256 << 20 // of all records
	maxBad       = 100_000
	maxReason    = 300 // bytes
)

// File is what a file of allocation records holds.
type File struct {
	Rows    int
	Records []Record
	Counts  Counts
	Bad     []BadLine

	textBytes int
}

// keep adds a record, with texts of its own: those of a row lie in the row.
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

// full refuses a file of more than an import can hold.
func (f *File) full() error {
	switch {
	case len(f.Records) > maxRecords:
		return fmt.Errorf("more than %d records by line %d: split the file, such as by month", maxRecords,
			f.Records[maxRecords].Line)
	case f.textBytes > maxTextBytes:
		return fmt.Errorf("names of more than %d bytes in all by line %d: split the file, such as by month", maxTextBytes,
			f.Records[len(f.Records)-1].Line)
	case len(f.Bad) > maxBad:
		last := f.Bad[maxBad]
		return fmt.Errorf("more than %d bad rows, such as line %d: %s", maxBad, last.Line, last.Reason)
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

// clean trims a field, and counts what is not UTF-8; names have it written out.
func (f *File) clean(text string) string {
	if !utf8.ValidString(text) {
		f.Counts.InvalidText++
	}
	return strings.TrimSpace(text)
}

// name makes names of the facts (R15), and refuses what can't name capacity.
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
		return fmt.Errorf("%s %.60q: must have at most %d bytes of UTF-8 in NFC, none of them invisible", field, name,
			wire.MaxNameBytes)
	}
	return nil
}

// sortBad brings bad lines into the file's order.
func (f *File) sortBad() {
	slices.SortStableFunc(f.Bad, func(a, b BadLine) int { return cmp.Compare(a.Line, b.Line) })
}
