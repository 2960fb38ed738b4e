package static

import (
	"fmt"
	"path/filepath"
)

// Config is the file of owners.
type Config struct {
	File string `yaml:"file"` // absolute path
}

// DefaultConfig has no file.
func DefaultConfig() Config { return Config{} }

// Validate returns an error if the file is invalid.
func (c Config) Validate() error {
	if !filepath.IsAbs(c.File) {
		return fmt.Errorf("file %q: must be the absolute path of a YAML file with owners", c.File)
	}
	return nil
}
