package static

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gputally/gputally/collector/attribution"
	"github.com/gputally/gputally/internal/config"
	"github.com/gputally/gputally/internal/wire"
)

// file is the content of an owners file.
type file struct {
	Owners *[]entry `yaml:"owners"` // nil: the key is missing
}

// entry is one owner of one device.
type entry struct {
	GPU     gpuUUID   `yaml:"gpu"`
	Index   *uint32   `yaml:"index"` // DCGM's and NVML's
	Minor   *uint32   `yaml:"minor"` // N of /dev/nvidiaN
	GI      *uint32   `yaml:"gi"`
	CI      *uint32   `yaml:"ci"`
	MIG     migUUID   `yaml:"mig"`
	Tenant  string    `yaml:"tenant"`
	Project string    `yaml:"project"`
	User    string    `yaml:"user"`
	Account string    `yaml:"account"`
	Job     string    `yaml:"job"`
	From    time.Time `yaml:"from"` // inclusive; zero: always
	To      time.Time `yaml:"to"`   // exclusive; zero: for ever
}

type gpuUUID string

// UnmarshalText refuses anything but a board's UUID.
func (u *gpuUUID) UnmarshalText(text []byte) error { return uuid((*string)(u), text, "GPU-") }

type migUUID string

// UnmarshalText refuses anything but an instance's UUID.
func (u *migUUID) UnmarshalText(text []byte) error { return uuid((*string)(u), text, "MIG-") }

func uuid(into *string, text []byte, prefix string) error {
	*into = string(text)
	if rest, ok := strings.CutPrefix(*into, prefix); !ok || rest == "" || strings.ContainsAny(rest, "/ \t") {
		return fmt.Errorf("must be %s and a UUID", prefix)
	}
	return nil
}

// decode parses an owners file; its errors name file and line.
func decode(name string, text []byte) ([]entry, error) {
	var f file
	err := config.DecodeWith(name, text, &f, nil, func(root config.Place) {
		if root.Sound() && f.Owners != nil {
			check(*f.Owners, root.At("owners"))
		}
	})
	switch {
	case err != nil:
		return nil, err
	case f.Owners == nil:
		return nil, fmt.Errorf("%s: no list under owners; use `owners: []` for no owners", name)
	}
	return *f.Owners, nil
}

// check reports every entry that is invalid, or repeats another one.
func check(owners []entry, list config.Place) {
	same := map[string][]int{}
	for i, e := range owners {
		fault := e.validate()
		for _, j := range same[e.key()] {
			if fault == nil && e.overlaps(owners[j]) {
				fault = fmt.Errorf("repeats owners[%d] on line %d", j, list.At(j).Line())
			}
		}
		if fault != nil {
			list.At(i).Faultf("%v", fault)
		}
		same[e.key()] = append(same[e.key()], i)
	}
}

func (e entry) validate() error {
	named := 0
	for _, is := range []bool{e.GPU != "", e.Index != nil, e.Minor != nil, e.MIG != ""} {
		if is {
			named++
		}
	}
	switch {
	case named == 0:
		return errors.New("names no device: want gpu, index, minor or mig")
	case named > 1:
		return errors.New("names the device twice: want one of gpu, index, minor and mig")
	case e.MIG != "" && (e.GI != nil || e.CI != nil):
		return fmt.Errorf("mig %q: gi and ci are not allowed for an instance's UUID", e.MIG)
	case e.CI != nil && e.GI == nil:
		return fmt.Errorf("ci %d: requires gi", *e.CI)
	case e.facts() == [5]string{}:
		return errors.New("names no owner: want tenant, project, user, account or job")
	case !e.From.IsZero() && !e.To.IsZero() && !e.From.Before(e.To):
		return fmt.Errorf("from %s: must be before to, %s", e.From.Format(time.RFC3339), e.To.Format(time.RFC3339))
	}
	return nil
}

func (e entry) facts() [5]string {
	return [5]string{e.Tenant, e.Project, e.User, e.Account, e.Job}
}

// key identifies the device and the owner.
func (e entry) key() string { return fmt.Sprintf("%s %q", e.device(), e.facts()) }

func (e entry) overlaps(o entry) bool {
	return (e.To.IsZero() || o.From.Before(e.To)) && (o.To.IsZero() || e.From.Before(o.To))
}

// at returns whether the entry is valid at an instant.
func (e entry) at(now time.Time) bool {
	return !now.Before(e.From) && (e.To.IsZero() || now.Before(e.To))
}

func (e entry) device() attribution.Device {
	return attribution.Device{UUID: string(e.GPU) + string(e.MIG), Index: e.Index, Minor: e.Minor, GI: e.GI, CI: e.CI}
}

func (e entry) owner() *wire.Owner {
	return &wire.Owner{Tenant: e.Tenant, Project: e.Project, User: e.User, Account: e.Account, Job: e.Job}
}
