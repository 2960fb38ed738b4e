package spool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"

	"github.com/gputally/gputally/internal/files"
)

// ErrClosed is returned by every call on a closed spool.
var ErrClosed = errors.New("spool closed")

// Spool is an open spool. All methods are safe for concurrent use; concurrent
// calls of Next share one read position.
type Spool struct {
	dir  string
	opt  Options
	lock *files.Lock

	mu      sync.Mutex
	closed  bool
	changed chan struct{} // closed and replaced when records are added or removed
	store   stateStore
	st      state
	saved   uint64     // Head of the durable state
	segs    []*segment // ascending; the last one is appended to while active is open
	active  file
	nextID  uint64
	bytes   int64 // total size of all segments
	reading reader
}

// segment is one file of records with ids from first on.
type segment struct {
	first uint64
	last  uint64 // greatest intact id when the spool was opened; first-1: none
	bytes int64  // size of what was synced
}

// Open opens the spool in dir, creates it if it is missing, and recovers after crashes: a torn tail is truncated,
// damage is counted. It fails if another process has the spool open (files.ErrLocked), a newer version wrote it, or
// the disk can't be read.
func Open(dir string, opt Options) (*Spool, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open spool %q: %w", dir, err)
	}
	if err := makeDir(dir); err != nil {
		return nil, fmt.Errorf("open spool: create its directory: %w", err)
	}
	lock, err := files.TakeLock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("open spool %q: %w", dir, err)
	}
	s := newSpool(dir, opt)
	s.lock = lock
	if err := s.recover(); err != nil {
		_ = lock.Close() // recover's error is the relevant one
		return nil, fmt.Errorf("open spool %q: %w", dir, err)
	}
	return s, nil
}

func newSpool(dir string, opt Options) *Spool {
	return &Spool{
		dir: dir, opt: opt, changed: make(chan struct{}),
		store: stateStore{fs: opt.fs, dir: dir},
	}
}

// Close saves the cursor and unlocks the directory. Waiting calls return ErrClosed.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.signal()
	err := s.save()
	s.seal()
	s.reading.close()
	if err = errors.Join(err, s.lock.Close()); err != nil {
		return fmt.Errorf("close spool %q: %w", s.dir, err)
	}
	return nil
}

func (s *Spool) path(first uint64) string { return filepath.Join(s.dir, segmentName(first)) }

// signal wakes waiting calls; the caller holds the lock.
func (s *Spool) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// wait releases the lock until something changes or ctx ends.
func (s *Spool) wait(ctx context.Context) error {
	changed := s.changed
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
		return nil
	}
}

// save makes the state durable, including Meta of all current records.
func (s *Spool) save() error {
	st := s.st
	st.Last = s.nextID - 1
	st.MetaThrough = st.Last
	if err := s.store.save(st); err != nil {
		return err
	}
	s.st.Last, s.st.MetaThrough, s.saved = st.Last, st.MetaThrough, st.Head
	return nil
}

// seal ends appending to the last segment.
func (s *Spool) seal() {
	if s.active != nil {
		_ = s.active.Close() // every acknowledged byte was synced
		s.active = nil
	}
}

// end is the greatest id that segment i can contain.
func (s *Spool) end(i int) uint64 {
	if i+1 < len(s.segs) {
		return s.segs[i+1].first - 1
	}
	return s.nextID - 1
}

// damaged counts the damaged ids in [from, to].
func (s *Spool) damaged(from, to uint64) uint64 {
	var n uint64
	for _, g := range s.st.Gaps {
		lo, hi := max(g.From, from), min(g.To, to)
		if lo <= hi {
			n += hi - lo + 1
		}
	}
	return n
}

// noteDamage records that ids [from, to], if any, can't be read. next is record to+1, which shows which seqs are
// lost; nil if it isn't available.
func (s *Spool) noteDamage(from, to uint64, next []byte) {
	if from > to {
		return
	}
	after := to + 1
	if next == nil {
		after, next = s.recordAfter(to)
	}
	for _, g := range s.unnoted(max(from, s.st.Head), to) {
		s.st.Gaps = append(s.st.Gaps, g)
		s.opt.Log.Error("spool records are damaged and skipped", "dir", s.dir, "from_id", g.From, "to_id", g.To)
		r := DroppedRange{FromID: g.From, ToID: g.To, Reason: ReasonCorrupt}
		boot, seq, ok := s.seqOf(to, after, next)
		if before := to - g.From; ok && seq >= before {
			r.BootMS, r.FromSeq, r.ToSeq = boot, seq-before, seq-(to-g.To)
		}
		s.st.Ranges = addRange(s.st.Ranges, r)
	}
}

// unnoted returns the parts of [from, to] that are not among the gaps yet.
func (s *Spool) unnoted(from, to uint64) []gap {
	slices.SortFunc(s.st.Gaps, func(a, b gap) int { return cmp.Compare(a.From, b.From) })
	var out []gap
	for _, g := range s.st.Gaps {
		if g.To < from || g.From > to {
			continue
		}
		if from < g.From {
			out = append(out, gap{from, g.From - 1})
		}
		from = g.To + 1
	}
	if from <= to {
		out = append(out, gap{from, to})
	}
	return out
}

// recordAfter returns the first intact record after id; nil if there is none.
func (s *Spool) recordAfter(id uint64) (after uint64, next []byte) {
	for i, seg := range s.segs {
		last := s.end(i)
		if last <= id {
			continue
		}
		buf, err := s.readSegment(seg, nil)
		if err != nil {
			continue // optional: without a following record the seqs stay unknown
		}
		scanSegment(buf, seg.first, func(have uint64, data []byte) {
			if next == nil && have <= last {
				after, next = have, data
			}
		})
		if next != nil {
			return after, next
		}
	}
	return 0, nil
}

// seqOf infers the seq of damaged record id: ids and seqs of a boot increase together, so the seqs of two records
// differ as much as their ids; the seq of the very last record is in Meta.
func (s *Spool) seqOf(id, after uint64, next []byte) (bootMS int64, seq uint64, ok bool) {
	if next == nil {
		return s.st.Meta.BootMS, s.st.Meta.LastSeq, id == s.st.MetaThrough && s.st.Meta.BootMS != 0
	}
	o, known := s.opt.Describe(next)
	if !known || o.Seq < after-id {
		return 0, 0, false
	}
	return o.BootMS, o.Seq - (after - id), true
}

// advance moves the head past id: intact records up to it were acknowledged, or dropped. It deletes nothing.
func (s *Spool) advance(id uint64, dropped bool) {
	n := id + 1 - s.st.Head
	damaged := s.damaged(s.st.Head, id)
	s.st.Dropped += damaged
	s.st.Corrupt += damaged
	if dropped {
		s.st.Dropped += n - damaged
	} else {
		s.st.Acked += n - damaged
	}
	s.st.Head = id + 1
	var kept []gap
	for _, g := range s.st.Gaps {
		if g.From = max(g.From, s.st.Head); g.From <= g.To {
			kept = append(kept, g)
		}
	}
	s.st.Gaps = kept
}

// removeSettled deletes the segments that are completely below the durable head: others would count as damage after a
// crash.
func (s *Spool) removeSettled() {
	for len(s.segs) > 0 && s.end(0) < s.saved && (len(s.segs) > 1 || s.active == nil) {
		seg := s.segs[0]
		if err := s.opt.fs.Remove(s.path(seg.first)); err != nil {
			s.opt.Log.Error("removing a spool segment failed, trying again later", "dir", s.dir, "segment",
				segmentName(seg.first), "err", err)
			return
		}
		s.bytes -= seg.bytes
		s.segs = s.segs[1:]
	}
}

const noID = math.MaxUint64
