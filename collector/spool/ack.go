package spool

import "fmt"

// Ack says that all records up to and including id have arrived, but for those
// that were refused: they count as dropped and become ranges to be announced. It
// moves the cursor and keeps the ranges durably, in one write, and deletes
// segments that are wholly settled. Ids already settled are no error: records
// may have been dropped while they were sent. On an error the cursor may be
// behind after a restart, so records may come again.
func (s *Spool) Ack(id uint64, refused ...Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if id >= s.nextID {
		return fmt.Errorf("acknowledge spool record %d: the next one to be appended is %d", id, s.nextID)
	}
	if id < s.st.Head {
		return nil
	}
	lost := s.tellRefused(id, refused)
	s.advance(id, false)
	s.st.Acked -= lost
	s.st.Dropped += lost
	if s.st.Head == s.nextID && s.bytes >= s.opt.SegmentBytes/4 {
		s.seal() // an empty spool keeps no large file
	}
	if err := s.save(); err != nil {
		return fmt.Errorf("acknowledge spool record %d: %w", id, err)
	}
	s.removeSettled()
	s.signal()
	return nil
}

// tellRefused adds the ranges of refused records up to id, and counts them.
func (s *Spool) tellRefused(id uint64, refused []Record) (n uint64) {
	for _, rec := range refused {
		if rec.ID < s.st.Head || rec.ID > id {
			continue // dropped meanwhile, and told of then
		}
		s.st.Ranges = addRange(s.st.Ranges, s.rangeOf(rec.ID, rec.Data, ReasonRefused))
		n++
	}
	return n
}

// ForgetDropped takes ranges out of Stats.DroppedRanges, once their
// announcement is safe: when the record that carries it is acknowledged.
func (s *Spool) ForgetDropped(announced []DroppedRange) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	for _, r := range announced {
		s.st.Ranges = forgetRange(s.st.Ranges, r)
	}
	if err := s.save(); err != nil {
		return fmt.Errorf("forget dropped ranges of spool: %w", err)
	}
	return nil
}
