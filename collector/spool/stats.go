package spool

import (
	"errors"
	"fmt"
	"io/fs"
)

// Stats counts records and bytes. Always Appended = Cursor + Records + Dropped.
type Stats struct {
	Appended uint64 // ids ever given
	Cursor   uint64 // of them, acknowledged
	Records  uint64 // of them, still in the spool
	Dropped  uint64 // of them, lost: dropped because the spool was full, damaged, or refused by the broker

	CorruptRecords uint64 // of Dropped, damaged on disk
	DroppedRanges  []DroppedRange
	Bytes          int64 // of all segments
	Segments       int
	TornBytes      int64 // unfinished appends cut off at starts, ever
}

// Stats describes the spool as it is now.
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

// Meta is what is known of the records ever appended; right after Open, of
// those of earlier boots.
func (s *Spool) Meta() Meta {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.st.Meta.clone()
}

// readAttempts bounds how often ReadStats looks again at a spool that moves.
const readAttempts = 100

// ReadStats describes the spool in dir without opening it: nothing is locked or
// changed, and another process may be using it. An append in progress may be
// counted. It fails where dir holds no spool (fs.ErrNotExist).
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
			moved = err // a segment was acknowledged meanwhile, or there is no spool
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
		moved = errors.New("its cursor moved at each look")
	}
	return Stats{}, fmt.Errorf("read spool %q: %w", dir, moved)
}
