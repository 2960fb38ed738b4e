// Package decisionstest has test helpers for decisions: permissions without a log, and a
// topic in memory with its reader.
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

// Open permits every batch: every run is open, and every cluster is declared with the
// slot length of the first batch of it. The zero value works.
type Open struct {
	mu    sync.Mutex
	slots map[string]int64
}

// Refresh reads nothing.
func (o *Open) Refresh(context.Context) error { return nil }

// PermissionFor permits the batch.
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

// Log reads a topic. Its next Away reads fail.
type Log struct {
	Topic *Topic
	Away  int
	Reads int
	// Refused has the reasons of refused records.
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

// PermissionFor returns the permission as of the last read.
func (l *Log) PermissionFor(b decisions.Sent) decisions.Permission {
	if l.state == nil {
		l.state = decisions.NewState()
	}
	return l.state.PermissionFor(b)
}

// State is the state as of the last read; nil: nothing was read.
func (l *Log) State() *decisions.State { return l.state }
