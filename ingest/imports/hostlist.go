package imports

import (
	"fmt"
	"strconv"
	"strings"
)

// maxHosts bounds what a hostlist may stand for.
const maxHosts = 65_536

// maxBrackets bounds the ranges in one of its names.
const maxBrackets = 8

// maxDigits bounds the width of a number in it.
const maxDigits = 10

// expandHosts reads Slurm's hostlist: "n[01-03,07],gpu5,r[1-2]c[0-3]".
func expandHosts(list string) ([]string, error) {
	var out []string
	for _, part := range splitOutside(list) {
		if strings.Count(part, "[") > maxBrackets {
			return nil, fmt.Errorf("node list %q: more than %d ranges in one name", list, maxBrackets)
		}
		hosts, err := expandHost(part)
		if err != nil {
			return nil, fmt.Errorf("node list %q: %w", list, err)
		}
		if out = append(out, hosts...); len(out) > maxHosts {
			return nil, fmt.Errorf("node list %q: more than %d nodes", list, maxHosts)
		}
	}
	return out, nil
}

// splitOutside cuts at commas outside of brackets.
func splitOutside(list string) []string {
	var out []string
	depth, from := 0, 0
	for i, c := range list {
		switch {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == ',' && depth == 0:
			out, from = append(out, list[from:i]), i+1
		}
	}
	return append(out, list[from:])
}

func expandHost(part string) ([]string, error) {
	before, rest, bracket := strings.Cut(part, "[")
	if !bracket {
		if part == "" || strings.Contains(part, "]") {
			return nil, fmt.Errorf("%q is no node", part)
		}
		return []string{part}, nil
	}
	ranges, after, closed := strings.Cut(rest, "]")
	if !closed {
		return nil, fmt.Errorf("%q has a bracket that isn't closed", part)
	}
	tails := []string{""}
	if after != "" {
		var err error
		if tails, err = expandHost(after); err != nil {
			return nil, err
		}
	}
	var out []string
	for r := range strings.SplitSeq(ranges, ",") {
		numbers, err := expandRange(r)
		if err != nil {
			return nil, err
		}
		if len(out)+len(numbers)*len(tails) > maxHosts {
			return nil, fmt.Errorf("more than %d nodes", maxHosts)
		}
		for _, n := range numbers {
			for _, tail := range tails {
				out = append(out, before+n+tail)
			}
		}
	}
	return out, nil
}

// expandRange reads "7" or "08-11"; the width of the first number stays.
func expandRange(text string) ([]string, error) {
	low, high, ranged := strings.Cut(text, "-")
	if !ranged {
		high = low
	}
	from, err1 := strconv.ParseUint(low, 10, 32)
	to, err2 := strconv.ParseUint(high, 10, 32)
	if err1 != nil || err2 != nil || from > to || to-from >= maxHosts || len(low) > maxDigits {
		return nil, fmt.Errorf("%q is no range of numbers", text)
	}
	out := make([]string, 0, to-from+1)
	for n := from; n <= to; n++ {
		out = append(out, fmt.Sprintf("%0*d", len(low), n))
	}
	return out, nil
}
