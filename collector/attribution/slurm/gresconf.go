package slurm

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/gputally/gputally/internal/hostlist"
	"github.com/gputally/gputally/internal/plural"
)

// maxGresConfBytes bounds gres.conf: ten thousand nodes with a line each.
const maxGresConfBytes = 4 << 20

// confDevice is one gpu of gres.conf: a file, or several with MultipleFiles.
type confDevice struct {
	kind  string // Type=
	files []string
	line  int
}

// gresConf has the gpus of one node in gres.conf, in the file's order.
type gresConf struct {
	devices    []confDevice
	autoDetect string // in lower case; empty: missing
	fileless   int    // a line with gpus and no file; 0: none
}

// detects returns whether slurmd detects devices itself.
func (c gresConf) detects() bool { return c.autoDetect != "" && c.autoDetect != "off" }

// The keys of gres.conf(5), Slurm 22.05 to 26.05.
var gresKeys = []string{
	"autodetect", "count", "cores", "cpus", "file", "flags", "links",
	"multiplefiles", "name", "nodename", "type",
}

// parseGresConf parses a gres.conf for one node; name is the file's name in errors. Lines without NodeName= are for
// every node. An invalid line is an error only if it is, or may be, for the node.
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

// check refuses a file that doesn't determine the position of each device.
func (c gresConf) check(name, node string, otherNodes bool) error {
	switch {
	case c.detects() && len(c.devices) > 0 && (c.fileless > 0 || !c.ascending()):
		return fmt.Errorf("%s: AutoDetect=%s with files that aren't GPUs of one type in the order of their minor numbers: "+
			"list the positions under gres", name, c.autoDetect)
	case c.detects():
		return nil
	case c.fileless > 0:
		return fmt.Errorf("%s:%d: Name=gpu without File= or MultipleFiles=: the device is unknown", name,
			c.fileless)
	case len(c.devices) > 0:
		return nil
	case otherNodes:
		return fmt.Errorf("%s: no Name=gpu for node %q, only for others; set `node` to Slurm's name of this node", name, node)
	}
	return fmt.Errorf("%s: no Name=gpu with File= or MultipleFiles= for node %q", name, node)
}

// ascending returns whether the devices are whole boards of one type in the order of their minors, which AutoDetect
// keeps.
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

// logicalLines yields the non-empty lines, without comments, and with lines joined that end in a backslash, with the
// number of their first line.
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
			return nil, fmt.Errorf("%q: include is not supported: list the devices under gres", line)
		}
		if !found || !slices.Contains(gresKeys, lower) {
			return nil, fmt.Errorf("%q: want Key=value with a key of gres.conf, such as Name, Type, File", word)
		}
		if _, twice := fields[lower]; twice {
			return nil, fmt.Errorf("%q: the key is repeated on this line", word)
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
		return fmt.Errorf("count=%s: File=%s names %s", count, list, plural.Of(len(files), "device"))
	}
	for _, file := range files {
		c.devices = append(c.devices, confDevice{kind, []string{file}, line})
	}
	return nil
}

// order sorts the devices by the node's Gres=, as Slurm does: types in its order; an entry without a type takes the
// rest.
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
			return nil, fmt.Errorf("%s: %d devices of Type=%s, but Gres= of slurm.conf has %d", name, found, e.kind, e.count)
		}
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("%s:%d: %s of Type=%s is not in the node's Gres= of slurm.conf", name, left[0].line,
			left[0].files[0], left[0].kind)
	}
	return ordered, nil
}

// oneKind returns whether all devices have one type, so that the file's order is the list's.
func (c gresConf) oneKind() bool {
	return !slices.ContainsFunc(c.devices, func(d confDevice) bool { return d.kind != c.devices[0].kind })
}
