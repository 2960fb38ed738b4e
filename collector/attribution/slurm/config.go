package slurm

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/gputally/gputally/collector/attribution"
	"github.com/gputally/gputally/internal/config"
)

// Sources of the holdings.
const (
	FromFiles    = "files"    // the mapping directory of prolog and epilog
	FromScontrol = "scontrol" // squeue and scontrol
)

// Config is how this node's allocations are read.
type Config struct {
	From string `yaml:"from"`
	// MappingDir is the directory that prolog and epilog write (from: files).
	MappingDir string `yaml:"mapping_dir"`
	// Node is Slurm's NodeName; empty: the collector's node name.
	Node string `yaml:"node"`
	// Gres lists the devices of the node's gpu GRES by position.
	Gres []GresDevice `yaml:"gres"`
	// GresConf is the gres.conf that lists them, if Gres doesn't.
	GresConf string `yaml:"gres_conf"`
	// MIGMinors is the file that lists which instance a /dev/nvidia-caps/nvidia-capN is.
	MIGMinors string `yaml:"mig_minors"`
	// Details queries Slurm about the jobs in MappingDir: user, account, whether they have ended. Without it an owner
	// is a job id and holds while a file names it, and MIG instances at positions that are taken for indices aren't
	// detected.
	Details bool `yaml:"details"`
	// SlurmConf is passed on as SLURM_CONF; empty: Slurm's default.
	SlurmConf string `yaml:"slurm_conf"`
	// Squeue and Scontrol are names looked up in PATH, or absolute paths.
	Squeue   string `yaml:"squeue"`
	Scontrol string `yaml:"scontrol"`
	// ScontrolEvery is the interval between queries of slurmctld (from: scontrol), and the pause after a failed one
	// (from: files).
	ScontrolEvery time.Duration `yaml:"scontrol_every"`
	// ScontrolMaxAge is how old an answer may be and still be used.
	ScontrolMaxAge time.Duration `yaml:"scontrol_max_age"`
	// ScontrolTimeout bounds one call of a program.
	ScontrolTimeout time.Duration `yaml:"scontrol_timeout"`
}

// GresDevice is the device at one position: a UUID, or a minor with, for a MIG instance, its GI and CI.
type GresDevice struct {
	UUID  string  `yaml:"uuid"`  // GPU-… or MIG-…
	Minor *uint32 `yaml:"minor"` // N of /dev/nvidiaN
	GI    *uint32 `yaml:"gi"`    // NVML's GPU-instance id
	CI    *uint32 `yaml:"ci"`    // NVML's compute-instance id
}

func (d GresDevice) device() attribution.Device {
	return attribution.Device{UUID: d.UUID, Minor: d.Minor, GI: d.GI, CI: d.CI}
}

// DefaultConfig reads files; it has no directory.
func DefaultConfig() Config {
	return Config{
		From:            FromFiles,
		MIGMinors:       "/proc/driver/nvidia-caps/mig-minors",
		Details:         true,
		Squeue:          "squeue",
		Scontrol:        "scontrol",
		ScontrolEvery:   10 * time.Second,
		ScontrolMaxAge:  30 * time.Second,
		ScontrolTimeout: 3 * time.Second,
	}
}

// Validate returns an error for each invalid value.
func (c Config) Validate() error {
	var p config.Problems
	p.OneOf("from", c.From, FromFiles, FromScontrol)
	p.Want(c.From != FromFiles || filepath.IsAbs(c.MappingDir),
		"mapping_dir %q: must be the absolute path of the directory that prolog and epilog write", c.MappingDir)
	if c.Node != "" {
		p.Add(validateNode(c.Node))
	}
	p.Want(len(c.Gres) == 0 || c.GresConf == "", "gres_conf %q: gres lists the devices already", c.GresConf)
	for i, d := range c.Gres {
		p.Add(d.validate(i))
	}
	for _, program := range []struct{ key, name string }{{"squeue", c.Squeue}, {"scontrol", c.Scontrol}} {
		p.Want(program.name != "" && (!strings.Contains(program.name, "/") || filepath.IsAbs(program.name)),
			"%s %q: must be a name in PATH or an absolute path", program.key, program.name)
	}
	config.Positive(&p, "scontrol_every", c.ScontrolEvery)
	config.Positive(&p, "scontrol_timeout", c.ScontrolTimeout)
	p.Want(c.ScontrolMaxAge >= c.ScontrolEvery,
		"scontrol_max_age %s: must be at least scontrol_every, %s", c.ScontrolMaxAge, c.ScontrolEvery)
	return p.Err()
}

func (d GresDevice) validate(i int) error {
	switch {
	case d.UUID == "" && d.Minor == nil:
		return fmt.Errorf("gres[%d]: requires uuid or minor", i)
	case d.UUID != "" && d.Minor != nil:
		return fmt.Errorf("gres[%d].minor %d: not allowed with uuid %q", i, *d.Minor, d.UUID)
	case d.UUID != "" && !isUUID(d.UUID):
		return fmt.Errorf("gres[%d].uuid %q: must begin with GPU- or MIG-", i, d.UUID)
	case strings.HasPrefix(d.UUID, "MIG-") && (d.GI != nil || d.CI != nil):
		return fmt.Errorf("gres[%d].uuid %q: gi and ci are not allowed for an instance's UUID", i, d.UUID)
	case d.CI != nil && d.GI == nil:
		return fmt.Errorf("gres[%d].ci %d: requires gi", i, *d.CI)
	}
	return nil
}

// validateNode refuses hostlists and options, since the name is passed to programs.
func validateNode(name string) error {
	if name == "" || name[0] == '-' || strings.ContainsFunc(name, func(c rune) bool {
		return !isLetterOrDigit(c) && !strings.ContainsRune("-_.", c)
	}) {
		return fmt.Errorf("node %q: must be one NodeName of slurm.conf", name)
	}
	return nil
}

func isLetterOrDigit(c rune) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// isUUID returns whether s has the form of NVML's UUIDs, except the older MIG-GPU-…/GI/CI, whose slashes file names
// can't have.
func isUUID(s string) bool {
	rest, ok := strings.CutPrefix(s, "GPU-")
	if !ok {
		rest, ok = strings.CutPrefix(s, "MIG-")
	}
	return ok && rest != "" && !strings.ContainsFunc(rest, func(c rune) bool { return !isLetterOrDigit(c) && c != '-' })
}
