package decisions

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
)

const (
	retryMin = 50 * time.Millisecond
	retryMax = 2 * time.Second
)

// Append writes a record, reads it back and returns what the fold made of it. body is
// a pointer to the type that belongs to the kind, request the SHA-256 of what was
// requested. For a repeated request it returns the first outcome, with Repeats, the
// offset to be read with Record. A refused record is not an error: Accepted is false,
// and Reason names the earlier decision.
//
// Calls within a process are serialised, so that quotas hold and witnesses get one
// head after the other. A log that isn't Whole takes nothing.
//
// An error before the write names the field. After an error of the write, such as the
// end of ctx, it is unknown whether the record was written: repeat the call with the
// same key and request.
func (l *Log) Append(ctx context.Context, kind Kind, key, request, who string, body any) (Outcome, error) {
	r, value, err := l.record(kind, key, request, who, body)
	if err != nil {
		return Outcome{}, fmt.Errorf("append %s: %w", kind, err)
	}
	if err := l.deciding.Acquire(ctx, 1); err != nil {
		return Outcome{}, fmt.Errorf("append %s: wait for another append: %w", kind, err)
	}
	defer l.deciding.Release(1)
	if err := l.Refresh(ctx); err != nil {
		return Outcome{}, fmt.Errorf("append %s: %w", kind, err)
	}
	if err := errors.Join(l.Whole(), l.mayAppend(kind, key, request)); err != nil {
		return Outcome{}, fmt.Errorf("append %s: %w", kind, err)
	}
	if err := l.testify(ctx); err != nil {
		return Outcome{}, fmt.Errorf("append %s: nothing was written: %w", kind, err)
	}
	out := &Outcome{Offset: -1}
	l.await(r.ID, out)
	defer l.await(r.ID, nil)
	msg := []broker.Message{message(kind, string(kind), value)}
	if err := l.producer.Produce(ctx, msg); err != nil {
		return Outcome{}, fmt.Errorf("append %s: %w", kind, err)
	}
	if err := l.readTo(ctx, msg[0].Offset); err != nil {
		return Outcome{}, fmt.Errorf("append %s: read it back: %w", kind, err)
	}
	l.announce(ctx)
	return l.resolved(out)
}

// record makes a record that has not been written yet, and its message value.
func (l *Log) record(kind Kind, key, request, who string, body any) (Record, []byte, error) {
	r := Record{
		Format: Format, Kind: kind, ID: rand.Text(), Key: key, Request: request, Who: who,
		At: l.opt.Clock.Now().UTC().Round(0),
	}
	var err error
	if r.Body, err = json.Marshal(body); err != nil {
		return r, nil, fmt.Errorf("encode body: %w", err)
	}
	if _, err := Person(who); err != nil {
		return r, nil, fmt.Errorf("who: %w", err)
	}
	if err := seen(who); err != nil {
		return r, nil, fmt.Errorf("who: %w", err)
	}
	value, err := r.encode()
	return r, value, err
}

// Check returns the error with which Append would refuse a decision, without writing:
// a field, a log that isn't Whole, the quota, a key used by another request. For an
// invoice, note, policy, cluster, run or its end, or finding, it also returns what the fold would
// refuse, leaving out what has yet to be appended for it: the parts of its documents,
// its price book, the freeze of its hours. nil: nothing, as of the last read; another
// writer may still be first.
func (l *Log) Check(kind Kind, key, request, who string, body any) error {
	r, value, err := l.record(kind, key, request, who, body)
	if err != nil {
		return err
	}
	_, b, err := decode(kind, value)
	if err != nil {
		return err
	}
	if err := errors.Join(l.Whole(), l.mayAppend(kind, key, request)); err != nil {
		return err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	refusal := ""
	if first, taken := l.state.keys[key]; taken {
		refusal = first.conflict(&r)
	} else if b, ok := b.(foreseen); ok {
		refusal = b.refuse(l.state, place{record: &r})
	}
	if refusal != "" {
		return errors.New(refusal)
	}
	return nil
}

// resolved is a record's own outcome, or that of the first record that it repeats.
func (l *Log) resolved(own *Outcome) (Outcome, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	switch {
	case own.Offset < 0:
		return Outcome{}, fmt.Errorf("append: %w: the broker acknowledged the record, but it is not in the topic", ErrDeleted)
	case own.Repeats < 0:
		return *own, nil
	}
	first, _ := l.state.Outcome(own.Repeats)
	first.Repeats = own.Repeats
	return first, nil
}

func (l *Log) await(id string, out *Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if out == nil {
		delete(l.waiting, id)
	} else {
		l.waiting[id] = out
	}
}

// readTo reads until the offset is folded, and retries while the broker is away.
func (l *Log) readTo(ctx context.Context, offset int64) error {
	for pause := retryMin; l.next() <= offset; pause = min(2*pause, retryMax) {
		err := l.Refresh(ctx)
		if errors.Is(err, ErrDeleted) {
			return err // not a temporary error
		}
		if l.next() > offset {
			return nil
		}
		if err == nil { // acknowledged but not visible yet, as with a leader that has just taken over
			err = fmt.Errorf("the topic ends before offset %d", offset)
		}
		l.opt.Log.Warn("decisions can't be read back yet", "offset", offset, "error", err, "next_try_in", pause)
		if ended := clock.Sleep(ctx, l.opt.Clock, pause); ended != nil {
			return fmt.Errorf("%w (last attempt: %w)", ended, err)
		}
	}
	return nil
}

func message(kind Kind, key string, value []byte) broker.Message {
	return broker.Message{
		Topic: broker.TopicDecisions, Key: []byte(key), Value: value,
		Headers: []broker.Header{{Key: "kind", Value: []byte(kind)}},
	}
}

// Record reads the record at an offset below the state's Next, and its body, a
// pointer to the type that belongs to its kind.
func (l *Log) Record(ctx context.Context, offset int64) (Record, any, error) {
	var r Record
	var b any
	err := l.verified(ctx, offset, offset+1, func(m *broker.Message) (err error) {
		r, b, err = decode(Kind(m.Key), m.Value)
		return err
	})
	if err != nil {
		return Record{}, nil, fmt.Errorf("read decision at offset %d: %w", offset, err)
	}
	return r, b, nil
}
