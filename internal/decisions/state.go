package decisions

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// PartBytes is the greatest size of a part.
const PartBytes = 512 << 10

// Outcome is the result of folding a message.
type Outcome struct {
	Offset   int64
	Accepted bool
	Reason   string // why it was refused; empty: it was accepted
	// Repeats is the offset of the first record with this key and request, or of the
	// same part: then nothing changed, and the first outcome counts. -1: none.
	Repeats int64
	Kind    Kind   // empty: the kind could not be read
	Number  string // of an invoice or note
}

// Decided is an accepted body, with the data of its record.
type Decided[T any] struct {
	Offset   int64
	Appended time.Time // by the broker's clock
	At       time.Time // by the writer's clock
	Who      string
	Key      string
	Body     T
}

// State is the fold of the topic. It is not safe for concurrent use; Log guards its
// own.
type State struct {
	chain   [sha256.Size]byte
	past    []applied // by offset
	keys    map[string]decided
	parts   map[string]part
	books   []Decided[PriceBook] // in the order of publication
	byHash  map[string]int       // of books: the last with the hash
	freezes []Decided[Freeze]    // ascending, without overlap

	invoices map[string]Decided[Invoice] // by number
	periods  map[account]int             // number of revisions, by tenant and period
	tenants  map[string][]string         // the tenant's invoices of revision 0, in the order of finalisation

	approvals map[string]Decided[Approval] // by key
	mappings  []Decided[Mapping]
	policies  []Decided[Policy] // in order; the last is in force
	findings  Findings

	recent    map[Kind]recent             // of all records, for quotas: outcomes don't depend on it
	clusters  map[string]Decided[Cluster] // by name, the first declaration
	runs      []*OpenRun                  // in order
	byID      map[string]*OpenRun
	byCluster map[string][]*OpenRun
}

// applied is what is kept of every message.
type applied struct {
	chain   [sha256.Size]byte
	repeats int64
	reason  string
	kind    Kind
	number  string
}

// decided is the record that used an idempotency key.
type decided struct {
	offset  int64
	kind    Kind
	request string
	number  string
}

// conflict returns why a record can't have the key; empty: it repeats the request.
func (d decided) conflict(r *Record) string {
	if d.request == r.Request && d.kind == r.Kind {
		return ""
	}
	return fmt.Sprintf("key %q was used at offset %d for another request", r.Key, d.offset)
}

type part struct {
	offset int64
	bytes  int
}

type account struct{ tenant, period string }

// NewState is the state of an empty topic.
func NewState() *State {
	return &State{
		keys: map[string]decided{}, parts: map[string]part{}, byHash: map[string]int{},
		invoices: map[string]Decided[Invoice]{}, periods: map[account]int{}, tenants: map[string][]string{},
		approvals: map[string]Decided[Approval]{}, recent: map[Kind]recent{},
		clusters: map[string]Decided[Cluster]{}, byID: map[string]*OpenRun{}, byCluster: map[string][]*OpenRun{},
	}
}

// Apply folds the message at the offset, which must be Next, with its append time by
// the broker's clock. It never fails: every message is accepted or refused.
func (s *State) Apply(offset int64, appended time.Time, key, value []byte) Outcome {
	out, _ := s.apply(offset, appended, key, value)
	return out
}

// apply also returns the record, if there is one.
func (s *State) apply(offset int64, appended time.Time, key, value []byte) (Outcome, Record) {
	s.chain = Link(s.chain, offset, key, value)
	out, r := Outcome{Offset: offset, Repeats: -1}, Record{}
	switch {
	case len(key) == 0 && bytes.HasPrefix(value, []byte(unreadable)):
		out.Reason = string(value)
	case isDigest(string(key)):
		out.Kind = KindPart
		s.applyPart(&out, string(key), value)
	default:
		r = s.applyRecord(&out, appended, Kind(key), value)
	}
	out.Accepted, out.Reason = out.Reason == "", brief(out.Reason)
	s.past = append(s.past,
		applied{chain: s.chain, repeats: out.Repeats, reason: out.Reason, kind: out.Kind, number: out.Number})
	return out, r
}

// Limits of the work and memory that a message may cost. Valid records are far
// smaller: the largest, apart from files, are invoices of two documents of maxParts.
const (
	maxRecordBytes = 1 << 20
	maxFileBytes   = 6*maxBook + 64<<10 // of a kind with a file, each byte an escape of six
	maxReasonBytes = 8 << 10
)

func recordLimit(kind Kind) int {
	if kind == KindPriceBook || kind == KindMapping {
		return maxFileBytes
	}
	return maxRecordBytes
}

// brief cuts a reason that quotes a hostile record: it is kept for ever, for each
// message.
func brief(reason string) string {
	if len(reason) <= maxReasonBytes {
		return reason
	}
	return fmt.Sprintf("%s... (%d bytes)", strings.ToValidUTF8(reason[:maxReasonBytes], ""), len(reason))
}

func (s *State) applyPart(out *Outcome, hash string, value []byte) {
	switch first, there := s.parts[hash]; {
	case len(value) < 1 || len(value) > PartBytes:
		out.Reason = fmt.Sprintf("part has %d bytes, want 1 to %d", len(value), PartBytes)
	case Digest(value) != hash:
		out.Reason = fmt.Sprintf("part has SHA-256 %s, but its key is %s", Digest(value), hash)
	case there:
		out.Repeats, out.Reason = first.offset, fmt.Sprintf("part exists already, at offset %d", first.offset)
	default:
		s.parts[hash] = part{offset: out.Offset, bytes: len(value)}
	}
}

func (s *State) applyRecord(out *Outcome, appended time.Time, kind Kind, value []byte) Record {
	if limit := recordLimit(kind); len(value) > limit {
		out.Reason = fmt.Sprintf("record has %d bytes, want at most %d", len(value), limit)
		return Record{}
	}
	r, b, err := decode(kind, value)
	if err != nil {
		out.Reason = err.Error()
		return Record{}
	}
	out.Kind = r.Kind
	s.recent[r.Kind] = s.recent[r.Kind].and(appended)
	if i, ok := b.(*Invoice); ok {
		out.Number = i.Number
	}
	if first, taken := s.keys[r.Key]; taken {
		if out.Reason = first.conflict(&r); out.Reason == "" {
			out.Repeats, out.Number = first.offset, first.number
			out.Reason = fmt.Sprintf("repeats the request at offset %d", first.offset)
		}
		return r
	}
	at := place{offset: out.Offset, appended: appended, record: &r}
	if out.Reason = b.admit(s, at); out.Reason == "" {
		s.keys[r.Key] = decided{offset: out.Offset, kind: r.Kind, request: r.Request, number: out.Number}
	}
	return r
}

// Next is the offset of the message that Apply expects.
func (s *State) Next() int64 { return int64(len(s.past)) }

// Chain is the current value of the audit hash chain, in hex.
func (s *State) Chain() string { return hex.EncodeToString(s.chain[:]) }

// Head identifies all decisions up to an offset.
type Head struct {
	Offset int64  `json:"offset"`
	Chain  string `json:"chain"` // the chain's value after it, in hex; empty: there is no such offset
}

// String is OFFSET=CHAIN, or empty if there is no such offset.
func (h Head) String() string {
	if h.Chain == "" {
		return ""
	}
	return fmt.Sprintf("%d=%s", h.Offset, h.Chain)
}

// ParseHead reads a Head as String writes it.
func ParseHead(text string) (Head, error) {
	offset, chain, _ := strings.Cut(text, "=")
	n, err := strconv.ParseInt(offset, 10, 64)
	if h := (Head{n, chain}); err == nil && n >= 0 && isDigest(chain) && h.String() == text {
		return h, nil
	}
	return Head{}, fmt.Errorf("%s: want an offset and the chain's 64 hex digits after it, such as 17=9f86…", shown(text))
}

// Head identifies all decisions.
func (s *State) Head() Head { return s.HeadAt(s.Next() - 1) }

// HeadAt identifies all decisions up to an offset.
func (s *State) HeadAt(offset int64) Head {
	if offset < 0 || offset >= s.Next() {
		return Head{Offset: offset}
	}
	return Head{offset, hex.EncodeToString(s.past[offset].chain[:])}
}

// Outcome returns the result of folding the message at an offset below Next, and the
// chain's value after it.
func (s *State) Outcome(offset int64) (out Outcome, chain string) {
	p := &s.past[offset]
	return Outcome{
		Offset: offset, Accepted: p.reason == "", Reason: p.reason, Repeats: p.repeats, Kind: p.kind, Number: p.number,
	}, hex.EncodeToString(p.chain[:])
}
