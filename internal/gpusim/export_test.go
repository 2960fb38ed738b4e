package gpusim

// Try is Do with the refusal as an error.
func (s *Sim) Try(lines string) error { return s.try(lines) }

// Claim takes the model for a test by name.
func Claim(name string) error { return claim(name) }
