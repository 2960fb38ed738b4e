package explain_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/ingest/explain"
	"github.com/gputally/gputally/ingest/ledger"
)

const firstHour = "2026-03-01T00:00:00Z"

func TestWhatIsNotThere(t *testing.T) {
	h := newHouse(t)
	h.takeCase(t, "r10_gap_over_the_hour")
	for _, c := range []struct {
		name string
		q    explain.Request
		want []string
	}{
		{
			"unknown GPU",
			explain.Request{GPU: "GPU-zz", Hour: at(t, firstHour)},
			[]string{`GPU "GPU-zz"`, "nearest: GPU-a, GPU-b", "2 GPUs"},
		},
		{
			"several begin so",
			explain.Request{GPU: "GPU-", Hour: at(t, firstHour)},
			[]string{`GPU "GPU-": 2 GPUs match, name one by its id: GPU-a, GPU-b`},
		},
		{"unknown hour", explain.Request{GPU: "GPU-a", Hour: at(t, "2026-03-01T07:00:00Z")}, []string{
			"the ledger has no row for hour 2026-03-01T07:00:00Z of GPU GPU-a",
			"nearest: 2026-03-01T01:00:00Z, 2026-03-01T00:00:00Z",
			"it has 2 hours from 2026-03-01T00:00:00Z to 2026-03-01T01:00:00Z",
		}},
		{
			"unknown cluster",
			explain.Request{GPU: "GPU-a", Hour: at(t, firstHour), Cluster: "q"},
			[]string{`no GPUs of that cluster`},
		},
		{
			"unknown tenant",
			explain.Request{GPU: "GPU-a", Hour: at(t, firstHour), Tenant: "q"},
			[]string{`tenant "q"`, "nearest: a"},
		},
		{
			"unknown leaf",
			explain.Request{GPU: "GPU-a", Hour: at(t, firstHour), Leaf: "gi7"},
			[]string{`leaf "gi7"`, "nearest: gpu"},
		},
		{
			"no full hour",
			explain.Request{GPU: "GPU-a", Hour: at(t, "2026-03-01T00:20:00Z")},
			[]string{"must be a full hour, such as " + firstHour},
		},
		{"no GPU", explain.Request{Hour: at(t, firstHour)}, []string{"gpu is empty"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := explain.Explain(t.Context(), h.db, c.q)
			if err == nil {
				t.Fatal("got an explanation, want an error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want %q in it", err, want)
				}
			}
		})
	}
	if e := h.explain(t, "gpu-A", firstHour); e.GPU != "GPU-a" {
		t.Errorf("a beginning in another case: got %s, want GPU-a", e.GPU)
	}
}

func TestEmptyLedger(t *testing.T) {
	h := newHouse(t)
	_, err := explain.Explain(t.Context(), h.db, explain.Request{GPU: "GPU-a", Hour: at(t, firstHour)})
	var missing *explain.NotFoundError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "the ledger is empty") {
		t.Errorf("got %v, want that the ledger is empty", err)
	}
}

func TestOnePartOnly(t *testing.T) {
	h := newHouse(t)
	h.takeCase(t, "r9_mig")
	for _, c := range []struct{ leaf, tenant string }{{"gi2", ""}, {"", "b"}, {"gi2", "b"}} {
		e, err := explain.Explain(t.Context(), h.db,
			explain.Request{GPU: "GPU-m", Hour: at(t, firstHour), Leaf: c.leaf, Tenant: c.tenant})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range e.Lines {
			if c.leaf != "" && l.Leaf != c.leaf && (l.Leaf != "" || c.tenant != "") || c.tenant != "" && l.Tenant != c.tenant {
				t.Errorf("%+v: a line of another one: %+v", c, l)
			}
		}
		if len(e.Lines) == 0 || len(e.Owners) != 1 || e.Owners[0].Tenant != "b" || !e.Proof.OK {
			t.Errorf("%+v: got %d lines, owners %+v, proof %+v", c, len(e.Lines), e.Owners, e.Proof)
		}
	}
}

func TestSupersededBatches(t *testing.T) {
	for name, want := range map[string]string{
		"r1_failed_loses": "the collector could not read its owners",
		"r1_fewer_owners": "",
	} {
		h := newHouse(t)
		h.takeCase(t, name)
		e := h.explainAll(t, "GPU-a", firstHour)
		if len(e.Losers) == 0 || !strings.HasPrefix(e.Losers[0].Why, want) {
			t.Errorf("%s: losers: got %+v, want one that lost by %q", name, e.Losers, want)
		}
		h.takeCase(t, name)
		if got := h.explainAll(t, "GPU-a", firstHour); !strings.Contains(text(t, got),
			"a copy of the one at partition 0, offset") {
			t.Errorf("%s, taken twice: the copies are not named:\n%s", name, text(t, got))
		}
	}
}

// TestALongJournalChangesNothing: an hour depends on the day before it. What is older is neither counted nor missed.
func TestALongJournalChangesNothing(t *testing.T) {
	h := newHouse(t)
	var lines strings.Builder
	start := at(t, firstHour)
	for slot := range 6 * 30 {
		fmt.Fprintf(&lines, `{"cluster": "k", "node": "n1", "slot": %q, "slot_ms": 600000, "collector": "c1", "boot_ms": 1000, "seq": %d, `+
			`"gpus": [{"uuid": "GPU-a", "model": "NVIDIA H100 80GB HBM3", "slices": 7, "leaves": [{"id": "gpu", "slices": 7}], `+
			`"holds": [{"leaf": "gpu", "owner": {"job": "17", "account": "b"}}]}]}`+"\n",
			start.Add(time.Duration(slot)*10*time.Minute).Format(time.RFC3339), slot)
	}
	h.take(t, lines.String(), true)
	for _, hour := range []int{0, 23, 24, 25, 26, 29} {
		e, err := explain.Explain(t.Context(), h.db, explain.Request{GPU: "GPU-a", Hour: start.Add(time.Duration(hour) * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		if e.Figures.Inputs != e.Figures.JournalInputs || !e.Proof.OK {
			t.Errorf("hour %d: computed from %d journal rows, and there are %d; proof %+v", hour, e.Figures.Inputs, e.Figures.JournalInputs, e.Proof)
		}
	}
}

// Who pays was decided by the rank of two batches that contradict each other: the default text says so, too. The list
// of batches is absent where it was not asked for, not empty.
func TestContradictingBatchesAreInTheSummary(t *testing.T) {
	for name, owner := range map[string]string{"r1_fewer_owners": "b/p", "r1_failed_loses": "", "r12_three_owners": ""} {
		h := newHouse(t)
		h.takeCase(t, name)
		e, all := h.explain(t, "GPU-a", firstHour), h.explainAll(t, "GPU-a", firstHour)
		summary := strings.Join(e.Summary, "\n")
		contradicts := strings.Contains(summary, "contradict")
		if contradicts != (owner != "") || !strings.Contains(summary, owner) ||
			contradicts && !strings.Contains(summary, all.Losers[0].Why) {
			t.Errorf("%s: summary %q, want the other owner %q and why its batch lost", name, summary, owner)
		}
		document, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(document), `"superseded_batches"`) || e.Losers != nil || all.Losers == nil {
			t.Errorf("%s: losers %v without the batches, %v with them; want none and a list", name, e.Losers, all.Losers)
		}
	}
}

func TestLocalTime(t *testing.T) {
	h := newHouse(t)
	h.takeCase(t, "r12_three_owners")
	e := h.explain(t, "GPU-a", firstHour)
	zone, err := time.LoadLocation("Asia/Kolkata")
	if err != nil {
		t.Fatal(err)
	}
	e.In(zone)
	if got := text(t, e); !strings.Contains(got, "00:00:00-00:00:10 (05:30:00-05:30:10 IST)") {
		t.Errorf("got no local times:\n%s", got)
	}
	document, err := json.Marshal(e)
	if err != nil || !strings.Contains(string(document), `"from_local":"2026-03-01T05:30:00+05:30"`) {
		t.Errorf("got %s, %v, want local times", document, err)
	}
}

// tamperings change what is stored; each must be seen.
func TestWhatDoesNotAddUp(t *testing.T) {
	for _, c := range []struct{ name, statement, raw, want string }{
		{
			"a row that somebody moved",
			`INSERT INTO usage_hourly SELECT * REPLACE (version + 1 AS version, arrayMap(x -> x - 1, active) AS active, arrayMap(x -> x + 1, idle) AS idle) FROM usage_hourly FINAL WHERE hour = '2026-03-01 00:00:00' AND gpu = 'GPU-a'`,
			explain.RawKept, "active is [69999] in the ledger, but [70000] recomputed from raw",
		},
		{
			"a tenant that somebody renamed",
			`INSERT INTO usage_hourly SELECT * REPLACE (version + 1 AS version, ['q'] AS tenant) FROM usage_hourly FINAL WHERE hour = '2026-03-01 00:00:00' AND gpu = 'GPU-a'`,
			explain.RawKept, "tenant is [q] in the ledger, but [a] recomputed from raw",
		},
		{
			"a raw row that lacks",
			`ALTER TABLE holds DELETE WHERE gpu = 'GPU-a' AND slot = '2026-03-01 00:59:40' SETTINGS mutations_sync = 2`,
			explain.RawDamaged, "has 1 of 2 rows",
		},
		{
			"a raw row that was changed",
			`ALTER TABLE holds UPDATE energy_mj = 7 WHERE gpu = 'GPU-a' AND slot = '2026-03-01 00:59:40' SETTINGS mutations_sync = 2`,
			explain.RawKept, "energy_mj is [0] in the ledger, but [7] recomputed from raw",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			h.takeCase(t, "r10_gap_over_the_hour")
			if err := h.db.Exec(t.Context(), c.statement); err != nil {
				t.Fatal(err)
			}
			e := h.explain(t, "GPU-a", firstHour)
			if got := text(t, e); e.Proof.OK || e.Raw != c.raw || !strings.Contains(got, c.want) || !strings.Contains(got,
				"ROW DIFFERS FROM THE HOUR") {
				t.Errorf("got proof %+v, raw %s, want it to fail with %q:\n%s", e.Proof, e.Raw, c.want, got)
			}
		})
	}
}

func TestRawThatIsGone(t *testing.T) {
	h := newHouse(t)
	h.takeCase(t, "r10_gap_over_the_hour")
	for _, statement := range []string{
		`TRUNCATE TABLE holds`, `TRUNCATE TABLE samples`,
		`INSERT INTO raw_weeks (week, state, sealed_at, dropped_at) SELECT toMonday(toDate('2026-03-01')), 3, now(), now()`,
	} {
		if err := h.db.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	e := h.explain(t, "GPU-a", firstHour)
	got := text(t, e)
	if e.Raw != explain.RawGone || len(e.Lines) > 0 || e.Figures.Active != 70_000 || len(e.Owners) != 1 {
		t.Errorf("got %+v, want figures only", e)
	}
	if !strings.Contains(got, "raw of this hour was dropped") || strings.Contains(got, "SLOTS") || !strings.Contains(got,
		"held 140 000 slice-ms") {
		t.Errorf("got:\n%s", got)
	}
}

func TestRowOlderThanTheJournal(t *testing.T) {
	h := newHouse(t)
	h.takeCase(t, "r12_three_owners")
	h.take(t, `{"cluster": "k", "node": "n1", "slot": "2026-03-01T00:00:10Z", "slot_ms": 10000, "collector": "c1", "boot_ms": 1000, "seq": 1, "gpus": []}`, false)
	e := h.explain(t, "GPU-a", firstHour)
	if e.Figures.Inputs != 1 || e.Figures.JournalInputs != 2 || !strings.Contains(text(t, e),
		"from 1 journal row, and there are 2 now") {
		t.Errorf("got %+v:\n%s", e.Figures, text(t, e))
	}
}

// wildLines are a quarter of an hour of two nodes between which a GPU wanders,
// with gaps, partial slots, failed attribution, lost and flagged boards.
func wildLines(seed uint64) string {
	rng := rand.New(rand.NewPCG(seed, 10))
	var b strings.Builder
	start := time.Date(2026, 3, 1, 0, 52, 0, 0, time.UTC)
	for slot := range 90 {
		for n, node := range []string{"n1", "n2"} {
			if rng.IntN(6) == 0 {
				continue
			}
			fmt.Fprintf(&b, `{"cluster": "k", "node": %q, "slot": %q, "slot_ms": 10000, "collector": "c%d", "boot_ms": 1000, "seq": %d, `,
				node, start.Add(time.Duration(slot)*10*time.Second).Format(time.RFC3339), n, slot)
			b.WriteString([]string{
				"", `"observed": [[0, 4000], [5500, 10000]], `, `"attribution": "failed", `, "",
				`"enumeration": "partial", `, "",
			}[rng.IntN(6)])
			fmt.Fprintf(&b, `"gpus": [%s]}`+"\n", wildGPUs(rng, node, slot))
		}
	}
	return b.String()
}

func wildGPUs(rng *rand.Rand, node string, slot int) string {
	var boards []string
	if (slot/40%2 == 0) == (node == "n1") || rng.IntN(12) == 0 {
		boards = append(boards, wildGPU(rng, "GPU-w"))
	}
	if rng.IntN(8) > 0 {
		boards = append(boards, wildGPU(rng, "GPU-"+node))
	}
	return strings.Join(boards, ", ")
}

func wildGPU(rng *rand.Rand, uuid string) string {
	leaves := `{"id": "gi1", "gi": 1, "profile": "3g.40gb", "slices": 3, "gr_engine_active": %g}, {"id": "gi2", "gi": 2, "profile": "2g.20gb", "slices": 2, "gr_engine_active": %g}`
	slices := 7
	if rng.IntN(15) == 0 {
		slices = 4 // fewer than the leaves, or than the hour began with
	}
	flags := []string{"", "", "", "", "", `"lost": true, `, `"unhealthy": true, `}[rng.IntN(7)]
	holds := `{"leaf": "gi1", "owner": {"namespace": "a", "pod": "p"}}`
	switch rng.IntN(5) {
	case 0:
		holds += `, {"leaf": "gi2", "owner": {"namespace": "b", "pod": "p"}, "to": 7000}`
	case 1:
		holds += `, {"leaf": "gi1", "owner": {"namespace": "b", "pod": "p"}}, {"leaf": "gi1", "owner": {"job": "7", "account": "c"}}`
	}
	return fmt.Sprintf(`{"uuid": %q, "model": "NVIDIA H100 80GB HBM3", "slices": %d, "mig": true, %s"leaves": [`+leaves+
		`], "holds": [%s], "power_watts": %d, "idle_watts": 80, "energy_mj": %d, "energy_span_ms": %d}`,
		uuid, slices, flags, []float64{0, 0.004, 0.7}[rng.IntN(3)], []float64{0, 0.2}[rng.IntN(2)], holds, 60+rng.IntN(300),
		rng.IntN(3_000_000),
		[]int{10_000, 10_000, 10_000, 20_000}[rng.IntN(4)])
}

// TestWildHours explains what no case was made for; the proof must hold
// wherever the ledger publishes a row.
func TestWildHours(t *testing.T) {
	for seed := range uint64(4) {
		h := newHouse(t)
		h.take(t, wildLines(seed), true)
		seen := map[string]int{}
		for _, gpu := range []string{"GPU-w", "GPU-n1", "GPU-n2"} {
			for _, hour := range []string{firstHour, "2026-03-01T01:00:00Z"} {
				e := h.explain(t, gpu, hour)
				checkText(t, text(t, e))
				for _, l := range e.Lines {
					seen[l.Code]++
				}
				if !e.Proof.OK || e.Raw != explain.RawKept {
					t.Errorf("seed %d, %s, %s: proof %+v\n%s", seed, gpu, hour, e.Proof, text(t, e))
				}
			}
		}
		for _, code := range []string{
			"inferred", "no_batch", "attribution", "excess", "lost", "not_enumerated", "flagged",
			"not_listed", "slot_in_part", "unowned_work",
		} {
			if seen[code] == 0 {
				t.Errorf("seed %d: no line is %s: the test doesn't try it", seed, code)
			}
		}
	}
}

// TestPools explains an hour of imported allocations (R18): of 16 GPUs, and of
// nobody knows how many.
func TestPools(t *testing.T) {
	for _, c := range []struct {
		name, flag string
		want       []string
		note       bool
	}{
		{"known capacity", "", []string{"free not_allocated", "unproven imported"}, false},
		{
			"unknown capacity", `"unknown_capacity": true, `,
			[]string{"unobserved unknown_capacity", "unproven imported"},
			true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			h.take(t, `{"cluster": "k", "node": "pool", "slot": "2026-03-01T00:00:00Z", "slot_ms": 3600000, "collector": "c1", "boot_ms": 1000, "seq": 0, "gpus": [{"uuid": "k/pool", "model": "NVIDIA H100 80GB HBM3", "slices": 16000, "pool": true, `+c.flag+
				`"leaves": [{"id": "j1", "slices": 2500, "from": 600000}, {"id": "j2", "slices": 8000, "to": 1800000}], "holds": [{"leaf": "j1", "owner": {"job": "1", "account": "a"}}, {"leaf": "j2", "owner": {"job": "2", "account": "b"}}]}]}`, true)
			e := h.explain(t, "k/pool", firstHour)
			if diff := cmp.Diff(c.want, reasons(e)); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
			if !e.Proof.OK || e.Figures.GPUSlices != 1000 || (len(e.Notes) > 0) != c.note ||
				e.Figures.Unproven != 2500*3_000_000+8000*1_800_000 {
				t.Errorf("got %+v\n%s", e.Figures, text(t, e))
			}
			if got := text(t, e); !strings.Contains(got, "6.083333333 GPU-h") { // 2.5 × 50 min + 8 × 30 min
				t.Errorf("GPU-hours of a pool:\n%s", got)
			}
		})
	}
}

// TestRetiredEarly: a GPU that people took out of the inventory is there up to
// then, and again from where it is listed next, with as many slices or not (R2).
func TestRetiredEarly(t *testing.T) {
	for _, slices := range []int{4, 3, 5} {
		t.Run(fmt.Sprint(slices), func(t *testing.T) { testRetiredEarly(t, slices) })
	}
}

func testRetiredEarly(t *testing.T, lateSlices int) {
	board := func(id string, slices int) string {
		return fmt.Sprintf(
			`{"uuid": %q, "model": "NVIDIA H100 80GB HBM3", "slices": %d, "leaves": [{"id": "gpu", "slices": %d, "sm_active": 0.5}], "holds": [{"leaf": "gpu", "owner": {"namespace": "a", "pod": "p"}}], "power_watts": 300, "idle_watts": 80}`, id, slices, slices)
	}
	var early, late strings.Builder
	for slot := range 30 {
		line := fmt.Sprintf(
			`{"cluster": "k", "node": "n%%d", "slot": "2026-03-01T00:%02d:%02dZ", "slot_ms": 10000, "collector": "c%%d", "boot_ms": 1000, "seq": %d, "gpus": [%%s]}`+"\n", slot/6, slot%6*10, slot)
		fmt.Fprintf(&early, line, 2, 2, board("GPU-b", 4))
		switch {
		case slot < 2:
			fmt.Fprintf(&early, line, 1, 1, board("GPU-a", 4))
		case slot >= 20:
			fmt.Fprintf(&late, line, 1, 1, board("GPU-a", lateSlices))
		}
	}
	h := newHouse(t)
	h.take(t, early.String(), true)
	if _, err := h.ledger.Retire(t.Context(),
		ledger.Retirement{GPU: "GPU-a", At: at(t, "2026-03-01T00:01:03Z"), Who: "ops", Reason: "sold"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		lines   string
		present int64
		want    []string
	}{
		{"", 60_000, []string{
			"00:00:00-00:01:00: in the inventory when the hour begins",
			"retired at 2026-03-01T00:01:00Z by",
		}},
		{late.String(), 160_000, []string{"00:00:00-00:01:00", "00:03:20-00:05:00: from the first batch that lists it"}},
	} {
		h.take(t, c.lines, true)
		e := h.explain(t, "GPU-a", firstHour)
		got := text(t, e)
		if !e.Proof.OK || e.Figures.PresentMS != c.present || e.Figures.Inputs != e.Figures.JournalInputs {
			t.Errorf("got %+v, want %d ms present, and proved\n%s", e.Figures, c.present, got)
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in\n%s", want, got)
			}
		}
	}
}

// TestByHolderOrIndex finds a GPU by who held it, or by its node and index.
func TestByHolderOrIndex(t *testing.T) {
	h := newHouse(t)
	board := func(index int, owner string) string {
		return fmt.Sprintf(
			`{"uuid": "GPU-%d", "model": "NVIDIA H100 80GB HBM3", "slices": 7, "leaves": [{"id": "gpu", "slices": 7}], "holds": [{"leaf": "gpu", "owner": %s}]}`, index, owner)
	}
	h.take(t, `{"cluster": "k", "node": "n1", "slot": "2026-03-01T00:00:00Z", "slot_ms": 10000, "collector": "c1", "boot_ms": 1000, "seq": 0, "gpus": [`+strings.Join([]string{
		board(3, `{"namespace": "a", "pod": "p", "uid": "u-1"}`), board(4, `{"job": "17", "account": "b"}`),
		board(5, `{"namespace": "a", "pod": "q"}`), board(6, `{"namespace": "a", "pod": "q"}`),
		board(7, `{"job": "%1000000[1]d"}`), board(8, `{"job": "%1000000[1]d"}`),
	}, ", ")+`]}`, true)
	// JSON lines have no index; collectors send it.
	if err := h.db.Exec(t.Context(),
		`ALTER TABLE samples UPDATE gpu_index = toUInt16(substring(gpu, 5)) WHERE 1 SETTINGS mutations_sync = 2`); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		q    explain.Request
		want string
	}{
		{explain.Request{GPU: "n1/3"}, "GPU-3"},
		{explain.Request{Pod: "a/p"}, "GPU-3"},
		{explain.Request{Pod: "p"}, "GPU-3"},
		{explain.Request{Pod: "u-1"}, "GPU-3"},
		{explain.Request{Job: "17"}, "GPU-4"},
	} {
		c.q.Hour = at(t, firstHour)
		if e, err := explain.Explain(t.Context(), h.db, c.q); err != nil || e.GPU != c.want || !e.Proof.OK {
			t.Errorf("%+v: got %+v, %v; want %s", c.q, e, err, c.want)
		}
	}
	var ambiguous *explain.AmbiguousError
	if _, err := explain.Explain(t.Context(), h.db, explain.Request{Pod: "a/q", Hour: at(t, firstHour)}); !errors.As(err,
		&ambiguous) || len(ambiguous.Choices) != 2 {
		t.Errorf("a pod on two GPUs: got %v, want both named", err)
	}
	// A name is text, not a format.
	if _, err := explain.Explain(t.Context(), h.db, explain.Request{Job: "%1000000[1]d", Hour: at(t, firstHour)}); !errors.As(err,
		&ambiguous) || len(err.Error()) > 200 {
		t.Errorf("a job on two GPUs: got an error of %d bytes", len(err.Error()))
	}
	for _, q := range []explain.Request{{GPU: "n1/9"}, {GPU: "n2/3"}, {Pod: "b/p"}, {Job: "18"}} {
		var missing *explain.NotFoundError
		q.Hour = at(t, firstHour)
		if _, err := explain.Explain(t.Context(), h.db, q); !errors.As(err, &missing) {
			t.Errorf("%+v: got %v, want that it is not found", q, err)
		}
	}
}

// TestEvidenceIsTheWinners: of two batches with equal rev, table samples keeps the
// one that came last; what it says is never shown as the other's.
func TestEvidenceIsTheWinners(t *testing.T) {
	h := newHouse(t)
	line := `{"cluster": "k", "node": "n1", "slot": "2026-03-01T00:00:00Z", "slot_ms": 10000, "collector": %q, "boot_ms": 1000, "seq": 0, "gpus": [{"uuid": "GPU-a", "model": "NVIDIA H100 80GB HBM3", "slices": 7, "leaves": [{"id": "gpu", "slices": 7, "sm_active": %g}], "holds": [{"leaf": "gpu", "owner": {"namespace": "a", "pod": "p"}}]}]}`
	h.take(t, fmt.Sprintf(line, "c2", 0.9), false) // wins by its name
	h.take(t, fmt.Sprintf(line, "c1", 0.1), true)
	e := h.explain(t, "GPU-a", firstHour)
	if !e.Proof.OK || len(e.Lines) != 1 || e.Lines[0].Signals != nil {
		t.Errorf("got %+v, want the winner's line without the loser's evidence", e.Lines)
	}
}
