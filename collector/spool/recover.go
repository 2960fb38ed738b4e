package spool

import (
	"errors"
	"fmt"
	"io/fs"
)

// recover reads state and segments, and truncates what a crash left unfinished.
func (s *Spool) recover() error {
	if err := s.scan(); err != nil {
		return err
	}
	if err := s.openTail(); err != nil {
		return err
	}
	if err := s.save(); err != nil {
		return err
	}
	s.removeSettled()
	return nil
}

// scan reads the directory without changing it.
func (s *Spool) scan() error {
	st, found, err := s.store.load()
	if err != nil {
		return err
	}
	names, err := s.opt.fs.List(s.dir)
	if err != nil {
		return fmt.Errorf("list segments: %w", err)
	}
	for _, name := range names {
		if first, ok := parseSegmentName(name); ok {
			s.segs = append(s.segs, &segment{first: first, last: first - 1})
		}
	}
	if !found {
		st = state{Head: 1}
		if len(s.segs) > 0 {
			// Both copies of the state are lost: missing records count as acknowledged.
			st.Head = s.segs[0].first
			st.Acked = st.Head - 1
			s.opt.Log.Error("spool state is unreadable, sending all remaining records", "dir", s.dir, "from_id", st.Head)
		}
	}
	s.st = st
	s.nextID = max(st.Head, st.Last+1)
	if n := len(s.segs); n > 0 {
		s.nextID = max(s.nextID, s.segs[n-1].first)
	}
	return s.scanSegments()
}

func (s *Spool) scanSegments() error {
	var buf []byte
	expected := s.st.Head
	for i, seg := range s.segs {
		var err error
		if buf, err = s.readSegment(seg, buf); err != nil {
			return err
		}
		limit := uint64(noID)
		if i+1 < len(s.segs) {
			limit = s.segs[i+1].first - 1
		}
		end := scanSegment(buf, seg.first, func(id uint64, data []byte) {
			if id > limit {
				return // the rest of a failed append that the next segment replaced
			}
			seg.last = id
			if id > s.st.MetaThrough {
				s.foldRecord(data)
			}
			if id < expected {
				return
			}
			s.noteDamage(expected, id-1, data)
			expected = id + 1
		})
		seg.bytes = int64(len(buf))
		s.bytes += seg.bytes
		if i == len(s.segs)-1 {
			s.nextID = max(s.nextID, seg.last+1)
			s.findTail(seg, int64(end))
		}
	}
	s.noteDamage(expected, s.nextID-1, nil)
	return nil
}

func (s *Spool) readSegment(seg *segment, buf []byte) ([]byte, error) {
	name := segmentName(seg.first)
	f, err := s.opt.fs.Open(s.path(seg.first), false)
	if err != nil {
		return nil, fmt.Errorf("open segment %s: %w", name, err)
	}
	buf, err = readAll(f, buf)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read segment %s: %w", name, err)
	}
	if err := checkHeader(buf); err != nil {
		return nil, fmt.Errorf("read segment %s: %w", name, err)
	}
	return buf, nil
}

// findTail distinguishes a torn tail from damage: bytes after the last intact record are an append that was never
// acknowledged, unless the state knows of later records. Damage is not changed.
func (s *Spool) findTail(seg *segment, end int64) {
	if torn := seg.bytes - end; torn > 0 && seg.last >= s.st.Last {
		s.st.TornBytes += torn
		s.bytes -= torn
		seg.bytes = end
	}
}

func (s *Spool) foldRecord(data []byte) {
	if o, ok := s.opt.Describe(data); ok {
		s.st.Meta.fold(o)
	}
}

// openTail prepares the last segment for appending and truncates its torn tail. If that fails, the next append begins
// a new segment.
func (s *Spool) openTail() error {
	if len(s.segs) == 0 {
		return nil
	}
	seg := s.segs[len(s.segs)-1]
	if seg.bytes < headerBytes || seg.last+1 != s.nextID {
		return nil
	}
	f, err := s.opt.fs.Open(s.path(seg.first), false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open segment %s: %w", segmentName(seg.first), err)
	}
	if err := errors.Join(f.Truncate(seg.bytes), f.Sync()); err != nil {
		s.opt.Log.Error("truncating the torn tail failed", "dir", s.dir, "segment", segmentName(seg.first),
			"err", err)
		_ = f.Close()
		return nil
	}
	s.active = f
	return nil
}
