package decisions

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Kind is the kind of a message of the topic.
type Kind string

// The kinds. All but KindPart are records.
const (
	KindPart      Kind = "part"
	KindPriceBook Kind = "price_book" // PriceBook
	KindFreeze    Kind = "freeze"     // Freeze
	KindInvoice   Kind = "invoice"    // Invoice, revision 0
	KindNote      Kind = "note"       // Invoice, revision 1 and on
	KindApproval  Kind = "approval"   // Approval
	KindMapping   Kind = "mapping"    // Mapping
	KindAudit     Kind = "audit"      // Audit
	KindPolicy    Kind = "policy"     // Policy
	KindCluster   Kind = "cluster"    // Cluster
	KindRun       Kind = "run"        // Run
	KindRunEnd    Kind = "run_end"    // RunEnd
	KindFinding   Kind = "finding"    // Finding
)

// Format is the version of the record format. A record of another version is refused.
const Format = 1

// Record is one decision. Its message is its canonical JSON: these fields in this
// order, as json.Marshal writes them; any other encoding is refused.
type Record struct {
	Format int    `json:"format"` // Format
	Kind   Kind   `json:"kind"`
	ID     string `json:"id"` // random; a writer recognises its own record by it
	// Key is the idempotency key: 1 to 200 printable characters.
	Key string `json:"key"`
	// Request is the SHA-256, in hex, of the request: a record with the same key and
	// request is a repetition; with another request it is refused.
	Request string    `json:"request"`
	Who     string    `json:"who"` // who decided: 1 to 200 printable characters
	At      time.Time `json:"at"`  // UTC, on the writer's clock
	// Body is a PriceBook, Freeze, Invoice, Approval, Mapping, Audit, Policy,
	// Cluster, Run, RunEnd or Finding.
	Body json.RawMessage `json:"body"`
}

// Digest is the SHA-256 of data in hex, the form of every hash here.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// body is the content of a record, by kind.
type body interface {
	// check checks every field by itself; its error names the field and the value.
	check() error
	// admit applies the body to the state, or returns why it is refused; then nothing
	// has changed.
	admit(s *State, at place) (refusal string)
	// subject is a short description of what the record is about.
	subject() string
}

// foreseen is a body that the state can check before the documents, price book and
// freeze that it names are in the topic.
type foreseen interface {
	refuse(s *State, at place) (refusal string)
}

// newBody makes an empty body of each kind of record.
var newBody = map[Kind]func() body{
	KindPriceBook: func() body { return new(PriceBook) },
	KindFreeze:    func() body { return new(Freeze) },
	KindInvoice:   func() body { return new(Invoice) },
	KindNote:      func() body { return new(Invoice) },
	KindApproval:  func() body { return new(Approval) },
	KindMapping:   func() body { return new(Mapping) },
	KindAudit:     func() body { return new(Audit) },
	KindPolicy:    func() body { return new(Policy) },
	KindCluster:   func() body { return new(Cluster) },
	KindRun:       func() body { return new(Run) },
	KindRunEnd:    func() body { return new(RunEnd) },
	KindFinding:   func() body { return new(Finding) },
}

// encode checks a record and returns its message value.
func (r *Record) encode() ([]byte, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	if _, _, err := decode(r.Kind, data); err != nil {
		return nil, err
	}
	return data, nil
}

// decode reads a record whose message has the key kind, and its body, a pointer to one
// of the types named at Record.Body. It refuses everything but the exact bytes that
// Append would have written, and names field and value.
func decode(kind Kind, value []byte) (Record, body, error) {
	var r Record
	empty, known := newBody[kind]
	if !known {
		return r, nil, fmt.Errorf("message key is %s, want a kind of record or the SHA-256 of a part", shown(string(kind)))
	}
	if err := strict(value, &r); err != nil {
		return r, nil, fmt.Errorf("decode record: %w", err)
	}
	if err := r.check(kind); err != nil {
		return r, nil, err
	}
	b := empty()
	if err := strict(r.Body, b); err != nil {
		return r, nil, fmt.Errorf("decode body of %s: %w", kind, err)
	}
	if err := canonical(value, r.Body, &r, b); err != nil {
		return r, nil, err
	}
	if err := b.check(); err != nil {
		return r, nil, fmt.Errorf("%s: %w", kind, err)
	}
	if i, ok := b.(*Invoice); ok && (i.Kind == InvoiceKind) != (kind == KindInvoice) {
		return r, nil, fmt.Errorf("%s: kind is %q", kind, i.Kind)
	}
	return r, b, nil
}

func (r *Record) check(kind Kind) error {
	if r.Format != Format {
		return fmt.Errorf("record: format is %d, want %d", r.Format, Format)
	}
	if r.Kind != kind {
		return fmt.Errorf("record: kind is %s, want the message's key %s", shown(string(r.Kind)), shown(string(kind)))
	}
	return wrap("record",
		name("id", r.ID), name("key", r.Key), digest("request", r.Request), name("who", r.Who), instant("at", r.At))
}

// strict decodes one JSON value without unknown fields or trailing data.
func strict(data []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%d bytes, want one JSON value without trailing data", len(data))
	}
	return nil
}

// canonical refuses another encoding of the same record: repeated or reordered keys,
// spaces, invalid UTF-8, null for a value.
func canonical(value, bodyText []byte, r *Record, b body) error {
	for _, pair := range []struct {
		have []byte
		want any
	}{{value, r}, {bodyText, b}} {
		again, err := json.Marshal(pair.want)
		if err != nil {
			return fmt.Errorf("encode record: %w", err)
		}
		if !bytes.Equal(pair.have, again) {
			return fmt.Errorf("record: is not canonical JSON: it has %d bytes, the canonical encoding %d", len(pair.have),
				len(again))
		}
	}
	return nil
}
