package static

import (
	"fmt"
	"path/filepath"
)

// Config says which file holds the owners.
type Config struct {
	File string `yaml:"file"` // absolute path
}

// DefaultConfig knows no file yet.
func DefaultConfig() Config { return Config{} }

// Validate names a wrong value.
func (c Config) Validate() error {
	if !filepath.IsAbs(c.File) {
		return fmt.Errorf("file %q: must be the absolute path of a YAML file with owners", c.File)
	}
	return nil
}
