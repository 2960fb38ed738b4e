package prices

import (
	"cmp"
	"slices"
	"time"

	"github.com/shopspring/decimal"
)

// Change is a fact with different values in two books, and the hours in which they differ: up to a later version in
// which both books have the same value again.
type Change struct {
	Key
	// From (inclusive) and Until (exclusive) are UTC hours. A zero From is the book as a whole: it affects every
	// month. A zero Until is open.
	From, Until time.Time
	// Old and New are the values; nil if the book doesn't have the fact.
	Old, New *string
	// Percent is the increase from Old to New, to one place; empty if one of them is missing, zero or not a number.
	Percent string
	// Past: the change begins before now, so that past hours are priced differently.
	Past bool
}

// Diff returns how the new book's prices differ from the old one's, hour by hour, sorted by the first hour. It
// compares what is in force, so a version that was only split in two is no change.
func Diff(before, after *Book, now time.Time) []Change {
	changes := compare(before.General(), after.General(), time.Time{}, time.Time{})
	instants := instantsOf(before, after)
	open := map[Key]int{}
	for i, from := range instants {
		var until time.Time
		if i+1 < len(instants) {
			until = instants[i+1]
		}
		for _, change := range compare(before.factsAt(from), after.factsAt(from), from, until) {
			at, known := open[change.Key]
			if known && changes[at].goesOn(change) {
				changes[at].Until = until
				continue
			}
			open[change.Key] = len(changes)
			changes = append(changes, change)
		}
	}
	for i := range changes {
		changes[i].Past = changes[i].From.Before(now)
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return a.From.Compare(b.From) })
	return changes
}

// instantsOf are the hours at which one of the books changes, ascending.
func instantsOf(books ...*Book) []time.Time {
	var instants []time.Time
	for _, book := range books {
		for _, version := range book.Versions {
			instants = append(instants, version.Effective)
		}
	}
	slices.SortFunc(instants, time.Time.Compare)
	return slices.CompactFunc(instants, time.Time.Equal)
}

// factsAt are the facts in force at an hour; none before the first version.
func (b *Book) factsAt(hour time.Time) []Fact {
	at := b.At(hour)
	if at < 0 {
		return nil
	}
	return b.Versions[at].Facts()
}

// compare returns the differences, in the order of the new facts, and then the missing ones.
func compare(before, after []Fact, from, until time.Time) []Change {
	old := valuesOf(before)
	var changes []Change
	for _, fact := range after {
		was, known := old[fact.Key]
		delete(old, fact.Key)
		if known && was == fact.Value {
			continue
		}
		change := Change{Key: fact.Key, From: from, Until: until, New: &fact.Value}
		if known {
			change.Old, change.Percent = &was, percent(was, fact.Value)
		}
		changes = append(changes, change)
	}
	for _, fact := range before {
		if _, gone := old[fact.Key]; gone {
			changes = append(changes, Change{Key: fact.Key, From: from, Until: until, Old: &fact.Value})
		}
	}
	rank := map[string]int{KindBook: 0, KindSKU: 1, KindVersion: 2, KindModel: 3, KindTenant: 4}
	slices.SortStableFunc(changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(rank[a.Kind], rank[b.Kind]), cmp.Compare(a.Name, b.Name))
	})
	return changes
}

func valuesOf(facts []Fact) map[Key]string {
	values := make(map[Key]string, len(facts))
	for _, fact := range facts {
		values[fact.Key] = fact.Value
	}
	return values
}

// goesOn returns whether a change in the following hours is the same.
func (c *Change) goesOn(next Change) bool {
	return c.Until.Equal(next.From) && same(c.Old, next.Old) && same(c.New, next.New)
}

func same(a, b *string) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

func percent(before, after string) string {
	old, err := decimal.NewFromString(before)
	if err != nil || old.IsZero() {
		return ""
	}
	value, err := decimal.NewFromString(after)
	if err != nil {
		return ""
	}
	return value.Sub(old).Mul(decimal.NewFromInt(100)).DivRound(old, 1).StringFixed(1)
}
