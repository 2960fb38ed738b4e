package rating

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	hugeEnergyMJ = 1_000_000_000_000_000 // 278 MWh in an hour
	hugeSliceMS  = 10_000_000_000_000    // thousands of GPUs in an hour
)

// noteRow notes what is particular about a row that a tenant is billed for.
func (s *slowModel) noteRow(m slowMonth, row slowRow) {
	s.note("bucket " + row.Bucket)
	s.note("zone " + m.zone)
	if !slowZones["UTC"].in(m.period, row.Hour) {
		s.note("zone " + m.zone + " apart from UTC")
	}
	if change := m.change(); change != 0 {
		s.note(fmt.Sprintf("zone %s with clocks %+d min", m.zone, change))
	}
	s.noteHour(m, row)
	version := s.book.Versions[row.at]
	switch version.Tenants[row.Tenant].Discount.String() {
	case "0":
		s.note("a discount of 0")
	case "1":
		s.note("a discount of 1")
	}
	for what, is := range map[string]bool{
		"no slice_ms":     row.SliceMS == 0,
		"huge slice_ms":   row.SliceMS > hugeSliceMS,
		"negative energy": row.EnergyMJ < 0,
		"huge energy":     row.EnergyMJ > hugeEnergyMJ,
		"a quantity half-way at nine places, rounded up":   minus(row.q, row.exact).Cmp(times(nano, rat(1, 2))) == 0,
		"a quantity half-way at nine places, rounded down": minus(row.exact, row.q).Cmp(times(nano, rat(1, 2))) == 0,
		"a profile by its price":                           s.profilePrice(row) != nil,
		"a profile by slices":                              row.Profile != "" && s.profilePrice(row) == nil,
		"a book in another zone":                           s.month("") != m,
	} {
		if is {
			s.note(what)
		}
	}
}

// noteHour notes where in its month and version an hour lies.
func (s *slowModel) noteHour(m slowMonth, row slowRow) {
	hours := m.hours()
	next := row.Hour.Add(time.Hour)
	for what, is := range map[string]bool{
		"first hour of a month":              row.Hour.Equal(hours[0]),
		"last hour of a month":               row.Hour.Equal(hours[len(hours)-1]),
		"first hour of a version":            row.Hour.Equal(s.book.Versions[row.at].Effective),
		"last hour of a version":             s.version(next) != row.at,
		"a version within hours of an end":   s.version(row.Hour.Add(-6*time.Hour)) != row.at && row.Hour.Before(hours[6]),
		"a version within hours of the last": s.version(row.Hour.Add(6*time.Hour)) != row.at && row.Hour.After(hours[len(hours)-7]),
	} {
		if is {
			s.note(what)
		}
	}
}

// mustCover is what random cases have to have tried.
func mustCover() []string {
	all := []string{
		"rows of one key", "a threshold hit exactly", "tiers go on in another version", "supply fell short", "supply just enough",
		"supply to spare", "supply of boards with different slices", "a reservation used up", "an invoice without usage",
		"a fixed discount of more than is left", "a total half-way, rounded up", "a total half-way, rounded down",
		"distribution where the months of tenant and platform differ", "several models", "several versions",
		"a pool rounded to nine places", "a pool without owners", "a tie of distribution told by names",
		"bucket active", "bucket idle", "bucket unproven", "a discount of 0", "a discount of 1", "no slice_ms", "huge slice_ms",
		"negative energy", "huge energy", "energy half-way at nine places", "a quantity half-way at nine places, rounded up",
		"a quantity half-way at nine places, rounded down", "a profile by its price", "a profile by slices", "a book in another zone",
		"first hour of a month", "last hour of a month", "first hour of a version", "last hour of a version",
		"a version within hours of an end", "a version within hours of the last", "a month refused",
	}
	for _, effect := range slowEffects {
		all = append(all, "effect "+effect)
	}
	for _, unit := range genMinorUnits {
		all = append(all, fmt.Sprintf("minor unit %d", unit))
	}
	for name, zone := range slowZones {
		all = append(all, "zone "+name)
		if name != "UTC" {
			all = append(all, "zone "+name+" apart from UTC")
		}
		if minutes := zone.summer - zone.standard; zone.begins != nil {
			all = append(all, fmt.Sprintf("zone %s with clocks %+d min", name, minutes), fmt.Sprintf("zone %s with clocks %+d min", name, -minutes))
		}
	}
	slices.Sort(all)
	return all
}

// mergeNotes adds up notes.
func mergeNotes(into, from map[string]int) {
	for what, count := range from {
		into[what] += count
	}
}

// table is notes as text, what was seen least first.
func table(noted map[string]int) string {
	names := slices.Sorted(maps.Keys(noted))
	slices.SortStableFunc(names, func(a, b string) int { return noted[a] - noted[b] })
	text := ""
	for _, name := range names {
		text += fmt.Sprintf("%9d  %s\n", noted[name], name)
	}
	return text
}
