package nvml

import (
	"fmt"
	"path/filepath"
)

// Config has the path of NVML and what is read.
type Config struct {
	// Library is the path of libnvidia-ml.so.1; empty: the loader's search.
	Library string `yaml:"library"`
	// GPM samples activity on Hopper and newer: SM, tensor, memory and PCIe.
	GPM bool `yaml:"gpm"`
}

// DefaultConfig lets the loader find the library, and samples activity.
func DefaultConfig() Config { return Config{GPM: true} }

// Validate returns an error if the library's path is invalid.
func (c Config) Validate() error {
	if c.Library != "" && !filepath.IsAbs(c.Library) {
		return fmt.Errorf("library %q: must be an absolute path, such as /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
			c.Library)
	}
	return nil
}
