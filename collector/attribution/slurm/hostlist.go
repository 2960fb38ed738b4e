package slurm

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/gputally/gputally/internal/hostlist"
)

// hostlistHas says whether a hostlist names the node.
func hostlistHas(list, node string) (bool, error) {
	names, err := hostlist.Expand(list)
	return slices.Contains(names, node), err
}

// expandPositions is the positions of an IDX list such as "0-2,5".
func expandPositions(list string) ([]uint32, error) {
	numbers, err := hostlist.Numbers(list)
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
