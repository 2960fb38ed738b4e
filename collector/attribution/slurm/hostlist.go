package slurm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxNames bounds what one hostlist expands to: Slurm's own limit of nodes.
const maxNames = 1 << 16

// expandHostlist is the names of a Slurm hostlist such as "n[1-4,07],gpu-a",
// also with several brackets ("r[1-2]n[1-3]"), in the list's order. An expression
// of File= is one too.
func expandHostlist(list string) ([]string, error) {
	parts, err := splitOutside(list, '[', ']')
	if err != nil {
		return nil, fmt.Errorf("expand %q: %w", list, err)
	}
	var names []string
	for _, part := range parts {
		if part == "" {
			return nil, fmt.Errorf("expand %q: an empty name", list)
		}
		more, err := expandName(part)
		if err != nil {
			return nil, fmt.Errorf("expand %q: %w", list, err)
		}
		if names = append(names, more...); len(names) > maxNames {
			return nil, fmt.Errorf("expand %q: more than %d names", list, maxNames)
		}
	}
	return names, nil
}

// hostlistHas says whether a hostlist names the node.
func hostlistHas(list, node string) (bool, error) {
	names, err := expandHostlist(list)
	return slices.Contains(names, node), err
}

// splitOutside splits at the commas that stand in no bracket.
func splitOutside(s string, open, shut rune) ([]string, error) {
	var parts []string
	depth, start := 0, 0
	for i, c := range s {
		switch {
		case c == open:
			depth++
		case c == shut:
			depth--
		case c == ',' && depth == 0:
			parts, start = append(parts, s[start:i]), i+1
		}
		if depth < 0 || depth > 1 {
			return nil, fmt.Errorf("a bracket %q too many", c)
		}
	}
	if depth != 0 {
		return nil, fmt.Errorf("no closing bracket %q", shut)
	}
	return append(parts, s[start:]), nil
}

func expandName(part string) ([]string, error) {
	names := []string{""}
	for part != "" {
		before, rest, found := strings.Cut(part, "[")
		for i := range names {
			names[i] += before
		}
		if !found {
			break
		}
		ranges, after, _ := strings.Cut(rest, "]")
		numbers, err := expandRanges(ranges)
		if err != nil {
			return nil, err
		}
		if len(names)*len(numbers) > maxNames {
			return nil, fmt.Errorf("more than %d names", maxNames)
		}
		longer := make([]string, 0, len(names)*len(numbers))
		for _, name := range names {
			for _, number := range numbers {
				longer = append(longer, name+number)
			}
		}
		names, part = longer, after
	}
	return names, nil
}

// expandRanges is the numbers of "1-3,007", which keep their leading zeros.
func expandRanges(ranges string) ([]string, error) {
	var numbers []string
	for part := range strings.SplitSeq(ranges, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("range %q: want numbers such as 1-4", part)
		}
		to, err := strconv.ParseUint(last, 10, 32)
		if err != nil || to < from || to-from >= maxNames {
			return nil, fmt.Errorf("range %q: want numbers such as 1-4", part)
		}
		for n := from; n <= to; n++ {
			numbers = append(numbers, fmt.Sprintf("%0*d", len(first), n))
		}
		if len(numbers) > maxNames {
			return nil, fmt.Errorf("more than %d numbers", maxNames)
		}
	}
	return numbers, nil
}

// expandPositions is the positions of an IDX list such as "0-2,5".
func expandPositions(list string) ([]uint32, error) {
	numbers, err := expandRanges(list)
	if err != nil {
		return nil, err
	}
	positions := make([]uint32, len(numbers))
	for i, number := range numbers {
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("position %q: %w", number, err)
		}
		positions[i] = uint32(n)
	}
	return positions, nil
}
