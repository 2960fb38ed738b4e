// Package decisionstest has what tests need of the decisions.
package decisionstest

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/decisions"
)

// Open are origins of which every run is open, and every cluster is declared
// with the slot length that is asked about first. The zero value works.
type Open struct {
	mu    sync.Mutex
	slots map[string]int64
}

// Refresh reads nothing.
func (o *Open) Refresh(context.Context) error { return nil }

// PermissionFor is given.
func (o *Open) PermissionFor(b decisions.Sent) decisions.Permission {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.slots == nil {
		o.slots = map[string]int64{}
	}
	if o.slots[b.Cluster] == 0 {
		o.slots[b.Cluster] = b.SlotMS
	}
	return decisions.Permission{SlotMS: o.slots[b.Cluster]}
}

// Topic is a decisions topic in memory.
type Topic struct {
	mu   sync.Mutex
	msgs []message
}

type message struct {
	at         time.Time
	key, value []byte
}

// Append appends a record at an instant of the broker's clock; its key is its
// offset.
func (t *Topic) Append(tb testing.TB, at time.Time, kind decisions.Kind, body any) {
	tb.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	text, err := json.Marshal(body)
	if err != nil {
		tb.Fatal(err)
	}
	key := strconv.Itoa(len(t.msgs))
	value, err := json.Marshal(&decisions.Record{
		Format: decisions.Format, Kind: kind, ID: key, Key: key, Request: decisions.Digest(text), Who: "operator",
		At: at.UTC(), Body: text,
	})
	if err != nil {
		tb.Fatal(err)
	}
	t.msgs = append(t.msgs, message{at, []byte(kind), value})
}

// Log is a reader of a topic, which is away for the next Away reads.
type Log struct {
	Topic *Topic
	Away  int
	Reads int
	// Refused are the reasons of what was not accepted.
	Refused []string

	state *decisions.State
}

// Refresh reads to the topic's end.
func (l *Log) Refresh(context.Context) error {
	l.Reads++
	if l.Away > 0 {
		l.Away--
		return errors.New("no broker answers")
	}
	if l.state == nil {
		l.state = decisions.NewState()
	}
	l.Topic.mu.Lock()
	defer l.Topic.mu.Unlock()
	for _, m := range l.Topic.msgs[l.state.Next():] {
		if out := l.state.Apply(l.state.Next(), m.at, m.key, m.value); !out.Accepted {
			l.Refused = append(l.Refused, out.Reason)
		}
	}
	return nil
}

// PermissionFor is what the state that was read says.
func (l *Log) PermissionFor(b decisions.Sent) decisions.Permission {
	if l.state == nil {
		l.state = decisions.NewState()
	}
	return l.state.PermissionFor(b)
}

// State is what was read; nil: nothing.
func (l *Log) State() *decisions.State { return l.state }
