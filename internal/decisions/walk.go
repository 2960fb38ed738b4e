package decisions

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/gputally/gputally/internal/broker"
)

// Entry is a message of the topic, with the result of folding it.
type Entry struct {
	Outcome
	Appended time.Time // by the broker's clock
	Chain    string    // the chain's value after it, in hex
	Bytes    int       // size of the message's value
	// Record is empty for a part, and for a message that is no valid record.
	Record Record
	// Body is a pointer to the type that belongs to the record's kind; nil if Record
	// is empty.
	Body any
}

// Subject is a short description of the entry: a price book's hash, the frozen hours,
// an invoice's number, and the like.
func (e *Entry) Subject() string {
	if b, ok := e.Body.(body); ok {
		return b.subject()
	}
	return e.Number
}

func (b *PriceBook) subject() string { return b.SHA256 }
func (i *Invoice) subject() string   { return i.Number }
func (a *Approval) subject() string  { return a.Subject }
func (a *Audit) subject() string     { return a.Action + " " + a.Subject }
func (p *Policy) subject() string    { return p.Subject() }
func (c *Cluster) subject() string   { return c.Name }
func (r *Run) subject() string       { return r.Sends + " " + r.Cluster + " " + r.ID }
func (r *RunEnd) subject() string    { return r.ID }
func (m *Mapping) subject() string   { return "epoch " + strconv.FormatUint(uint64(m.Epoch), 10) }
func (f *Freeze) subject() string {
	return f.From.UTC().Format(time.RFC3339) + "/" + f.To.UTC().Format(time.RFC3339)
}

func (f *Finding) subject() string {
	if f.Verdict != "" {
		return f.Action + " " + f.Target.String() + ": " + f.Verdict
	}
	return f.Action + " " + f.Target.String()
}

// Walk passes every message from an offset to the state's Next to do, in order,
// refused ones included. It reads them again and compares them with the chain. An
// error of do ends it.
func (l *Log) Walk(ctx context.Context, from int64, do func(Entry) error) error {
	return l.walk(ctx, from, max(from, l.next()), do)
}

// pickGap is the number of unwanted messages that are read rather than starting
// another fetch.
const pickGap = 16

// Pick is Walk over the messages at some offsets, in ascending order. Messages near
// each other are read together.
func (l *Log) Pick(ctx context.Context, offsets []int64, do func(Entry) error) error {
	for len(offsets) > 0 {
		n := 1
		for n < len(offsets) && offsets[n]-offsets[n-1] <= pickGap {
			n++
		}
		near := offsets[:n]
		offsets = offsets[n:]
		err := l.walk(ctx, near[0], near[n-1]+1, func(e Entry) error {
			if e.Offset != near[0] {
				return nil
			}
			near = near[1:]
			return do(e)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// walk is Walk over the offsets [from, to).
func (l *Log) walk(ctx context.Context, from, to int64, do func(Entry) error) error {
	err := l.verified(ctx, from, to, func(m *broker.Message) error {
		e := Entry{Appended: m.Time.UTC(), Bytes: len(m.Value)}
		l.View(func(s *State) { e.Outcome, e.Chain = s.Outcome(m.Offset) })
		if e.Kind != KindPart {
			// A message that can't be decoded is refused, with the reason in its
			// outcome.
			if r, b, err := decode(Kind(m.Key), m.Value); err == nil {
				e.Record, e.Body = r, b
			}
		}
		return do(e)
	})
	if err != nil {
		return fmt.Errorf("walk decisions: %w", err)
	}
	return nil
}
