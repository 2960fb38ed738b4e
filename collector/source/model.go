package source

import (
	"errors"
	"fmt"

	"github.com/gputally/gputally/internal/meter"
)

// Model overrides or extends the built-in table of models.
type Model struct {
	Name      string         `yaml:"name"` // exactly as DCGM reports it
	Slices    int            `yaml:"slices"`
	IdleWatts float64        `yaml:"idle_watts"`
	Profiles  map[string]int `yaml:"profiles"`
}

// Models is a configured list; the first entry of a name is used.
type Models []Model

// Validate returns an error for each invalid value.
func (m Models) Validate() error {
	var errs []error
	for i := range m {
		errs = append(errs, m[i].validate(i))
	}
	return errors.Join(errs...)
}

func (m Model) validate(i int) error {
	switch {
	case m.Name == "":
		return fmt.Errorf("models[%d].name: is empty", i)
	case m.Slices < 1 || m.Slices > 64:
		return fmt.Errorf("models[%d].slices %d (%s): must be 1 to 64", i, m.Slices, m.Name)
	case m.IdleWatts < 0:
		return fmt.Errorf("models[%d].idle_watts %v (%s): must not be negative", i, m.IdleWatts, m.Name)
	}
	for p, n := range m.Profiles {
		if n < 1 || n > m.Slices {
			return fmt.Errorf("models[%d].profiles[%s] %d (%s): must be 1 to %d", i, p, n, m.Name, m.Slices)
		}
	}
	return nil
}

// Of returns a board's model: the configured one, else the built-in one.
func (m Models) Of(name string) (meter.Model, bool) {
	for _, c := range m {
		if c.Name != name {
			continue
		}
		builtin, _ := meter.ModelByName(name)
		merged := meter.Model{Name: name, Slices: c.Slices, IdleWatts: c.IdleWatts, Profiles: c.Profiles}
		if merged.IdleWatts == 0 {
			merged.IdleWatts = builtin.IdleWatts
		}
		if merged.Profiles == nil {
			merged.Profiles = builtin.Profiles
		}
		return merged, true
	}
	return meter.ModelByName(name)
}
