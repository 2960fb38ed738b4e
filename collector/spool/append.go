package spool

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ErrTooLarge means that the records can never fit: one is over 64 MiB, or together they are over MaxBytes.
var ErrTooLarge = errors.New("records too large for the spool")

// Append writes recs as one group with one fsync, and returns the id of the first; the others have the following ids.
// When it returns nil, all of them survive a power failure. When it returns an error none is acknowledged, and the
// same ids are assigned again; the spool stays usable, and appends succeed again when the disk does. After a crash
// right after a failed append its records may exist nevertheless.
//
// At MaxBytes it drops the oldest segments, or waits until ctx ends (Policy).
func (s *Spool) Append(ctx context.Context, recs [][]byte) (first uint64, err error) {
	need := int64(headerBytes)
	for i, rec := range recs {
		if len(rec) > maxRecordBytes {
			return 0, fmt.Errorf("append to spool: record %d has %d bytes, limit %d: %w", i, len(rec), maxRecordBytes,
				ErrTooLarge)
		}
		need += frameHeadBytes + int64(len(rec))
	}
	if need > s.opt.MaxBytes {
		return 0, fmt.Errorf("append to spool: %d bytes, spool holds %d: %w", need, s.opt.MaxBytes, ErrTooLarge)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.makeRoom(ctx, need); err != nil {
		return 0, fmt.Errorf("append to spool: %w", err)
	}
	first = s.nextID
	if len(recs) == 0 {
		return first, nil
	}
	if err := s.write(recs, need); err != nil {
		return 0, fmt.Errorf("append to spool: %w", err)
	}
	for _, rec := range recs {
		s.foldRecord(rec)
	}
	s.nextID += uint64(len(recs))
	s.st.MetaThrough = s.nextID - 1
	s.signal()
	return first, nil
}

// makeRoom returns when need more bytes are within MaxBytes.
func (s *Spool) makeRoom(ctx context.Context, need int64) error {
	for {
		if s.closed {
			return ErrClosed
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.bytes+need <= s.opt.MaxBytes {
			return nil
		}
		if s.st.Head == s.nextID {
			// All records are acknowledged or dropped, but the segment in use was kept.
			if err := s.release(); err != nil {
				return err
			}
			if len(s.segs) == 0 {
				continue
			}
		}
		if s.opt.Policy == DropOldest {
			if err := s.dropOldest(); err != nil {
				return err
			}
			continue
		}
		if err := s.wait(ctx); err != nil {
			return fmt.Errorf("wait for space, %d of %d bytes used: %w", s.bytes, s.opt.MaxBytes, err)
		}
	}
}

// release seals the segment in use and deletes all segments below the head.
func (s *Spool) release() error {
	s.seal()
	if err := s.save(); err != nil {
		return err
	}
	s.removeSettled()
	return nil
}

// dropOldest drops the oldest segment: it records the ranges, saves the state, then deletes the segment.
func (s *Spool) dropOldest() error {
	if len(s.segs) == 1 {
		s.seal()
	}
	last := s.end(0)
	if last >= s.st.Head {
		before := s.st
		before.Ranges, before.Gaps = slices.Clone(s.st.Ranges), slices.Clone(s.st.Gaps)
		if err := s.tellDropped(s.segs[0]); err != nil {
			// The segment is dropped even though it can't be read.
			s.opt.Log.Error("reading the segment to be dropped failed", "dir", s.dir, "err", err)
			s.st.Ranges = addRange(s.st.Ranges, DroppedRange{FromID: s.st.Head, ToID: last, Reason: ReasonFull})
		}
		from := s.st.Head
		s.advance(last, true)
		if err := s.save(); err != nil {
			s.st = before
			return fmt.Errorf("drop oldest records: %w", err)
		}
		s.opt.Log.Warn("spool is full, dropped its oldest records", "dir", s.dir, "from_id", from, "to_id", last)
	} else if last >= s.saved {
		// An Ack whose save failed moved the head in memory only.
		if err := s.save(); err != nil {
			return fmt.Errorf("drop acknowledged records: %w", err)
		}
	}
	count := len(s.segs)
	s.removeSettled()
	if len(s.segs) == count {
		return fmt.Errorf("drop oldest records: segment %s can't be removed", segmentName(s.segs[0].first))
	}
	s.signal()
	return nil
}

// tellDropped adds the ranges of a segment's unacknowledged records, including those that can't be read.
func (s *Spool) tellDropped(seg *segment) error {
	buf, err := s.readSegment(seg, nil)
	if err != nil {
		return err
	}
	expected, last := s.st.Head, s.end(0)
	scanSegment(buf, seg.first, func(id uint64, data []byte) {
		if id < expected || id > last {
			return
		}
		s.noteDamage(expected, id-1, data)
		s.st.Ranges = addRange(s.st.Ranges, s.rangeOf(id, data, ReasonFull))
		expected = id + 1
	})
	s.noteDamage(expected, last, nil)
	return nil
}

// rangeOf is the range of one lost record.
func (s *Spool) rangeOf(id uint64, data []byte, reason string) DroppedRange {
	r := DroppedRange{FromID: id, ToID: id, Reason: reason}
	if o, ok := s.opt.Describe(data); ok {
		r.BootMS, r.FromSeq, r.ToSeq = o.BootMS, o.Seq, o.Seq
	}
	return r
}

// write appends the frames to the segment in use, or to a new one, and syncs. After an error none of the bytes
// counts.
func (s *Spool) write(recs [][]byte, need int64) error {
	if s.active != nil {
		seg := s.segs[len(s.segs)-1]
		if seg.bytes+need-headerBytes > s.opt.SegmentBytes && seg.bytes > headerBytes {
			s.roll()
		}
	}
	if s.active == nil {
		return s.writeNew(recs, need)
	}
	seg := s.segs[len(s.segs)-1]
	buf := make([]byte, 0, need)
	for i, rec := range recs {
		buf = appendFrame(buf, seg.first, s.nextID+uint64(i), rec)
	}
	if _, err := s.active.WriteAt(buf, seg.bytes); err != nil {
		s.abandon(seg.bytes)
		return fmt.Errorf("write segment %s: %w", segmentName(seg.first), err)
	}
	if err := s.active.Sync(); err != nil {
		s.abandon(seg.bytes)
		return fmt.Errorf("sync segment %s: %w", segmentName(seg.first), err)
	}
	seg.bytes += int64(len(buf))
	s.bytes += int64(len(buf))
	return nil
}

// roll seals the segment in use. It also saves the state, so that the next start need not read the sealed segment's
// origins again.
func (s *Spool) roll() {
	s.seal()
	if err := s.save(); err != nil {
		s.opt.Log.Warn("saving the spool's state failed, trying again later", "dir", s.dir, "err", err)
	}
}

// abandon stops using a segment whose write or sync failed: after a failed fsync later ones prove nothing. What was
// synced before stays.
func (s *Spool) abandon(sizeBytes int64) {
	if err := s.active.Truncate(sizeBytes); err != nil {
		s.opt.Log.Warn("truncating a failed append failed", "dir", s.dir, "err", err)
	}
	s.seal()
}

// writeNew creates a segment with recs. It counts only when file and name are durable; a failed one is removed, or
// reused by the next attempt.
func (s *Spool) writeNew(recs [][]byte, need int64) error {
	first := s.nextID
	if n := len(s.segs); n > 0 && s.segs[n-1].first == first {
		// An earlier segment with this name never got a record.
		s.bytes -= s.segs[n-1].bytes
		s.segs = s.segs[:n-1]
	}
	f, err := s.opt.fs.Open(s.path(first), true)
	if err != nil {
		return fmt.Errorf("create segment %s: %w", segmentName(first), err)
	}
	buf := appendHeader(make([]byte, 0, need), first)
	for i, rec := range recs {
		buf = appendFrame(buf, first, first+uint64(i), rec)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(buf, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = s.opt.fs.SyncDir(s.dir)
	}
	if err != nil {
		err = fmt.Errorf("write segment %s: %w", segmentName(first), err)
		if undo := errors.Join(f.Truncate(0), f.Close(), s.opt.fs.Remove(s.path(first))); undo != nil {
			s.opt.Log.Warn("removing a failed segment failed", "dir", s.dir, "err", undo)
		}
		return err
	}
	s.active = f
	s.segs = append(s.segs, &segment{first: first, bytes: int64(len(buf))})
	s.bytes += int64(len(buf))
	return nil
}
