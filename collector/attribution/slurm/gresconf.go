package slurm

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/gputally/gputally/internal/hostlist"
)

// maxGresConfBytes bounds gres.conf: ten thousand nodes with a line each.
const maxGresConfBytes = 4 << 20

// confDevice is one gpu of gres.conf: a file, or the several of MultipleFiles.
type confDevice struct {
	kind  string // Type=
	files []string
	line  int
}

// gresConf is what gres.conf says of one node's gpus, in the file's order.
type gresConf struct {
	devices    []confDevice
	autoDetect string // in lower case; empty: not said
	fileless   int    // a line with gpus and no file; 0: none
}

// detects says whether slurmd looks for devices itself.
func (c gresConf) detects() bool { return c.autoDetect != "" && c.autoDetect != "off" }

// The keys of gres.conf(5), Slurm 22.05 to 26.05.
var gresKeys = []string{
	"autodetect", "count", "cores", "cpus", "file", "flags", "links",
	"multiplefiles", "name", "nodename", "type",
}

// parseGresConf reads the gres.conf called name for one node. Lines without
// NodeName= are for every node. A faulty line is an error only where it is, or
// may be, the node's.
func parseGresConf(name, text, node string) (gresConf, error) {
	var conf gresConf
	otherNodes := false
	for number, line := range logicalLines(text) {
		fields, err := gresFields(line)
		if err != nil {
			return conf, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		list, named := fields["nodename"]
		if named {
			mine, err := hostlist.Has(list, node)
			if err != nil {
				return conf, fmt.Errorf("%s:%d: NodeName: %w", name, number, err)
			}
			if !mine {
				otherNodes = true
				continue
			}
		}
		if err := conf.add(fields, number); err != nil {
			return conf, fmt.Errorf("%s:%d: %w", name, number, err)
		}
	}
	return conf, conf.check(name, node, otherNodes)
}

// check refuses a file that leaves open which device is where.
func (c gresConf) check(name, node string, otherNodes bool) error {
	switch {
	case c.detects() && len(c.devices) > 0 && (c.fileless > 0 || !c.ascending()):
		return fmt.Errorf("%s: AutoDetect=%s beside files that aren't boards of one type in the order of their minors: "+
			"list the positions under gres", name, c.autoDetect)
	case c.detects():
		return nil
	case c.fileless > 0:
		return fmt.Errorf("%s:%d: Name=gpu without File= or MultipleFiles=: nothing says which device is meant", name,
			c.fileless)
	case len(c.devices) > 0:
		return nil
	case otherNodes:
		return fmt.Errorf("%s: no Name=gpu for node %q, only for others; `node` says what Slurm calls this one", name, node)
	}
	return fmt.Errorf("%s: no Name=gpu with File= or MultipleFiles= for node %q", name, node)
}

// ascending says whether the devices are whole boards of one type in the order
// of their minors, which AutoDetect leaves as it is.
func (c gresConf) ascending() bool {
	last := -1
	for _, d := range c.devices {
		digits, ok := strings.CutPrefix(path.Base(d.files[0]), "nvidia")
		minor, err := parseUint32(digits)
		if !ok || err != nil || len(d.files) > 1 || int(minor) <= last {
			return false
		}
		last = int(minor)
	}
	return c.oneKind()
}

// logicalLines is the lines with something in them, comments cut and lines that
// end in a backslash joined, with the number of their first line.
func logicalLines(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		joined, first := "", 0
		for i, line := range strings.Split(text, "\n") {
			line, _, _ = strings.Cut(line, "#")
			line = strings.TrimRight(line, " \t\r")
			if first == 0 {
				first = i + 1
			}
			if before, more := strings.CutSuffix(line, `\`); more {
				joined += before
				continue
			}
			joined = strings.TrimSpace(joined + line)
			if joined != "" && !yield(first, joined) {
				return
			}
			joined, first = "", 0
		}
		if joined = strings.TrimSpace(joined); joined != "" {
			yield(first, joined)
		}
	}
}

func gresFields(line string) (map[string]string, error) {
	fields := map[string]string{}
	for word := range strings.FieldsSeq(line) {
		key, value, found := strings.Cut(word, "=")
		lower := strings.ToLower(key)
		if !found && lower == "include" {
			return nil, fmt.Errorf("%q: files that include others aren't read, list the devices under gres", line)
		}
		if !found || !slices.Contains(gresKeys, lower) {
			return nil, fmt.Errorf("%q: want Key=value with a key of gres.conf, such as Name, Type, File", word)
		}
		if _, twice := fields[lower]; twice {
			return nil, fmt.Errorf("%q: the key is already on this line", word)
		}
		fields[lower] = strings.Trim(value, `"`)
	}
	return fields, nil
}

func (c *gresConf) add(fields map[string]string, line int) error {
	if detect, ok := fields["autodetect"]; ok {
		c.autoDetect = strings.ToLower(detect)
	}
	if fields["name"] != "gpu" {
		return nil
	}
	kind := fields["type"]
	if list, ok := fields["multiplefiles"]; ok {
		files, err := hostlist.Expand(list)
		if err != nil {
			return fmt.Errorf("key MultipleFiles: %w", err)
		}
		c.devices = append(c.devices, confDevice{kind, files, line})
		return nil
	}
	list, ok := fields["file"]
	if !ok {
		c.fileless = line
		return nil
	}
	files, err := hostlist.Expand(list)
	if err != nil {
		return fmt.Errorf("key File: %w", err)
	}
	if count, ok := fields["count"]; ok && count != strconv.Itoa(len(files)) {
		return fmt.Errorf("count=%s: File=%s names %d", count, list, len(files))
	}
	for _, file := range files {
		c.devices = append(c.devices, confDevice{kind, []string{file}, line})
	}
	return nil
}

// order puts the devices in the order of the node's Gres=, as Slurm does: types
// as listed there, an entry without a type takes what is left.
func (c gresConf) order(name string, entries []gresEntry) ([]confDevice, error) {
	left := slices.Clone(c.devices)
	var ordered []confDevice
	for _, e := range entries {
		if e.name != "gpu" {
			continue
		}
		found := 0
		left = slices.DeleteFunc(left, func(d confDevice) bool {
			take := found < int(e.count) && (e.kind == "" || d.kind == "" || e.kind == d.kind)
			if take {
				found++
				ordered = append(ordered, d)
			}
			return take
		})
		if found != int(e.count) {
			return nil, fmt.Errorf("%s: %d devices of Type=%s, slurm.conf's Gres= has %d", name, found, e.kind, e.count)
		}
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("%s:%d: %s of Type=%s is not in the node's Gres= of slurm.conf", name, left[0].line,
			left[0].files[0], left[0].kind)
	}
	return ordered, nil
}

// oneKind says whether all devices have one type, so that the file's order is
// the list's.
func (c gresConf) oneKind() bool {
	return !slices.ContainsFunc(c.devices, func(d confDevice) bool { return d.kind != c.devices[0].kind })
}
