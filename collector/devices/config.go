package devices

import "fmt"

// Config of the devices' metrics.
type Config struct {
	// MaxAgeSlots is how many slots after its end a slot is still shown.
	MaxAgeSlots int `yaml:"max_age_slots"`
	// OwnerLabels puts tenant, project, namespace, pod, container and hpc_job on
	// the rows of devices. Without them series live as long as devices do.
	OwnerLabels bool `yaml:"owner_labels"`
}

// DefaultConfig shows owners, and a slot for as long as three.
func DefaultConfig() Config { return Config{MaxAgeSlots: 3, OwnerLabels: true} }

// Validate names the value that can't be used.
func (c Config) Validate() error {
	if c.MaxAgeSlots < 1 || c.MaxAgeSlots > 100 {
		return fmt.Errorf("max_age_slots %d: must be 1 to 100", c.MaxAgeSlots)
	}
	return nil
}
