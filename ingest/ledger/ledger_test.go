package ledger

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/tables"
	"github.com/gputally/gputally/internal/tenants"
	"github.com/gputally/gputally/internal/wire"
)

func at(hour int) time.Time { return time.Date(2026, 3, 1, hour, 0, 0, 0, time.UTC) }

func dirtyHours(o *overview) []int {
	var out []int
	for _, h := range o.dirty() {
		out = append(out, int(h.start.Sub(at(0)).Hours()))
	}
	return out
}

// published is what the ledger would hold after a pass over o.
func published(o *overview) []ledgerHour {
	var out []ledgerHour
	for _, h := range o.hours {
		out = append(out, ledgerHour{Hour: h.start, Inputs: h.inputs, UntilMS: h.untilMS, Epoch: h.epoch})
	}
	return out
}

func journalOf(hours int) []journalHour {
	var out []journalHour
	for i := range hours {
		out = append(out, journalHour{Hour: at(i), Stored: 60, Head: 1, Rows: 60, EndMS: at(i + 1).UnixMilli()})
	}
	return out
}

// TestDirtinessIsDerived: an hour rests on the journal from a day before it to
// the gap's reach after it.
func TestDirtinessIsDerived(t *testing.T) {
	epochs := []epoch{{Epoch: 1, Effective: time.Unix(0, 0)}}
	all := journalOf(40)
	clean := published(compareHours(all, nil, epochs, nil, nil, everything))
	for _, c := range []struct {
		name   string
		change func([]journalHour) []journalHour
		epochs []epoch
		want   []int
	}{
		{"nothing new", func(j []journalHour) []journalHour { return j }, epochs, nil},
		{"late in hour 5", func(j []journalHour) []journalHour { j[5].Stored++; return j }, epochs, []int{5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29}},
		{"less in hour 5 than the ledger rests on: no recomputation would win", func(j []journalHour) []journalHour { j[5].Stored--; return j }, epochs, nil},
		{"at the head of hour 38", func(j []journalHour) []journalHour { j[38].Stored++; j[38].Head++; return j }, epochs, []int{37, 38, 39}},
		{"the watermark moves", func(j []journalHour) []journalHour {
			return append(j, journalHour{Hour: at(40), Stored: 1, Rows: 1, EndMS: at(40).UnixMilli() + 10_000})
		}, epochs, []int{40}},
		{"a new epoch from hour 30", func(j []journalHour) []journalHour { return j }, append(epochs[:1:1], epoch{Epoch: 2, Effective: at(30)}), []int{30, 31, 32, 33, 34, 35, 36, 37, 38, 39}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := dirtyHours(compareHours(c.change(append([]journalHour(nil), all...)), clean, c.epochs, nil, nil, everything))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("dirty hours (-want +got):\n%s", diff)
			}
		})
	}
}

// TestM1AnHourThatLacksRowsIsOpen, also where it can't be computed again.
func TestM1AnHourThatLacksRowsIsOpen(t *testing.T) {
	epochs := []epoch{{Epoch: 1, Effective: time.Unix(0, 0)}}
	rows := published(compareHours(journalOf(40), nil, epochs, nil, nil, everything))
	for i := range rows {
		rows[i].Rows, rows[i].Published = 4, 4
	}
	rows[3].Rows, rows[5].Rows = 5, 3
	weeks := RawWeeks{mondayOf(at(0)): {Week: mondayOf(at(0)), State: weekDropped}}
	for _, c := range []struct {
		weeks RawWeeks
		dirty []int
		stale int
	}{{nil, []int{5}, 0}, {weeks, nil, 1}} {
		o := compareHours(journalOf(40), rows, epochs, nil, c.weeks, everything)
		if diff := cmp.Diff(c.dirty, dirtyHours(o)); diff != "" || len(o.stale()) != c.stale {
			t.Errorf("%d stale hours, want %d; dirty ones (-want +got):\n%s", len(o.stale()), c.stale, diff)
		}
		if got := o.closedUntil(at(500), time.Hour); !got.Equal(at(5)) {
			t.Errorf("closed until %s, want %s", got, at(5))
		}
	}
}

// TestHoursBeyondTheJournalAreOrphans: nothing in the journal gives them.
func TestHoursBeyondTheJournalAreOrphans(t *testing.T) {
	epochs := []epoch{{Epoch: 1, Effective: everything}}
	all := journalOf(10)
	ledger := published(compareHours(all, nil, epochs, nil, nil, everything))
	if got := compareHours(all, ledger, epochs, nil, nil, everything).orphans; got != nil {
		t.Errorf("orphans of a whole journal: got %v", got)
	}
	got := compareHours(all[1:9], ledger, epochs, nil, nil, everything).orphans
	if diff := cmp.Diff([]time.Time{at(0), at(9)}, got); diff != "" {
		t.Errorf("orphans (-want +got):\n%s", diff)
	}
	if got := compareHours(nil, ledger, epochs, nil, nil, everything).orphans; len(got) != 10 {
		t.Errorf("orphans without a journal: got %v, want all 10", got)
	}
}

// TestRecentHoursAreJudgedAlike: a pass over the recent hours finds what a
// pass over all finds there.
func TestRecentHoursAreJudgedAlike(t *testing.T) {
	epochs := []epoch{{Epoch: 1, Effective: everything}}
	all := journalOf(60)
	want := compareHours(all, nil, epochs, nil, nil, everything).hours[40:]
	const back = backMS / meter.HourMS
	got := compareHours(all[40-back:], nil, epochs, nil, nil, at(40)).hours
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(hourState{})); diff != "" {
		t.Errorf("hours from 40 on (-want +got):\n%s", diff)
	}
}

// TestWhichHoursAreClosed: from the first one on, each old enough and covering
// the whole journal (R3).
func TestWhichHoursAreClosed(t *testing.T) {
	const closeAfter = 24 * time.Hour
	epochs := []epoch{{Epoch: 1, Effective: everything}}
	all := journalOf(40)
	all[39].EndMS -= 1_800_000 // the newest hour is half over
	clean := published(compareHours(all, nil, epochs, nil, nil, everything))
	late := slices.Clone(all)
	late[20].Stored++
	unseen := slices.Clone(all) // its first hours list no GPU: they have no rows
	unseen[0].Rows, unseen[1].Rows = 0, 0
	for _, c := range []struct {
		name    string
		journal []journalHour
		ledger  []ledgerHour
		now     time.Time
		want    time.Time
	}{
		{"none is old enough", all, clean, at(24), time.Time{}},
		{"the first one is", all, clean, at(25), at(1)},
		{"never computed", all, nil, at(60), time.Time{}},
		{"late data in hour 20", late, clean, at(60), at(20)},
		{"first hours without a GPU", unseen, clean[2:], at(60), at(36)},
		{"up to the newest hour, which may go on", all, clean, at(63), at(39)},
		{"it was the last one: the cluster ended", all, clean, at(64), at(40)},
		{"and so are the hours after it", all, clean, at(100).Add(time.Minute), at(76)},
		{"late data in a cluster that ended", late, clean, at(100), at(20)},
	} {
		if got := compareHours(c.journal, c.ledger, epochs, nil, nil, everything).closedUntil(c.now, closeAfter); !got.Equal(c.want) {
			t.Errorf("%s: closed until %s, want %s", c.name, got, c.want)
		}
	}
}

// TestVersionsOnlyGrow: more journal, a later watermark and a newer epoch each
// beat what was there (R5).
func TestVersionsOnlyGrow(t *testing.T) {
	old := hourState{inputs: 1000, untilMS: 1_800_000, epoch: 3}
	for name, newer := range map[string]hourState{
		"inputs":    {inputs: 1001, untilMS: 1_800_000, epoch: 3},
		"watermark": {inputs: 1000, untilMS: 1_801_000, epoch: 3},
		"epoch":     {inputs: 1, untilMS: 0, epoch: 4},
	} {
		if newer.version() <= old.version() {
			t.Errorf("%s: version %d does not beat %d", name, newer.version(), old.version())
		}
	}
}

func winnersOf(rows ...journalBatch) *winners {
	w := newWinners()
	for _, row := range rows {
		w.add(row)
	}
	w.pick()
	return w
}

func TestWinnersByRankNotByArrival(t *testing.T) {
	row := func(rev, batch uint64, collector string) journalBatch {
		return journalBatch{node: "n", slotMS: at(0).UnixMilli(), rank: wire.Rank{Rev: rev, Collector: collector}, batch: batch, holdRows: 1, observedMS: 10}
	}
	w := winnersOf(row(5, 50, "a"), row(7, 70, "a"), row(7, 71, "b"), row(6, 60, "a"), row(7, 71, "b"))
	if diff := cmp.Diff(map[uint64]rowCount{71: {rows: 1}}, w.expected, cmp.AllowUnexported(rowCount{})); diff != "" {
		t.Errorf("winners (-want +got):\n%s", diff)
	}
	if len(w.nodes["n"]) != 1 || len(w.findings) == 0 {
		t.Errorf("%d slots, findings %v; want one slot and the equal rank told", len(w.nodes["n"]), w.findings)
	}
}

// TestWhoCountsInPlaceOfWhom: of a collector's own batches the later counts, and only
// equal ranks are told; another collector's, once an hour; fills are never told of.
func TestWhoCountsInPlaceOfWhom(t *testing.T) {
	row := func(minute int, rev, batch uint64, collector string) journalBatch {
		at := at(0).Add(time.Duration(minute) * time.Minute).UnixMilli()
		return journalBatch{node: "n", slotMS: at, rank: wire.Rank{Rev: rev, Collector: collector}, batch: batch, holdRows: 1, observedMS: 10}
	}
	for _, c := range []struct {
		name     string
		rows     []journalBatch
		findings []string // a pattern of each
	}{
		{"corrected", []journalBatch{row(0, 5, 50, "a"), row(0, 6, 60, "a")}, nil},
		{"a copy", []journalBatch{row(0, 5, 50, "a"), row(0, 5, 50, "a")}, nil},
		{"of equal rank", []journalBatch{row(0, 5, 50, "a"), row(0, 5, 51, "a")}, []string{"rank 5 for node n, slot 2026-03-01 00:00"}},
		{"by another collector", []journalBatch{row(0, 5, 50, "a"), row(0, 6, 60, "b"), row(1, 5, 51, "a"), row(1, 6, 61, "b")}, []string{`"b".*"a"`}},
		{"before another", []journalBatch{row(0, 6, 60, "b"), row(0, 5, 50, "a")}, []string{`"b".*"a"`}},
		{"in each hour", []journalBatch{row(0, 5, 50, "a"), row(0, 6, 60, "b"), row(60, 5, 51, "a"), row(60, 6, 61, "b")}, []string{"hour 2026-03-01T00:00:00Z", "hour 2026-03-01T01:00:00Z"}},
		{"a fill", []journalBatch{row(0, wire.FillRev, 50, "a"), row(0, 6, 60, "b")}, nil},
		{"two fills", []journalBatch{row(0, wire.FillRev, 50, "a"), row(0, wire.FillRev, 51, "b")}, nil},
	} {
		got := winnersOf(c.rows...).findings
		ok := len(got) == len(c.findings)
		for i := range c.findings {
			ok = ok && regexp.MustCompile(c.findings[i]).MatchString(got[i])
		}
		if !ok {
			t.Errorf("%s: findings %q, want %q", c.name, got, c.findings)
		}
	}
}

// TestJournalsAheadOfTheClock count up to the last slot that is over, and not within
// the gap's reach of an hour's start.
func TestJournalsAheadOfTheClock(t *testing.T) {
	c := clock.NewFake(at(0))
	l := &Ledger{deps: Deps{Clock: c}}
	lab := cluster{Name: "lab", SlotMS: 10_000}
	end := at(2).UnixMilli()
	for now, want := range map[int64]int64{ // by the clock, ms before the journal's end: where it ends
		0: end, 120_000: end, 120_001: end - 130_000, 1_800_000: end - 1_800_000, 1_795_001: end - 1_800_000,
		3_600_000: end - 3_600_000, 3_600_000 - meter.GapMaxMS + 1: end - 3_600_000, 3_600_000 - meter.GapMaxMS: end - 3_600_000 + meter.GapMaxMS,
	} {
		c.Set(time.UnixMilli(end - now))
		journal := []journalHour{{Hour: at(0), EndMS: at(1).UnixMilli()}, {Hour: at(1), EndMS: end}}
		past, ahead := l.past(lab, journal)
		if got := past[len(past)-1].EndMS; ahead != (now > 120_000) || got != want || journal[1].EndMS != end {
			t.Errorf("%d ms before its end the journal ends %d ms before it, ahead %t; want %d", now, end-got, ahead, end-want)
		}
	}
	if past, ahead := l.past(lab, nil); past != nil || ahead {
		t.Errorf("an empty journal is %v, ahead %t", past, ahead)
	}
}

// TestRunsMoved where a GPU that two nodes list was listed otherwise before.
func TestRunsMoved(t *testing.T) {
	hour := at(3).UnixMilli()
	sighting := func(node string, run, last int64) meter.Sighting {
		return meter.Sighting{HourMS: hour, GPU: "g", Node: node, RunFromMS: run, LastMS: last}
	}
	before := []meter.Sighting{sighting("a", 1, 9), sighting("b", 2, 9), {HourMS: hour - 1, GPU: "g", Node: "a", RunFromMS: 7}}
	for name, c := range map[string]struct {
		now  []meter.Sighting
		want bool
	}{
		"as before":        {before[:2], false},
		"another run":      {[]meter.Sighting{sighting("a", 1, 9), sighting("b", 3, 9)}, true},
		"another end":      {[]meter.Sighting{sighting("a", 1, 8), sighting("b", 2, 9)}, true},
		"one node alone":   {[]meter.Sighting{sighting("a", 3, 9)}, false},
		"a node that came": {[]meter.Sighting{sighting("a", 1, 9), sighting("c", 3, 9)}, false},
	} {
		if got := runsMoved(c.now, before, hour); got != c.want {
			t.Errorf("%s: moved %t", name, got)
		}
	}
}

// TestTheNextHourIsQueued: it is put before the queue, unless it leads it, is not there or
// has lost its raw.
func TestTheNextHourIsQueued(t *testing.T) {
	o := &overview{hours: []hourState{{start: at(0)}, {start: at(1)}, {start: at(2), gone: true}}}
	of := func(hours ...int) (queue [][]hourState) {
		for _, h := range hours {
			queue = append(queue, []hourState{{start: at(h)}})
		}
		return queue
	}
	for _, c := range []struct {
		next        int
		queue, want [][]hourState
	}{
		{1, of(), of(1)}, {1, of(1, 5), of(1, 5)}, {1, of(5), of(1, 5)}, {2, of(5), of(5)}, {3, of(), of()},
	} {
		if diff := cmp.Diff(c.want, o.requeue(at(c.next), c.queue), cmp.AllowUnexported(hourState{})); diff != "" {
			t.Errorf("hour %d before %d chunks (-want +got):\n%s", c.next, len(c.queue), diff)
		}
	}
}

// TestRecordsOfASlotAreOne, whatever order the engine delivers them in, and an hour
// sees those that its gaps may reach.
func TestRecordsOfASlotAreOne(t *testing.T) {
	const slot = 10_000
	hour := at(5).UnixMilli()
	reach := []int64{-meter.GapMaxMS - slot, -meter.GapMaxMS - slot + 1, 0, meter.HourMS + meter.GapMaxMS - 1, meter.HourMS + meter.GapMaxMS}
	s := &series{}
	for i := range reach {
		n := (i*3 + 2) % len(reach)
		for leaf := range uint64(2) {
			s.records = append(s.records, meter.Record{StartMS: hour + reach[n], Rows: []meter.Row{{Leaf: leaf}}})
		}
	}
	r := &raw{gpus: map[string]map[string]*series{"g": {"n": s}}}
	r.sort()
	var got []int64
	for _, record := range around(s.records, slot, hour, recordStart) {
		got = append(got, record.StartMS-hour)
		if len(record.Rows) != 2 || record.Rows[0].Leaf != 0 {
			t.Errorf("record at %d has the rows %+v", record.StartMS-hour, record.Rows)
		}
	}
	if diff := cmp.Diff(reach[1:4], got); diff != "" || len(s.records) != len(reach) {
		t.Errorf("%d records, of which the hour sees (-want +got):\n%s", len(s.records), diff)
	}
}

// TestPromisesAreCountedOverAllParts: what is missing is known exactly, too
// few rows and too many.
func TestPromisesAreCountedOverAllParts(t *testing.T) {
	row := func(node string, batch uint64) journalBatch {
		return journalBatch{node: node, slotMS: at(0).UnixMilli(), batch: batch, holdRows: 2}
	}
	w := winnersOf(row("a", 1), row("b", 2), row("c", 3))
	for _, batch := range []uint64{1, 2, 1, 3, 3, 3} {
		if !w.met(batch) {
			t.Errorf("batch %d is a winner and was not taken for one", batch)
		}
	}
	if w.met(4) {
		t.Error("batch 4 is no winner and was taken for one")
	}
	got := w.missing()
	slices.Sort(got)
	want := []string{"batch 0000000000000002 has 1 of 2 rows", "batch 0000000000000003 has 3 of 2 rows"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
}

// TestChunksHoldAtMostTheirRows: hours are cut by the rows that the journal
// promises; an hour of more is alone, and is split.
func TestChunksHoldAtMostTheirRows(t *testing.T) {
	var hours []hourState
	for i, rows := range []uint64{400, 500, 90, 2500, 10, 10, 10} {
		hours = append(hours, hourState{start: at(i), rows: rows, batches: 10})
	}
	var got [][]uint64
	for _, chunk := range chunks(hours, 1000) {
		line := []uint64{partsOf(chunk, 1000)}
		for _, h := range chunk {
			line = append(line, h.rows)
		}
		got = append(got, line)
	}
	want := [][]uint64{{1, 400, 500}, {1, 90}, {3, 2500}, {1, 10, 10, 10}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parts and hours of each chunk (-want +got):\n%s", diff)
	}
}

// TestRowsOfARecordStayTogether: whatever order rows come in, each record has
// its own, and none is written over.
func TestRowsOfARecordStayTogether(t *testing.T) {
	r := &raw{}
	var want, got [7][]uint64
	var records [7][]meter.Row
	for i := range uint64(3 * slabRows) {
		n := (i / 3 * 5) % 7
		want[n] = append(want[n], i)
		records[n] = r.extend(records[n], meter.Row{Leaf: i})
	}
	for n, rows := range records {
		for _, row := range rows {
			got[n] = append(got[n], row.Leaf)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// TestOneLinePerOwnerAndLeaf: uses of one owner on one leaf name are summed in every
// figure, other owners and leaves have lines of their own, in any order.
func TestOneLinePerOwnerAndLeaf(t *testing.T) {
	mapping, err := tenants.Parse("none", nil)
	if err != nil {
		t.Fatal(err)
	}
	d := newDictionary()
	d.leaves[1], d.leaves[2] = tables.Leaf{ID: 1, Leaf: "gpu"}, tables.Leaf{ID: 2, Leaf: "gpu"} // created anew
	d.leaves[3] = tables.Leaf{ID: 3, Leaf: "gi3", Profile: "1g.10gb", Slices: 1}
	d.owners[7] = ownerName{id: "a", facts: meter.Owner{Tenant: "a", Job: "7"}}
	d.owners[8] = ownerName{id: "b", facts: meter.Owner{Tenant: "b", Job: "8"}}
	use := func(leaf, owner uint64, n int64) meter.OwnerUse {
		return meter.OwnerUse{
			Leaf: leaf, Owner: owner, Active: n, Idle: 2 * n, Unproven: 3 * n, Inferred: 4 * n, Work: 5 * n, EnergyMJ: 6 * n,
		}
	}
	row := usageRowOf(at(0), &meter.GPUHour{
		GPU: "g", Slices: 7, Owners: []meter.OwnerUse{use(1, 7, 1), use(1, 8, 10), use(2, 7, 100), use(3, 7, 1000), use(2, 8, 10_000)},
	}, d, mapping)
	got := map[string][]uint64{}
	for i := range row.Owner {
		got[row.Tenant[i]+" "+row.Leaf[i]] = []uint64{
			row.Active[i], row.Idle[i], row.Unproven[i], row.Inferred[i], row.Work[i], uint64(row.EnergyMJ[i]),
		}
	}
	want := map[string][]uint64{}
	for line, n := range map[string]uint64{"a gpu": 101, "b gpu": 10_010, "a gi3": 1000} {
		want[line] = []uint64{n, 2 * n, 3 * n, 4 * n, 5 * n, 6 * n}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if len(row.Owner) != len(want) {
		t.Errorf("%d lines, want %d", len(row.Owner), len(want))
	}
}

// TestClosedUntilToTheMillisecond: an hour closes close_after after its end, and a
// cluster has ended once its watermark is older than that.
func TestClosedUntilToTheMillisecond(t *testing.T) {
	const closeAfter = 72 * time.Hour
	o := &overview{watermarkMS: at(3).UnixMilli(), hours: []hourState{
		{start: at(0), untilMS: meter.HourMS}, {start: at(1), untilMS: meter.HourMS}, {start: at(2), untilMS: 1000},
	}}
	for now, want := range map[time.Time]time.Time{
		at(1).Add(closeAfter - time.Millisecond): {},
		at(1).Add(closeAfter):                    at(1),
		at(3).Add(closeAfter):                    at(2), // its watermark is as old, not older
		at(3).Add(closeAfter + time.Millisecond): at(3),
	} {
		if got := o.closedUntil(now, closeAfter); !got.Equal(want) {
			t.Errorf("at %s closed until %s, want %s", now, got, want)
		}
	}
}
