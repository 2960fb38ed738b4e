package spool

import "fmt"

// Ack acknowledges all records up to and including id, except refused ones: they count as dropped and become ranges
// to be announced. It saves the cursor and the ranges in one durable write, and deletes segments below the cursor.
// Acknowledging an id twice is no error: records may have been dropped while they were sent. After an error the
// cursor may be behind after a restart, so records may be returned again.
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
			continue // dropped meanwhile, and announced then
		}
		s.st.Ranges = addRange(s.st.Ranges, s.rangeOf(rec.ID, rec.Data, ReasonRefused))
		n++
	}
	return n
}

// ForgetDropped removes ranges from Stats.DroppedRanges once the record that announces them is acknowledged.
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
		return fmt.Errorf("remove dropped ranges from the spool's state: %w", err)
	}
	return nil
}
