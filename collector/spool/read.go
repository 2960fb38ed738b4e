package spool

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Record is one record and its id.
type Record struct {
	ID   uint64
	Data []byte
}

// readChunkBytes is how much of a segment Next reads at once.
const readChunkBytes = 1 << 20

// reader is the position of Next. The file stays open between calls; removing it meanwhile does no harm.
type reader struct {
	next  uint64 // the next id to return
	first uint64 // first id of file's segment; 0: none
	file  file
	at    int64 // offset in file of the next frame
}

func (r *reader) close() {
	if r.file != nil {
		_ = r.file.Close() // opened for reading only
	}
	r.file, r.first, r.at = nil, 0, 0
}

// Next returns up to limit records after those it returned before, oldest first, and waits until there is one.
// Damaged records are skipped. After a restart it begins at the oldest that is not acknowledged.
func (s *Spool) Next(ctx context.Context, limit int) ([]Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.closed {
			return nil, ErrClosed
		}
		recs, err := s.read(max(limit, 1))
		if err != nil {
			return nil, fmt.Errorf("read spool: %w", err)
		}
		if len(recs) > 0 {
			return recs, nil
		}
		if err := s.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// read returns records after the read position, at most one chunk; none at the end.
func (s *Spool) read(limit int) ([]Record, error) {
	r := &s.reading
	r.next = max(r.next, s.st.Head)
	for r.next < s.nextID {
		i := s.segmentOf(r.next)
		if i < 0 { // its file was removed
			s.passDamage(s.beforeSegments(), nil)
			continue
		}
		if err := s.openReader(i); err != nil {
			return nil, err
		}
		recs, err := s.readFrames(i, limit)
		if err != nil {
			return nil, err
		}
		if len(recs) > 0 {
			return recs, nil
		}
	}
	return nil, nil
}

// segmentOf returns the segment of an id; -1: none.
func (s *Spool) segmentOf(id uint64) int {
	for i := len(s.segs) - 1; i >= 0; i-- {
		if s.segs[i].first <= id {
			return i
		}
	}
	return -1
}

// beforeSegments is the greatest id before the first segment.
func (s *Spool) beforeSegments() uint64 {
	if len(s.segs) == 0 {
		return s.nextID - 1
	}
	return s.segs[0].first - 1
}

// passDamage moves the read position beyond id, if it is before it, over records that can't be read.
func (s *Spool) passDamage(id uint64, next []byte) {
	s.noteDamage(s.reading.next, id, next)
	s.reading.next = id + 1
}

func (s *Spool) openReader(i int) error {
	r, seg := &s.reading, s.segs[i]
	if r.file != nil && r.first == seg.first {
		return nil
	}
	r.close()
	f, err := s.opt.fs.Open(s.path(seg.first), false)
	if err != nil {
		return fmt.Errorf("open segment %s: %w", segmentName(seg.first), err)
	}
	r.file, r.first, r.at = f, seg.first, headerBytes
	return nil
}

// readFrames reads from the reader's segment. No records and no error mean that the position has moved and the caller
// must try again.
func (s *Spool) readFrames(i, limit int) ([]Record, error) {
	r, seg, last := &s.reading, s.segs[i], s.end(i)
	left := seg.bytes - r.at
	if left <= 0 {
		s.passDamage(last, nil)
		return nil, nil
	}
	buf, err := s.readBytes(min(left, readChunkBytes))
	if err != nil {
		return nil, err
	}
	if _, _, size, v := decodeFrame(buf, seg.first); v != frameOK && int64(len(buf)) < left {
		// The frame is longer than a chunk, or damaged: the rest of the segment shows which.
		if v == frameShort && int64(size) <= left {
			left = int64(size)
		}
		if buf, err = s.readBytes(left); err != nil {
			return nil, err
		}
	}
	whole := int64(len(buf)) >= seg.bytes-r.at
	var recs []Record
	pos := 0
	for pos < len(buf) && len(recs) < limit {
		id, data, size, v := decodeFrame(buf[pos:], seg.first)
		if v != frameOK {
			if pos > 0 && !whole {
				break // truncated by the chunk's end; the next chunk begins here
			}
			pos += resync(buf[pos:], seg.first)
			continue
		}
		pos += size
		if id < r.next || id > last {
			continue
		}
		s.passDamage(id-1, data)
		recs = append(recs, Record{ID: id, Data: data})
		r.next = id + 1
	}
	r.at += int64(pos)
	return recs, nil
}

// readBytes reads n bytes at the position; less only if the file is shorter than it was when it was synced.
func (s *Spool) readBytes(n int64) ([]byte, error) {
	buf := make([]byte, n)
	got, err := s.reading.file.ReadAt(buf, s.reading.at)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read segment %s: %w", segmentName(s.reading.first), err)
	}
	if got == 0 {
		s.reading.at += n // no frame follows here
	}
	return buf[:got], nil
}
