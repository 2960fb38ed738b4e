package slurm

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/gputally/gputally/collector/attribution"
)

// device returns the device of one position's files: /dev/nvidiaN is a board, a /dev/nvidia-caps/nvidia-capN an
// instance listed in minors.
func (d confDevice) device(minors func() (map[uint32]attribution.Device, error)) (attribution.Device, error) {
	var out attribution.Device
	for _, file := range d.files {
		base := path.Base(file)
		var part attribution.Device
		if digits, ok := strings.CutPrefix(base, "nvidia-cap"); ok {
			known, err := minors()
			if err != nil {
				return out, err
			}
			minor, err := parseUint32(digits)
			if err != nil {
				return out, fmt.Errorf("file %q: want /dev/nvidia-caps/nvidia-capN", file)
			}
			if part, ok = known[minor]; !ok {
				return out, fmt.Errorf("file %q: mig_minors has no instance with minor %d", file, minor)
			}
		} else {
			digits, ok := strings.CutPrefix(base, "nvidia")
			minor, err := parseUint32(digits)
			if !ok || err != nil {
				return out, fmt.Errorf("file %q: want /dev/nvidiaN or /dev/nvidia-caps/nvidia-capN", file)
			}
			part.Minor = &minor
		}
		if err := merge(&out, part); err != nil {
			return out, fmt.Errorf("files %s: %w", strings.Join(d.files, ","), err)
		}
	}
	return out, nil
}

// merge adds one file of MultipleFiles: board, GPU instance or compute instance of the same device.
func merge(into *attribution.Device, part attribution.Device) error {
	for _, f := range []struct {
		what      string
		into, add **uint32
	}{
		{"boards", &into.Minor, &part.Minor},
		{"GPU instances", &into.GI, &part.GI},
		{"compute instances", &into.CI, &part.CI},
	} {
		switch have, add := *f.into, *f.add; {
		case add == nil:
		case have == nil:
			*f.into = add
		case *have != *add:
			return fmt.Errorf("two %s, %d and %d, at one position", f.what, *have, *add)
		}
	}
	return nil
}

// readMIGMinors reads /proc/driver/nvidia-caps/mig-minors: lines such as "gpu0/gi1/access 12" and
// "gpu0/gi1/ci0/access 13" (NVIDIA's MIG user guide, "Device nodes and capabilities"), where gpuN is the board's
// minor.
func readMIGMinors(name string) (map[uint32]attribution.Device, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read mig_minors, which lists the instance of nvidia-capN: %w", err)
	}
	return parseMIGMinors(name, string(text))
}

func parseMIGMinors(name, text string) (map[uint32]attribution.Device, error) {
	known := map[uint32]attribution.Device{}
	for i, line := range strings.Split(text, "\n") {
		access, digits, found := strings.Cut(strings.TrimSpace(line), " ")
		if access == "" || access == "config" || access == "monitor" {
			continue
		}
		minor, err := parseUint32(digits)
		device, ok := parseAccess(access)
		if !found || err != nil || !ok {
			return nil, fmt.Errorf("%s:%d: %q: want a line such as gpu0/gi1/ci0/access 13", name, i+1, line)
		}
		known[minor] = device
	}
	return known, nil
}

func parseAccess(access string) (d attribution.Device, ok bool) {
	parts := strings.Split(access, "/")
	last := len(parts) - 1
	if last < 2 || last > 3 || parts[last] != "access" {
		return d, false
	}
	for i, part := range parts[:last] {
		digits, found := strings.CutPrefix(part, []string{"gpu", "gi", "ci"}[i])
		n, err := parseUint32(digits)
		if !found || err != nil {
			return d, false
		}
		*[]**uint32{&d.Minor, &d.GI, &d.CI}[i] = &n
	}
	return d, true
}

// parseUint32 parses plain decimal digits: no sign, no leading zeros.
func parseUint32(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err == nil && strconv.FormatUint(n, 10) != s {
		err = fmt.Errorf("%q: not a plain number", s)
	}
	return uint32(n), err
}
