package nvml

import (
	"fmt"
	"path/filepath"
)

// Config says where NVML is and what is asked of it.
type Config struct {
	// Library is the path of libnvidia-ml.so.1; empty: the loader's search.
	Library string `yaml:"library"`
	// GPM samples activity on Hopper and newer: SM, tensor, memory and PCIe.
	GPM bool `yaml:"gpm"`
}

// DefaultConfig has the loader find the library, and samples activity.
func DefaultConfig() Config { return Config{GPM: true} }

// Validate names the value that can't be used.
func (c Config) Validate() error {
	if c.Library != "" && !filepath.IsAbs(c.Library) {
		return fmt.Errorf("library %q: must be an absolute path, such as /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
			c.Library)
	}
	return nil
}
