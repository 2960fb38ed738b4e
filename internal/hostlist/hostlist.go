// Package hostlist expands Slurm's host lists: from text such as "n[01-03,7],r[1-2]c[0-3]" to the names in the list's
// order. A short text can denote more names, or longer ones, than any cluster has; such a list is refused before it
// is expanded.
package hostlist

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gputally/gputally/internal/wire"
)

const (
	// MaxNames bounds the names of one list: Slurm's own limit of nodes.
	MaxNames = 1 << 16
	// MaxBytes bounds the size of all names: 64 bytes each on average.
	MaxBytes = MaxNames * 64
	// maxBrackets bounds the ranges in one of its names.
	maxBrackets = 8
	// maxDigits bounds the width of a number.
	maxDigits = 10
)

// Expand returns the names of a list, at least one. None is longer than wire.MaxNameBytes.
func Expand(list string) ([]string, error) {
	parts, err := Split(list, '[', ']')
	if err != nil {
		return nil, fmt.Errorf("expand %.60q: %w", list, err)
	}
	var names []string
	bytes := 0
	for _, part := range parts {
		more, size, err := expand(part, MaxBytes-bytes)
		if err != nil {
			return nil, fmt.Errorf("expand %.60q: %w", list, err)
		}
		bytes += size
		if names = append(names, more...); len(names) > MaxNames {
			return nil, fmt.Errorf("expand %.60q: more than %d names", list, MaxNames)
		}
	}
	return names, nil
}

// Has returns whether a list contains a host.
func Has(list, host string) (bool, error) {
	names, err := Expand(list)
	return slices.Contains(names, host), err
}

// Split splits at the commas outside brackets.
func Split(s string, open, shut rune) ([]string, error) {
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
		if len(parts) > MaxNames {
			return nil, fmt.Errorf("more than %d names", MaxNames)
		}
	}
	if depth != 0 {
		return nil, fmt.Errorf("no closing bracket %q", shut)
	}
	return append(parts, s[start:]), nil
}

// expand returns the names of one part of a list, at most most, and their size in bytes.
func expand(part string, most int) (names []string, bytes int, err error) {
	switch {
	case part == "":
		return nil, 0, errors.New("an empty name")
	case strings.Count(part, "[") > maxBrackets:
		return nil, 0, fmt.Errorf("more than %d ranges in one name", maxBrackets)
	}
	names = []string{""}
	for part != "" {
		before, rest, found := strings.Cut(part, "[")
		numbers, after := []string{""}, ""
		if found {
			var ranges string
			ranges, after, _ = strings.Cut(rest, "]")
			if numbers, err = padded(ranges); err != nil {
				return nil, 0, err
			}
		}
		if len(names)*len(numbers) > MaxNames {
			return nil, 0, fmt.Errorf("more than %d names", MaxNames)
		}
		longer := make([]string, 0, len(names)*len(numbers))
		bytes = 0
		for _, name := range names {
			for _, number := range numbers {
				size := len(name) + len(before) + len(number)
				if bytes += size; size > wire.MaxNameBytes {
					return nil, 0, fmt.Errorf("a name of %d bytes, more than %d", size, wire.MaxNameBytes)
				} else if bytes > most {
					return nil, 0, fmt.Errorf("names of more than %d bytes in all", MaxBytes)
				}
				longer = append(longer, name+before+number)
			}
		}
		names, part = longer, after
	}
	return names, bytes, nil
}

// Numbers returns the numbers of "1-3,007".
func Numbers(ranges string) ([]uint32, error) {
	var numbers []uint32
	err := eachNumber(ranges, func(n uint64, _ int) { numbers = append(numbers, uint32(n)) })
	return numbers, err
}

// padded returns the numbers of "1-3,007", with their leading zeros.
func padded(ranges string) ([]string, error) {
	var numbers []string
	err := eachNumber(ranges, func(n uint64, digits int) { numbers = append(numbers, fmt.Sprintf("%0*d", digits, n)) })
	return numbers, err
}

func eachNumber(ranges string, do func(n uint64, digits int)) error {
	count := 0
	for part := range strings.SplitSeq(ranges, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 32)
		to, err2 := strconv.ParseUint(last, 10, 32)
		if err1 != nil || err2 != nil || to < from || to-from >= MaxNames || len(first) > maxDigits {
			return fmt.Errorf("range %.40q: want numbers of at most %d digits, such as 1-4", part, maxDigits)
		}
		for n := from; n <= to; n++ {
			do(n, len(first))
		}
		if count += int(to - from + 1); count > MaxNames {
			return fmt.Errorf("more than %d numbers", MaxNames)
		}
	}
	return nil
}
