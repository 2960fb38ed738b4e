package spool

// Rewind makes Next begin again at the oldest record that is not acknowledged.
func (s *Spool) Rewind() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading.close()
	s.reading.next = s.st.Head
	s.signal()
}
