package spool

import "fmt"

// Ack says that all records up to and including id have arrived. It moves the
// cursor durably and deletes segments that are wholly acknowledged. Ids already
// settled are no error: records may have been dropped while they were sent. On
// an error the cursor may be behind after a restart, so records may come again.
func (s *Spool) Ack(id uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if id >= s.nextID {
		return fmt.Errorf("acknowledge spool record %d: the last one appended is %d", id, s.nextID-1)
	}
	if id < s.st.Head {
		return nil
	}
	s.settle(id, false)
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
