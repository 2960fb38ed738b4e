package e2e

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/billing"
	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/wire"
)

// expectFailures holds verify to fail exactly in the checks of want, and each
// finding to say all of its words.
func expectFailures(t *testing.T, data string, want map[string][]string) {
	t.Helper()
	r := programtest.VerifyLedger(t, data)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), r.Failed()); diff != "" || r.Code != cli.ExitFailed {
		t.Errorf("verify: code %d, failed checks (-want +got):\n%s%+v", r.Code, diff, r.Checks)
	}
	for name, words := range want {
		for _, word := range words {
			if !strings.Contains(r.Findings(name), word) {
				t.Errorf("%s: got %q, want %q in it", name, r.Findings(name), word)
			}
		}
	}
}

// Statements behind gputally's back. Each waits for its mutation.
const (
	deleteRawRow = `
ALTER TABLE holds DELETE WHERE node = 'n1' AND gpu = 'GPU-n1-0' AND slot = '` + programtest.TamperedAt + `' SETTINGS mutations_sync = 2`
	deleteAllRaw     = `ALTER TABLE holds DELETE WHERE 1 SETTINGS mutations_sync = 2`
	changeRawEnergy  = `ALTER TABLE holds UPDATE energy_mj = energy_mj + 1 WHERE node = 'n1' AND gpu = 'GPU-n1-0' AND slot = '` + programtest.TamperedAt + `' SETTINGS mutations_sync = 2`
	changeRawBucket  = `ALTER TABLE holds UPDATE slice_ms = slice_ms - 1 WHERE node = 'n1' AND gpu = 'GPU-n1-0' AND slot = '` + programtest.TamperedAt + `' SETTINGS mutations_sync = 2`
	ofHour           = ` WHERE gpu = 'GPU-n1-0' AND hour = '2026-03-01 01:00:00' SETTINGS mutations_sync = 2`
	ofCutHour        = ` WHERE gpu = 'GPU-n1-1' AND hour = '2026-03-01 01:00:00' SETTINGS mutations_sync = 2`
	addMillisecond   = `ALTER TABLE usage_hourly UPDATE active = arrayMap(x -> x + 1, active)` + ofHour
	dropMillisecond  = `ALTER TABLE usage_hourly UPDATE free = free - 1` + ofCutHour
	activeToIdle     = `ALTER TABLE usage_hourly UPDATE active = arrayMap(x -> x - 1, active), idle = arrayMap(x -> x + 1, idle)` + ofHour
	freeToStranded   = `ALTER TABLE usage_hourly UPDATE free = free - 1, stranded = stranded + 1` + ofCutHour
	otherTenant      = `ALTER TABLE usage_hourly UPDATE tenant = arrayMap(x -> 'team-z', tenant)` + ofHour
	changeEnergy     = `ALTER TABLE usage_hourly UPDATE energy_mj = arrayMap(x -> x + 1, energy_mj)` + ofHour
	shiftEnergy      = `ALTER TABLE usage_hourly UPDATE energy_mj = arrayMap(x -> x - 1, energy_mj), platform_energy_mj = platform_energy_mj + 1` + ofHour
	deleteUsage      = `ALTER TABLE usage_hourly DELETE` + ofHour
	smallerCapacity  = `ALTER TABLE usage_hourly UPDATE slices = 1, free = 0, stranded = 0, active = arrayMap(x -> toUInt64(3600000), active), idle = arrayMap(x -> toUInt64(0), idle)` + ofHour
	wholeHour        = ` WHERE hour = '2026-03-01 01:00:00' SETTINGS mutations_sync = 2`
	moreInputs       = `ALTER TABLE usage_hourly UPDATE active = arrayMap(x -> x - 1, active), idle = arrayMap(x -> x + 1, idle), inputs = inputs + 1` + wholeHour
	doubleOwner      = `ALTER TABLE usage_hourly UPDATE leaf = arrayConcat(leaf, leaf), profile = arrayConcat(profile, profile), profile_slices = arrayConcat(profile_slices, profile_slices), owner = arrayConcat(owner, owner), tenant = arrayConcat(tenant, tenant), project = arrayConcat(project, project), user = arrayConcat(user, user), workload = arrayConcat(workload, workload), active = arrayConcat(active, arrayMap(x -> toUInt64(0), active)), idle = arrayConcat(idle, arrayMap(x -> toUInt64(0), idle)), unproven = arrayConcat(unproven, arrayMap(x -> toUInt64(0), unproven)), inferred = arrayConcat(inferred, arrayMap(x -> toUInt64(0), inferred)), work = arrayConcat(work, arrayMap(x -> toUInt64(0), work)), energy_mj = arrayConcat(energy_mj, arrayMap(x -> toInt64(0), energy_mj))` + ofHour
	deleteJournalRow = `ALTER TABLE batches DELETE WHERE node = 'n1' AND slot = '` + programtest.TamperedAt +
		`' SETTINGS mutations_sync = 2`
	deleteFirstRow = `ALTER TABLE batches DELETE WHERE offset = 0 SETTINGS mutations_sync = 2`
	deleteJournal  = `ALTER TABLE batches DELETE WHERE 1 SETTINGS mutations_sync = 2`

	// Rows that nobody measured: a GPU twice, and GPU-hours out of thin air.
	fromHour     = ` FROM (SELECT * FROM usage_hourly FINAL WHERE gpu = 'GPU-n1-0' AND hour = '2026-03-01 01:00:00')`
	otherCluster = `INSERT INTO usage_hourly SELECT * REPLACE ('other' AS cluster)` + fromHour
	inventedGPU  = `INSERT INTO usage_hourly SELECT * REPLACE ('GPU-ghost' AS gpu)` + fromHour
	newerVersion = `INSERT INTO usage_hourly SELECT * REPLACE (version + 4096 AS version, inputs + 1 AS inputs, arrayMap(x -> x - 1, active) AS active, arrayMap(x -> x + 1, idle) AS idle)` + fromHour
	inventedHour = `INSERT INTO usage_hourly SELECT * REPLACE (toDateTime('2026-03-02 01:00:00', 'UTC') AS hour)` + fromHour
	inventedHome = `INSERT INTO usage_hourly SELECT * REPLACE ('ghost' AS cluster, 'GPU-ghost' AS gpu)` + fromHour
)

const (
	tamperedGPU  = "GPU GPU-n1-0, hour 2026-03-01T01:00:00Z"
	tamperedMIG  = "GPU GPU-n1-1, hour 2026-03-01T01:00:00Z"
	tamperedSlot = "node n1, slot " + programtest.TamperedAt
)

// tamperings are what verify has to see, each with all checks that fail and
// what they say.
var tamperings = map[string]struct {
	statement string
	want      map[string][]string
}{
	"a raw row is gone": {
		deleteRawRow,
		map[string][]string{
			"C3": {tamperedSlot, "1 batch with a wrong number of raw rows"}, "C6": {"has 3 of 4 rows"},
			"C9": {"GPU-n1-0"},
		},
	},
	"all raw rows are gone": {
		deleteAllRaw,
		map[string][]string{"C3": {"360 batches with a wrong number of raw rows"}, "C6": {"batch"}},
	},
	"a raw row has other energy": {
		changeRawEnergy,
		map[string][]string{"C3": {"another energy", "changed after"}, "C6": {tamperedGPU, "energy_mj"}, "C9": {"GPU-n1-0"}},
	},
	"a raw row has other time": {
		changeRawBucket,
		map[string][]string{"C3": {"of node n1, slot 2026-03-01 01:30:00"}, "C6": {tamperedGPU}},
	},
	"one ms more than there was": {
		addMillisecond,
		map[string][]string{"C6": {tamperedGPU, "active is [12600001]", "don't sum"}, "C7": {"C7b"}, "C8": {"C7b"}},
	},
	"one ms less than there was": {
		dropMillisecond,
		map[string][]string{"C6": {tamperedMIG, "free is 7199999", "don't sum"}, "C7": {"C7b"}, "C8": {"C7b"}},
	},
	"a ms moved from active to idle":   {activeToIdle, map[string][]string{"C6": {tamperedGPU, "active is [12599999]"}}},
	"a ms moved from free to stranded": {freeToStranded, map[string][]string{"C6": {tamperedMIG, "free is 7199999"}}},
	"another tenant pays":              {otherTenant, map[string][]string{"C6": {tamperedGPU, "tenant is [team-z]"}}},
	"a mJ more than there was": {
		changeEnergy,
		map[string][]string{"C6": {tamperedGPU, "energy_mj"}, "C9": {"GPU-n1-0"}},
	},
	"a mJ moved to the platform": {shiftEnergy, map[string][]string{"C6": {tamperedGPU, "platform_energy_mj"}}},
	"a GPU has fewer slices":     {smallerCapacity, map[string][]string{"C6": {tamperedGPU, "slices is 1"}}},
	"rows claim more inputs":     {moreInputs, map[string][]string{"C6": {tamperedGPU, tamperedMIG}}},
	"rows claim a newer version": {newerVersion, map[string][]string{"C6": {tamperedGPU}}},
	"an owner stands twice": {
		doubleOwner,
		map[string][]string{"C5": {"two entries for one leaf and owner"}, "C6": {tamperedGPU}},
	},
	"a GPU-hour stands twice": {
		otherCluster,
		map[string][]string{"C5": {"13 rows for 12 GPU-hours"}, "C6": {"other"}},
	},
	"a GPU that nobody measured":     {inventedGPU, map[string][]string{"C6": {"GPU-ghost", "raw gives none"}}},
	"an hour that nobody measured":   {inventedHour, map[string][]string{"C6": {"2026-03-02T01:00:00Z"}}},
	"a cluster that nobody measured": {inventedHome, map[string][]string{"C6": {"ghost"}}},
	"a journal row is gone": {
		deleteJournalRow,
		map[string][]string{
			"C3": {"from offset 0 to 179, but has rows for only 179"},
			"C4": {"collector c1, boot 1000", "are missing and weren't announced"}, "C6": {tamperedGPU, tamperedMIG},
			"C9": {"2026-03-01 01:00:00 GPU-n1"},
		},
	},
	"the first journal rows are gone": {
		deleteFirstRow,
		map[string][]string{
			"C3": {"from offset 0 on, but the journal begins with offset 1"},
			"C6": {"hour 2026-03-01T00:00:00Z"},
			"C9": {"GPU-n"},
		},
	},
	"the journal is gone": {
		deleteJournal,
		map[string][]string{
			"C3": {"the journal has no offset from 0 on"},
			"C6": {"cluster fleet, hour 2026-03-01T02:00:00Z: the ledger has rows"},
		},
	},
}

func TestVerifySeesTampering(t *testing.T) {
	data := programtest.NewFleet(t)
	programtest.MustVerify(t, data)
	for _, name := range programtest.SomeOf(t, slices.Sorted(maps.Keys(tamperings))) {
		tampered := tamperings[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mine := programtest.CopyOf(t, data)
			programtest.Alter(t, mine, tampered.statement)
			expectFailures(t, mine, tampered.want)
		})
	}
}

// TestCopiesOfMessagesChangeNothing sends a thousand messages again that are in
// the topic already.
func TestCopiesOfMessagesChangeNothing(t *testing.T) {
	data := programtest.NewFleet(t)
	before, checks := programtest.UsageCSV(t, data), programtest.MustVerify(t, data).Checks
	sent := programtest.ReadTopic(t, data, broker.TopicSamples)
	if want := programtest.FleetHours * 60 * 2; len(sent) != want {
		t.Fatalf("topic: got %d messages, want %d", len(sent), want)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	copies := make([]broker.Message, 1000)
	for i := range copies {
		m := sent[rng.IntN(len(sent))]
		copies[i] = broker.Message{Topic: m.Topic, Key: m.Key, Value: m.Value, Headers: m.Headers}
	}
	programtest.Produce(t, data, copies)
	if diff := cmp.Diff(before, programtest.UsageCSV(t, data)); diff != "" {
		t.Errorf("usage (-before +after):\n%s", diff)
	}
	after := programtest.MustVerify(t, data).Checks
	if got, want := after["C3"].Checked, int64(len(sent)+len(copies)); got != want {
		t.Errorf("journal: got %d offsets, want %d", got, want)
	}
	for _, name := range []string{"C5", "C6", "C7", "C8", "C9"} {
		if diff := cmp.Diff(checks[name], after[name]); diff != "" && name != "C5" {
			t.Errorf("%s (-before +after):\n%s", name, diff)
		}
	}
}

func without(batches []*wire.Batch, i int) []*wire.Batch {
	return slices.Delete(slices.Clone(batches), i, i+1)
}

// TestM1ADeletedHourComesBack with the next pass, which verify makes too.
func TestM1ADeletedHourComesBack(t *testing.T) {
	data := programtest.NewFleet(t)
	before := programtest.UsageCSV(t, data)
	programtest.Alter(t, data, deleteUsage)
	if after := programtest.UsageCSV(t, data); after == before {
		t.Fatal("nothing was deleted")
	}
	programtest.MustVerify(t, data)
	if diff := cmp.Diff(before, programtest.UsageCSV(t, data)); diff != "" {
		t.Errorf("usage (-before +after):\n%s", diff)
	}
}

// TestM1WhatAnInsiderRewritesIsNamed: rows that a person behind ClickHouse
// changes, so that the ledger itself computes another bill of them.
func TestM1WhatAnInsiderRewritesIsNamed(t *testing.T) {
	data := programtest.NewFleet(t)
	const wait = " SETTINGS mutations_sync = 2"
	recompute := "ALTER TABLE usage_hourly DELETE WHERE 1" + wait
	// All of a node's hour but its first slot.
	ofLate := " WHERE node = 'n1' AND slot > '2026-03-01 01:00:00' AND slot < '2026-03-01 02:00:00'" + wait
	lateHour := []string{
		"ALTER TABLE batches UPDATE status = 'late', reason = 'raw_dropped'" + ofLate,
		"ALTER TABLE holds DELETE" + ofLate,
	}
	rewrites := map[string]struct {
		statements []string
		sample     string
		want       []string
	}{
		"an owner's namespace": {
			[]string{"ALTER TABLE owners UPDATE namespace = 'team-b' WHERE namespace = 'team-a'" + wait, recompute},
			"0",
			[]string{"owner", "team-b"},
		},
		"a leaf's size": {[]string{
			"ALTER TABLE leaves UPDATE slices = 1 WHERE profile = '3g.40gb'" + wait,
			recompute,
		}, "0", []string{"leaf", "3g.40gb"}},
		"who held": {
			[]string{"ALTER TABLE holds UPDATE work = 0 WHERE node = 'n1'" + wait, recompute},
			"0",
			[]string{"of node n1", "changed after"},
		},
		"what was seen of a slot": {[]string{
			"ALTER TABLE batches UPDATE observed = [0, 1000] WHERE node = 'n1'" + wait,
			recompute,
		}, "0", []string{"of node n1", "changed after"}},
		"a batch's hash": {
			[]string{"ALTER TABLE batches UPDATE hash = unhex(repeat('0f', 32)) WHERE node = 'n1'" + wait},
			"0",
			[]string{"its batch id is not derived from its hash"},
		},
		"a batch's journal and rows": {[]string{
			"ALTER TABLE batches DELETE WHERE node = 'n1'" + wait,
			"ALTER TABLE holds DELETE WHERE node = 'n1'" + wait, recompute,
		}, "0", []string{"journal"}},
		"rows, and their seals too": {[]string{
			"ALTER TABLE holds UPDATE work = 0 WHERE node = 'n1'" + wait,
			"ALTER TABLE batches UPDATE seal = unhex(repeat('00', 16)) WHERE node = 'n1'" + wait, recompute,
		}, "1000", []string{"of node n1", "differ from what the message gives"}},
		"when it came": {
			[]string{"ALTER TABLE batches UPDATE appended_at = appended_at - 1 WHERE node = 'n1'" + wait},
			"0",
			[]string{"of node n1", "changed after"},
		},
		"a gap, and what it hides": {[]string{
			"ALTER TABLE batches UPDATE gap_boot = [1000], gap_from = [30], gap_to = [30] WHERE node = 'n1' AND slot = " +
				"'2026-03-01 00:31:00'" + wait,
		}, "0", []string{"of node n1, slot 2026-03-01 00:31:00", "changed after"}},
		"what a collector counted": {
			[]string{"ALTER TABLE batches UPDATE counted = 1, sampled = 1, spooled = 1 WHERE node = 'n1'" + wait},
			"0",
			[]string{"changed after"},
		},
		"an hour that is late": {
			slices.Concat(lateHour, []string{recompute}), "0",
			[]string{"node n1", "changed after", "missing from late_unprocessed", "was not dropped"},
		},
		"an hour that is late, and its seals too": {slices.Concat(lateHour, []string{
			"ALTER TABLE batches UPDATE seal = unhex(repeat('00', 16)) WHERE status = 'late'" + wait, recompute,
		}), "0", []string{"missing from late_unprocessed", "was not dropped"}},
		"late messages that are kept, and their seals too": {slices.Concat(lateHour, []string{
			"ALTER TABLE batches UPDATE seal = unhex(repeat('00', 16)), energy_mj = 0 WHERE status = 'late'" + wait, recompute,
			"INSERT INTO late_unprocessed SELECT topic, partition, offset, 'raw_dropped', cluster, node, slot, hash, '', " +
				"now64(3) FROM batches WHERE status = 'late'",
			"INSERT INTO raw_weeks (week, state) SELECT toMonday(slot), 1 FROM batches WHERE status = 'late' LIMIT 1",
		}), "1000", []string{"differ from what the message gives"}},
		"dead messages, and their seals too": {[]string{
			"ALTER TABLE batches UPDATE status = 'dead', reason = 'late', seal = unhex(repeat('00', 16)) WHERE node = " +
				"'n1'" + wait,
			"ALTER TABLE holds DELETE WHERE node = 'n1'" + wait, recompute,
		}, "1000", []string{"dead in the journal"}},
		"offsets that another row stands for, and their seals too": {[]string{
			"ALTER TABLE batches DELETE WHERE offset BETWEEN 20 AND 40" + wait,
			"ALTER TABLE batches UPDATE status = 'dead', gap_to = [40], seal = unhex(repeat('00', 16)) WHERE offset = 19" +
				wait, recompute,
		}, "1000", []string{"the journal has no row for it"}},
		"a message that counts no more": {
			[]string{
				"ALTER TABLE batches UPDATE status = 'hole', seal = unhex(repeat('00', 16)) WHERE node = 'n1'" + wait,
				recompute,
			}, "1000", []string{"but the topic still has it"},
		},
	}
	for _, name := range programtest.SomeOf(t, slices.Sorted(maps.Keys(rewrites))) {
		c := rewrites[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mine := programtest.CopyOf(t, data)
			programtest.Alter(t, mine, c.statements...)
			got := programtest.Invoke(t, "verify", "--data", mine, "--sample", c.sample, "--output", "json")
			if got.Code != cli.ExitFailed {
				t.Errorf("verify: got %+v, want a check that fails", got)
			}
			for _, word := range c.want {
				if !strings.Contains(got.Stdout, word) {
					t.Errorf("verify says %s, want %q in it", got.Stdout, word)
				}
			}
		})
	}
}

// TestM1BatchesFromBeforeSealsAreCounted: they are no failure, and replay seals them.
func TestM1BatchesFromBeforeSealsAreCounted(t *testing.T) {
	data := programtest.NewFleet(t)
	programtest.Alter(t, data,
		"ALTER TABLE batches UPDATE seal = unhex(repeat('00', 16)) WHERE node = 'n1' SETTINGS mutations_sync = 2")
	for _, want := range []string{
		"180 journal rows match their seals; 180 have no seal",
		"200 of 360 messages in the topic",
	} {
		if r := programtest.VerifyLedger(t, data); r.Code != cli.ExitOK || !strings.Contains(r.Checks["C3"].Figures, want) {
			t.Errorf("verify: code %d, C3 %+v, want %q", r.Code, r.Checks["C3"], want)
		}
	}
	if got := programtest.Invoke(t, "replay", "--data", data, "--from-time", "2020-01-01"); got.Code != cli.ExitOK {
		t.Fatalf("replay: got %+v", got)
	}
	if r := programtest.VerifyLedger(t, data); r.Code != cli.ExitOK || !strings.Contains(r.Checks["C3"].Figures,
		"360 journal rows match their seals;") {
		t.Errorf("after a replay: code %d, C3 %+v", r.Code, r.Checks["C3"])
	}
}

// TestVerifySeesWhatCollectorsLost sends boots that contradict themselves.
func TestVerifySeesWhatCollectorsLost(t *testing.T) {
	data := programtest.NewFleet(t)
	programtest.OpenRun(t, data, "counted", "1m")
	announce := func(i int, b *wire.Batch) {
		if i == 4 {
			b.Gaps = []*wire.SeqGap{{FromSeq: 2, ToSeq: 2, Reason: "full"}}
		}
	}
	second := func(change func(b *wire.Batch)) []*wire.Batch {
		return slices.Concat(programtest.BootOf(1000, 5, nil), programtest.BootOf(1100, 2, func(i int, b *wire.Batch) {
			if i == 0 {
				change(b)
			}
		}))
	}
	cases := map[string]struct {
		batches []*wire.Batch
		want    map[string][]string
	}{
		"nothing":              {second(func(*wire.Batch) {}), nil},
		"an announced message": {without(programtest.BootOf(1000, 5, announce), 2), nil},
		"a message": {
			without(programtest.BootOf(1000, 5, nil), 2),
			map[string][]string{"C4": {"collector c9, boot 1000", "sequence numbers 2 to 2"}},
		},
		"the first message": {
			without(programtest.BootOf(1000, 5, nil), 0),
			map[string][]string{"C4": {"collector c9, boot 1000", "sequence numbers 0 to 0"}},
		},
		"the end of a boot": {
			second(func(b *wire.Batch) { b.Predecessor.LastSeq = 6 }),
			map[string][]string{"C4": {"collector c9, boot 1000", "sequence numbers 5 to 6"}},
		},
		"a whole boot": {
			second(func(b *wire.Batch) { b.Predecessor.BootMs = 1050 }),
			map[string][]string{"C4": {"collector c9, boot 1050", "sequence numbers 0 to 4"}},
		},
		"a sample": {
			programtest.BootOf(1000, 5, func(i int, b *wire.Batch) { b.Counters.Sampled += uint64(i / 4) }),
			map[string][]string{"C1": {"collector c9, boot 1000: 1 batch with counters that don't add up"}},
		},
		"a spooled batch": {
			programtest.BootOf(1000, 5, func(_ int, b *wire.Batch) {
				b.Collector, b.Counters.Sampled, b.Counters.Spooled = app.ImportSpool, 1_000_000, 1_000_000
			}),
			map[string][]string{"C2": {"spool of import: its batches report 1000000 spooled records, but only 360 were " +
				"appended"}},
		},
	}
	for _, name := range programtest.SomeOf(t, slices.Sorted(maps.Keys(cases))) {
		c := cases[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mine := programtest.CopyOf(t, data)
			programtest.Produce(t, mine, programtest.MessagesOf(t, c.batches...))
			if c.want == nil {
				programtest.MustVerify(t, mine)
				return
			}
			expectFailures(t, mine, c.want)
		})
	}
}

// TestImportEndsWhereTheJournalLostRows: hours that claim more of the journal
// than there is are not recomputed for ever.
func TestImportEndsWhereTheJournalLostRows(t *testing.T) {
	data := programtest.NewFleet(t)
	programtest.Alter(t, data, deleteJournalRow)
	programtest.MustImport(t, data, programtest.WriteLines(t, programtest.FleetLines(t)[:2]))
	if r := programtest.VerifyLedger(t, data); r.Checks["C3"].OK {
		t.Errorf("C3 passes without a journal row: %+v", r.Checks["C3"])
	}
}

// TestVerifySeesASpoolThatDoesNotAddUp: no batch and no table can make a spool
// lose count of itself, so its figures are made up here.
func TestVerifySeesASpoolThatDoesNotAddUp(t *testing.T) {
	deps := ingest.CheckDeps{Store: storetest.Open(t)}
	for _, c := range []struct {
		spool ingest.SpoolState
		want  []string
	}{
		{ingest.SpoolState{Collector: "c1", Appended: 10, Cursor: 6, Remaining: 3, Dropped: 1}, []string{}},
		{
			ingest.SpoolState{Collector: "c1", Appended: 10, Cursor: 6, Remaining: 3},
			[]string{"spool of c1: 10 records appended, but 6 sent + 3 still in the spool + 0 dropped"},
		},
	} {
		deps.Spools = func(context.Context) ([]ingest.SpoolState, error) { return []ingest.SpoolState{c.spool}, nil }
		results, err := check.Run(t.Context(), ingest.Checks(deps)[1:2])
		if err != nil {
			t.Fatal(err)
		}
		if got := results[0]; got.Name != "C2" || got.OK != (len(c.want) == 0) || !cmp.Equal(c.want, got.Findings) {
			t.Errorf("spool %+v: got %+v, want C2 to find %q", c.spool, got, c.want)
		}
	}
}

// fickleBook is a ledger behind whose back the price book changes, every time
// it is asked.
type fickleBook struct {
	invoice.DB
	book *prices.Book
}

func (f fickleBook) Query(ctx context.Context, sql string, args ...any) (driver.Rows, error) {
	for model, price := range f.book.Versions[0].Models {
		price.GPUHour = price.GPUHour.Add(price.GPUHour)
		f.book.Versions[0].Models[model] = price
	}
	return f.DB.Query(ctx, sql, args...)
}

// TestVerifySeesAnInvoiceOfTwoForms: the same usage hash must not stand for
// two documents.
func TestVerifySeesAnInvoiceOfTwoForms(t *testing.T) {
	data := programtest.NewFleet(t)
	programtest.WithTables(t, data, func(db *store.DB) {
		book, err := prices.Load("../../../billing/prices/default.yaml")
		if err != nil {
			t.Fatal(err)
		}
		checks := billing.Checks(func(context.Context, string) (*invoice.Drafts, error) {
			return invoice.NewDrafts(fickleBook{db, book}, book), nil
		}, nil, []string{"2026-03"})
		results, err := check.Run(t.Context(), checks[1:])
		if err != nil {
			t.Fatal(err)
		}
		if got := results[0]; got.Name != "C8" || got.OK || got.Checked != 2 || !strings.Contains(got.Findings[0],
			"invoice 2026-03-team-a-r0 with usage") {
			t.Errorf("C8: got %+v, want the invoices of team-a and team-b in two forms", got)
		}
	})
}
