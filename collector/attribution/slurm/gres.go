package slurm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gputally/gputally/internal/hostlist"
	"github.com/gputally/gputally/internal/plural"
)

// gresEntry is one GRES as scontrol prints it: "gpu:h100:2(IDX:4-5)" of a job or
// of GresUsed=, "gpu:h100:4(S:0-1)" of a node's Gres=.
type gresEntry struct {
	name      string
	kind      string // the type; empty: none
	count     uint32
	positions []uint32 // IDX, if present
}

// parseGres parses a list of them; "(null)" is empty.
func parseGres(list string) ([]gresEntry, error) {
	if list == "" || list == "(null)" {
		return nil, nil
	}
	parts, err := hostlist.Split(list, '(', ')')
	if err != nil {
		return nil, fmt.Errorf("gres %q: %w", list, err)
	}
	var entries []gresEntry
	for _, part := range parts {
		e, err := parseGresEntry(part)
		if err != nil {
			return nil, fmt.Errorf("gres %q: %w", part, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func parseGresEntry(part string) (e gresEntry, err error) {
	head, details, found := strings.Cut(part, "(")
	fields := strings.Split(head, ":")
	last := len(fields) - 1
	if last > 2 || fields[0] == "" {
		return e, fmt.Errorf("want name:type:count")
	}
	e.name, e.count = fields[0], 1 // slurm.conf may omit a count of one
	if !isGPULike(e.name) {
		return e, nil // other GRES, such as nic, may count in units such as 4K
	}
	if last > 0 {
		e.count, err = parseUint32(fields[last])
	}
	switch {
	case last == 1 && err != nil:
		e.kind, e.count = fields[1], 1
	case err != nil:
		return e, fmt.Errorf("count %q: want a number", fields[last])
	case last == 2:
		e.kind = fields[1]
	}
	if !found {
		return e, nil
	}
	list, ok := strings.CutPrefix(strings.TrimSuffix(details, ")"), "IDX:")
	if !ok || list == "" || list == "N/A" {
		return e, nil
	}
	if e.positions, err = hostlist.Numbers(list); err != nil {
		return e, fmt.Errorf("IDX: %w", err)
	}
	return e, nil
}

func isGPULike(name string) bool { return name == "gpu" || isSharing(name) }

// isSharing returns whether a GRES is a share of a GPU: it names a GPU, but not the number of its shares.
func isSharing(name string) bool { return name == "shard" || name == "mps" }

// gpuPositions returns the positions in a list of allocated GRES, sorted.
func gpuPositions(entries []gresEntry) ([]uint32, error) {
	var all []uint32
	for _, e := range entries {
		switch {
		case e.count == 0 || !isGPULike(e.name):
		case isSharing(e.name):
			return nil, fmt.Errorf("gres %s:%d: shares of a GPU can't be read from scontrol; attribute this node from mapping "+
				"files", e.name, e.count)
		case len(e.positions) != int(e.count):
			return nil, fmt.Errorf("gres gpu:%s:%d: IDX has %s: name the devices with File= in the node's gres.conf", e.kind,
				e.count, plural.Of(len(e.positions), "position"))
		default:
			all = append(all, e.positions...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// gpusInUse counts the GPUs of a list of used GRES; known is false if shares are in use, whose number of boards is
// unknown.
func gpusInUse(entries []gresEntry) (n int, known bool) {
	for _, e := range entries {
		if isSharing(e.name) && e.count > 0 {
			return 0, false
		}
		if e.name == "gpu" {
			n += int(e.count)
		}
	}
	return n, true
}
