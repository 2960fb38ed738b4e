package spool

import (
	"errors"
	"fmt"
	"io/fs"
)

// Stats are counts of records and bytes. Always Appended = Cursor + Records + Dropped.
type Stats struct {
	Appended uint64 // ids ever assigned
	Cursor   uint64 // of them, acknowledged
	Records  uint64 // of them, still in the spool
	Dropped  uint64 // of them, lost: dropped from a full spool, damaged, or refused by the broker

	CorruptRecords uint64 // of Dropped, damaged on disk
	DroppedRanges  []DroppedRange
	Bytes          int64 // of all segments
	Segments       int
	TornBytes      int64 // total size of unfinished appends truncated at starts
}

// Stats returns the current counts.
func (s *Spool) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats()
}

func (s *Spool) stats() Stats {
	damaged := s.damaged(s.st.Head, s.nextID-1)
	return Stats{
		Appended:       s.nextID - 1,
		Cursor:         s.st.Acked,
		Records:        s.nextID - s.st.Head - damaged,
		Dropped:        s.st.Dropped + damaged,
		CorruptRecords: s.st.Corrupt + damaged,
		DroppedRanges:  append([]DroppedRange(nil), s.st.Ranges...),
		Bytes:          s.bytes,
		Segments:       len(s.segs),
		TornBytes:      s.st.TornBytes,
	}
}

// Meta covers all records ever appended; right after Open, those of earlier boots.
func (s *Spool) Meta() Meta {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.st.Meta.clone()
}

// readAttempts bounds how often ReadStats reads a spool that changes meanwhile.
const readAttempts = 100

// ReadStats returns the counts of the spool in dir without opening it: nothing is locked or changed, and another
// process may be using it. An append in progress may be counted. It fails if dir contains no spool (fs.ErrNotExist).
func ReadStats(dir string) (Stats, error) {
	opt, err := Options{fs: readOnlyFS{}}.withDefaults()
	if err != nil {
		return Stats{}, err
	}
	return readStats(dir, opt)
}

func readStats(dir string, opt Options) (Stats, error) {
	var moved error
	for range readAttempts {
		s := newSpool(dir, opt)
		if err := s.scan(); errors.Is(err, fs.ErrNotExist) {
			moved = err // a segment was deleted meanwhile, or there is no spool
			continue
		} else if err != nil {
			return Stats{}, fmt.Errorf("read spool %q: %w", dir, err)
		}
		again := stateStore{fs: opt.fs, dir: dir}
		_, found, err := again.load()
		if err != nil {
			return Stats{}, fmt.Errorf("read spool %q: %w", dir, err)
		}
		if !found && len(s.segs) == 0 {
			return Stats{}, fmt.Errorf("read spool %q: %w", dir, fs.ErrNotExist)
		}
		if again.generation == s.store.generation {
			return s.stats(), nil
		}
		moved = errors.New("the spool's cursor moved during each attempt")
	}
	return Stats{}, fmt.Errorf("read spool %q: %w", dir, moved)
}
