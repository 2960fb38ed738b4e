package statement

import (
	"fmt"
	"strings"
	"time"

	"github.com/shopspring/decimal"
)

// topView is who used most.
type topView struct {
	Rows []topRow
	// Rest is all that is not among the rows; empty where nothing is.
	Rest *topRow
}

// titledTop is a topView with the words above it.
type titledTop struct {
	Title, Column string
	Top           topView
}

// Titled names the table and its first column.
func (v topView) Titled(title, column string) titledTop { return titledTop{title, column, v} }

type topRow struct {
	Name, More              string
	Hours, Idle, Share, All string // Share is the idle part; All the part of the month
	Bar                     []part
	Path                    string
}

// newTop shows groups by their first value, the second one beside it.
func newTop(groups []group, month hours) topView {
	view := topView{}
	if len(groups) == 0 {
		return view
	}
	rest, greatest := month, groups[0].held()
	for _, g := range groups {
		row := newTopRow(g.hours, month, greatest)
		row.Name = named(g.values[0])
		if len(g.values) > 1 && g.values[1] != "" {
			row.More = visible(g.values[1])
		}
		view.Rows = append(view.Rows, row)
		for i := range rest.by {
			rest.by[i] = rest.by[i].Sub(g.by[i])
		}
	}
	if rest.held().GreaterThan(driftHours) {
		row := newTopRow(rest, month, decimal.Max(greatest, rest.held()))
		row.Name, row.Bar = "All others", nil
		view.Rest = &row
	}
	return view
}

func newTopRow(h, month hours, greatest decimal.Decimal) topRow {
	return topRow{
		Hours: gpuHours(h.held()), Idle: gpuHours(h.of(idle)), Share: percent(h.of(idle), h.held()),
		All: percent(h.held(), month.held()), Bar: rowBar(heldBuckets, h, greatest),
	}
}

// wasteView is idle time, what it cost, and the analyzer's findings.
type wasteView struct {
	Idle, Share, Cost string
	None              bool // no idle time at all
	Sums              []string
	Episodes          []episodeView
	Rest              string
}

type episodeView struct {
	Kind, Tenant, TenantPath, What, Where string
	When, Length, Hours, Cost, Why        string
	Leaves                                string // how many there are, if not one
}

// kindWords are what a finding is called, and several.
var kindWords = map[string][2]string{
	"idle_allocation": {"Idle allocation", "idle allocations"}, "off_hours_spike": {"Off-hours spike", "off-hours spikes"},
}

func newWaste(h hours, b *bill, episodes []episode, sums []episodeSum) wasteView {
	view := wasteView{
		Idle: gpuHours(h.of(idle)), Share: percent(h.of(idle), h.held()), Cost: b.money(b.idleCost()),
		None: !h.of(idle).IsPositive(),
	}
	view.addEpisodes(episodes, sums, b.places, b.zone, "")
	return view
}

func (v *wasteView) addEpisodes(
	episodes []episode, sums []episodeSum, places int32, zone *time.Location, period string,
) {
	count := uint64(0)
	for _, s := range sums {
		count += s.count
		v.Sums = append(v.Sums, fmt.Sprintf("%s of %s GPU-hours", kindCount(s.kind, s.count), gpuHours(s.hours)))
	}
	for _, e := range episodes {
		v.Episodes = append(v.Episodes, e.view(places, zone, period))
		count -= e.leaves
	}
	if count > 0 {
		v.Rest = counted(int(count), "more finding") + " of less cost: see the finance API."
	}
}

func kindName(kind string) string {
	if words, known := kindWords[kind]; known {
		return words[0]
	}
	return visible(kind)
}

func kindCount(kind string, count uint64) string {
	words, known := kindWords[kind]
	switch {
	case !known:
		return fmt.Sprintf("%d of kind %s", count, visible(kind))
	case count == 1:
		return "1 " + strings.ToLower(words[0])
	}
	return fmt.Sprintf("%d %s", count, words[1])
}

// view shows a finding; where period is set, with its tenant.
func (e episode) view(places int32, zone *time.Location, period string) episodeView {
	view := episodeView{
		Kind: kindName(e.kind), What: named(e.workload), When: instant(e.start, zone),
		Length: "for " + number(decimal.NewFromInt(int64(e.end.Sub(e.start)/time.Minute)).DivRound(decimal.NewFromInt(60),
			9), 0) + " h",
		Hours: gpuHours(e.hours), Cost: "no price", Why: visible(e.evidence),
	}
	if e.currency != "" {
		view.Cost = money(e.cost, places, e.currency)
	}
	if e.workload == "" && e.gpu == "" {
		view.What = "the tenant as a whole"
	}
	var where []string
	for _, name := range []string{e.node, e.gpu, e.leaf} {
		if name != "" && (len(where) == 0 || where[len(where)-1] != name) {
			where = append(where, name)
		}
	}
	view.Where = visible(strings.Join(where, " · "))
	if e.leaves > 1 {
		view.Leaves = fmt.Sprintf("%d at once, such as: ", e.leaves)
	}
	if period != "" {
		view.Tenant, view.TenantPath = visible(e.tenant), tenantPath(period, e.tenant)
	}
	return view
}
