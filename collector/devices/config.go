package devices

import "fmt"

// Config of the devices' metrics.
type Config struct {
	// MaxAgeSlots is for how many slots after its end a slot is still exposed.
	MaxAgeSlots int `yaml:"max_age_slots"`
	// OwnerLabels adds tenant, project, namespace, pod, container and hpc_job to the rows of devices. Without them
	// series exist as long as devices do.
	OwnerLabels bool `yaml:"owner_labels"`
}

// DefaultConfig exposes owners, and a slot for three more slots.
func DefaultConfig() Config { return Config{MaxAgeSlots: 3, OwnerLabels: true} }

// Validate returns an error if a value is invalid.
func (c Config) Validate() error {
	if c.MaxAgeSlots < 1 || c.MaxAgeSlots > 100 {
		return fmt.Errorf("max_age_slots %d: must be 1 to 100", c.MaxAgeSlots)
	}
	return nil
}
