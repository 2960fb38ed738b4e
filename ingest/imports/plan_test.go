package imports

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

// book is what imports of a source leave behind: their state, and the batch of
// each node and hour that wins.
type book struct {
	t     *testing.T
	o     Options
	state *State
	// killed runs end before they keep what they said.
	killed bool
	wins   map[nodeHour]*wire.Batch
}

func newBook(t *testing.T) *book {
	return &book{
		t: t, o: Options{Cluster: "k", Source: "s", Pool: "k", NowMS: 1},
		state: &State{published: map[nodeHour][32]byte{}, publishedHours: map[int64]bool{}}, wins: map[nodeHour]*wire.Batch{},
	}
}

// take imports records; it answers the plan and how many batches it sent.
func (b *book) take(records ...Record) (*Plan, int) {
	b.t.Helper()
	records = slices.Clone(records)
	for i := range records {
		r := &records[i]
		r.Line = i + 2
		if r.StartMS < wire.MinTimeMS {
			r.StartMS, r.EndMS = r.StartMS+wire.MinTimeMS, r.EndMS+wire.MinTimeMS
		}
	}
	o := b.o
	if o.windowed() && o.WindowFromMS < wire.MinTimeMS {
		o.WindowFromMS, o.WindowToMS = o.WindowFromMS+wire.MinTimeMS, o.WindowToMS+wire.MinTimeMS
	}
	p, err := NewPlan(&o, b.state, records)
	if err != nil {
		b.t.Fatal(err)
	}
	if p.live != nil {
		p.judge()
	}
	seq := uint64(0)
	sent, err := p.Each(func(data []byte) error {
		batch, unknown, err := wire.Decode(data)
		if err != nil || unknown > 0 {
			return fmt.Errorf("%d unknown fields: %w", unknown, err)
		}
		if batch.Seq != seq || batch.BootMs <= int64(b.state.revision) || batch.SlotStartMs < batch.WindowFromMs ||
			batch.SlotStartMs+batch.SlotMs > batch.WindowToMs {
			b.t.Errorf("batch %d has seq %d, boot %d after %d, slot %d in window %d to %d", seq, batch.Seq, batch.BootMs,
				b.state.revision, batch.SlotStartMs, batch.WindowFromMs, batch.WindowToMs)
		}
		seq++
		at := nodeHour{batch.Node, batch.SlotStartMs}
		if at.hourMS < liveStart {
			at.hourMS -= wire.MinTimeMS
		}
		b.wins[at] = batch
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if b.killed {
		return p, sent
	}
	b.state.revision = uint64(p.bootMS)
	for _, hour := range p.published {
		b.state.published[hour.nodeHour], b.state.publishedHours[hour.hourMS] = hour.sum, true
	}
	stands := map[string]Record{}
	name := func(r *Record) string { return fmt.Sprint(r.key(), r.Part) }
	for _, r := range b.state.Records {
		stands[name(&r)] = r
	}
	for _, r := range p.gone {
		delete(stands, name(&r))
	}
	for _, r := range p.rows {
		r.Line = 0
		stands[name(&r)] = r
	}
	b.state.Records = nil
	for _, r := range stands {
		b.state.Records = append(b.state.Records, r)
	}
	return p, sent
}

// held is the settled slice-ms of each job, and of what nobody held, over all
// winning batches. It checks that each hour sums to its capacity (C6).
func (b *book) held() map[string]int64 {
	b.t.Helper()
	out := map[string]int64{}
	for _, batch := range b.wins {
		ids := meter.NewIdentities()
		for _, g := range meter.Classify(batch, ids) {
			jobs := map[uint64]string{}
			ids.Owners(func(o meter.Owner, h uint64) { jobs[h] = o.ID() })
			var sum int64
			for _, r := range g.Rows {
				sum += r.SliceMS
				if r.Owner != 0 {
					out[jobs[r.Owner]] += r.SliceMS
				} else if r.SliceMS > 0 {
					out[r.Bucket.String()] += r.SliceMS
				}
				if r.Owner != 0 && r.Bucket != meter.Unproven {
					b.t.Errorf("imported time is %s", r.Bucket)
				}
			}
			if sum != int64(g.Slices)*meter.HourMS || g.Finding != "" {
				b.t.Errorf("%s at %s: %d slice-ms of %d slices, %s", g.UUID, rfc3339(batch.SlotStartMs), sum, g.Slices, g.Finding)
			}
		}
	}
	return out
}

const hourMS = meter.HourMS

// job is a record from one hour (and ms) to another; take counts hours
// before that from the first that a batch may tell of.
func job(name string, milli uint32, fromMS, toMS int64) Record {
	return Record{Job: name, Account: "a", MilliGPUs: milli, StartMS: fromMS, EndMS: toMS}
}

func TestPlanTwiceChangesNothing(t *testing.T) {
	b := newBook(t)
	records := func() []Record {
		return []Record{
			job("1", 2000, hourMS+5, 3*hourMS+7), job("2", 500, 2*hourMS, 6*hourMS),
			{Tenant: "x", MilliGPUs: 1, StartMS: 0, EndMS: 1},
		}
	}
	p, sent := b.take(records()...)
	if p.New != 3 || sent != 6 {
		t.Errorf("first: %d new, %d batches; want 3 and 6", p.New, sent)
	}
	want := map[string]int64{
		"1": 2000 * (2*hourMS + 2), "2": 500 * 4 * hourMS, `{"tenant":"x"}`: 1,
		"unobserved": 2000*5 + (2000*hourMS - 2000*7) + 1*(hourMS-1),
	}
	// Peaks: 1 in hour 0; 2000; 2500 in hours 2 and 3; 500 in 4 and 5.
	want["unobserved"] = 1*hourMS - 1 + 2000*5 + 2000*(hourMS-7)
	if diff := cmp.Diff(want, b.held()); diff != "" {
		t.Errorf("slice-ms (-want +got):\n%s", diff)
	}
	p, sent = b.take(records()...)
	if p.Unchanged != 3 || p.New+p.Changed+p.Deleted != 0 || sent != 0 {
		t.Errorf("second: %+v, %d batches; want all unchanged and none", p, sent)
	}
}

// TestPlanAfterAKill: what was said and not kept is said again, by a later boot,
// in the same words.
func TestPlanAfterAKill(t *testing.T) {
	b := newBook(t)
	b.take(job("1", 1000, 0, 2*hourMS))
	b.killed = true
	fixed := job("1", 1000, 0, 3*hourMS)
	b.take(fixed)
	want, first := b.held(), b.wins[nodeHour{"k", 2 * hourMS}]
	b.killed, b.o.NowMS = false, 77
	p, sent := b.take(fixed)
	if diff := cmp.Diff(want, b.held()); diff != "" || sent != 1 || p.Changed != 1 {
		t.Errorf("%d batches, %d changed; want 1 and 1; slice-ms (-want +got):\n%s", sent, p.Changed, diff)
	}
	again := b.wins[nodeHour{"k", 2 * hourMS}]
	if again.BootMs <= first.BootMs || again.Gpus[0].String() != first.Gpus[0].String() {
		t.Errorf("said %v, then %v", first, again)
	}
	if _, sent := b.take(fixed); sent != 0 {
		t.Errorf("%d batches once it is kept, want none", sent)
	}
}

func TestPlanCorrects(t *testing.T) {
	b := newBook(t)
	b.take(job("1", 1000, 0, 10*hourMS), job("2", 1000, 0, 2*hourMS), job("3", 1000, 5*hourMS, 6*hourMS))
	short := job("1", 1000, 0, 4*hourMS)
	short.Account = "b"
	p, sent := b.take(short)
	if p.Changed != 1 || sent != 10 {
		t.Errorf("%d changed, %d batches; want 1 and the 10 hours that it had", p.Changed, sent)
	}
	// Hours 6 to 9 have nothing any more: their batches list no pool.
	want := map[string]int64{"1": 4000 * hourMS, "2": 2000 * hourMS, "3": 1000 * hourMS}
	if diff := cmp.Diff(want, b.held()); diff != "" {
		t.Errorf("slice-ms (-want +got):\n%s", diff)
	}
	if n := len(b.wins[nodeHour{"k", 7 * hourMS}].Gpus); n != 0 {
		t.Errorf("an hour without records lists %d pools of unknown capacity", n)
	}
}

func TestPlanDeletesInAWindow(t *testing.T) {
	b := newBook(t)
	b.o.Capacity = map[string]uint32{"": 4000}
	b.take(job("1", 1000, 0, 3*hourMS), job("2", 1000, 2*hourMS, 4*hourMS), job("3", 1000, 3*hourMS, 8*hourMS))
	b.o.WindowFromMS, b.o.WindowToMS = 2*hourMS, 4*hourMS
	p, _ := b.take(job("3", 1000, 3*hourMS, 8*hourMS))
	if p.Deleted != 1 || p.Unchanged != 1 {
		t.Errorf("%d deleted, %d unchanged; want 1 and 1: what began before the window stays", p.Deleted, p.Unchanged)
	}
	want := map[string]int64{"1": 3000 * hourMS, "3": 5000 * hourMS, "free": (8*4000 - 8000) * hourMS}
	if diff := cmp.Diff(want, b.held()); diff != "" {
		t.Errorf("slice-ms (-want +got):\n%s", diff)
	}
	b.o.WindowFromMS, b.o.WindowToMS = 0, 8*hourMS
	b.o.Partial = true
	if p, sent := b.take(); p.Missed != 2 || p.Deleted != 0 || sent != 0 {
		t.Errorf("a file with bad rows: %d missed, %d deleted, %d batches; want 2, 0 and 0", p.Missed, p.Deleted, sent)
	}
	b.o.Partial = false
	p, _ = b.take()
	if diff := cmp.Diff(map[string]int64{"free": 8 * 4000 * hourMS}, b.held()); diff != "" || p.Deleted != 2 {
		t.Errorf("an empty file for the whole time: %d deleted (-want +got):\n%s", p.Deleted, diff)
	}
}

// TestPlanRefusesExcess: by start, then job; a job that does not fit is out
// whole, and comes in when there is room.
func TestPlanRefusesExcess(t *testing.T) {
	b := newBook(t)
	b.o.Capacity = map[string]uint32{"": 3000}
	file := []Record{
		job("9", 1000, 0, 4*hourMS), job("4", 2000, 0, 2*hourMS), job("5", 1000, hourMS, 3*hourMS),
		job("6", 2000, 2*hourMS, 4*hourMS), job("7", 500, 2*hourMS, 3*hourMS),
	}
	p, _ := b.take(file...)
	var bad []string
	for _, x := range p.Bad {
		bad = append(bad, fmt.Sprintf("%d: %s", x.Line, x.Reason))
	}
	if diff := cmp.Diff([]string{
		"4: beyond capacity: 5 holds 1 GPU from 2000-01-01T01:00:00Z on, but k/k of 3 has only 0 free then",
		"6: beyond capacity: 7 holds 0.5 GPUs from 2000-01-01T02:00:00Z on, but k/k of 3 has only 0 free then",
	}, bad); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"9": 4000 * hourMS, "4": 4000 * hourMS, "6": 4000 * hourMS},
		b.held()); diff != "" {
		t.Errorf("slice-ms (-want +got):\n%s", diff)
	}
	file[1].EndMS = hourMS // it ends earlier: there is room for 5
	p, _ = b.take(file...)
	if len(p.Bad) != 1 || !strings.Contains(p.Bad[0].Reason, "6 holds") {
		t.Errorf("refused %v, want 6 alone", p.Bad)
	}
	p, _ = b.take(job("1", 3000, 0, hourMS/2)) // the others' are refused now, and said to be of another import
	if len(p.Bad) == 0 || p.Bad[0].Line != 0 || !strings.Contains(p.Bad[0].Reason,
		"a record of an earlier import: 4 holds") {
		t.Errorf("refused %v, want the earlier import's", p.Bad)
	}
}

func TestPlanOfDevices(t *testing.T) {
	b := newBook(t)
	with := func(r Record, node string, devices ...string) Record {
		r.Node, r.Devices, r.MilliGPUs, r.Model = node, devices, uint32(len(devices))*1000, "NVIDIA A100-SXM4-40GB"
		return r
	}
	p, sent := b.take(
		with(job("1", 0, 0, hourMS), "n1", "GPU-a", "GPU-b"), with(job("2", 0, hourMS, 2*hourMS), "n1", "GPU-a"),
		with(job("3", 0, hourMS/2, hourMS), "n1", "GPU-b"), with(job("4", 0, 3*hourMS, 4*hourMS), "n2", "GPU-c"),
	)
	if len(p.Bad) != 1 || !strings.Contains(p.Bad[0].Reason, "3 holds 1 GPU") || sent != 5 {
		t.Errorf("refused %v, %d batches; want job 3, and 4 hours of n1, 1 of n2", p.Bad, sent)
	}
	want := map[string]int64{"1": 14 * hourMS, "2": 7 * hourMS, "4": 7 * hourMS, "free": (8*7 - 21) * hourMS}
	if diff := cmp.Diff(want, b.held()); diff != "" {
		t.Errorf("slice-ms (-want +got):\n%s", diff)
	}
	o := b.o
	if _, err := NewPlan(&o, b.state, []Record{with(job("9", 0, 0, 1), "n3", "GPU-a")}); err == nil ||
		!strings.Contains(err.Error(), `device "GPU-a" is on node "n1" in one record and on node "n3" in another`) {
		t.Errorf("a device on two nodes: got %v", err)
	}
}

func TestPlanOfModels(t *testing.T) {
	b := newBook(t)
	b.o.Capacity = map[string]uint32{"a100": 2000, "h100": 1000}
	of := func(r Record, model string) Record { r.Model = model; return r }
	b.take(of(job("1", 2000, 0, hourMS), "a100"))
	want := map[string]int64{"1": 2000 * hourMS, "free": 1000 * hourMS} // the pool of h100 is all free
	if diff := cmp.Diff(want, b.held()); diff != "" {
		t.Errorf("slice-ms (-want +got):\n%s", diff)
	}
	b.o.Capacity = map[string]uint32{"": 2000}
	o := b.o
	if _, err := NewPlan(&o, b.state, []Record{of(job("2", 1000, 0, 1), "h100")}); err == nil ||
		!strings.Contains(err.Error(), "several models") {
		t.Errorf("one capacity for two models: got %v", err)
	}
}

func TestOptionsRefuse(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"cluster: must not be empty": func(o *Options) { o.Cluster = "" },
		`source "a/b"`:               func(o *Options) { o.Source = "a/b" },
		`capacity of "x"`:            func(o *Options) { o.Capacity = map[string]uint32{"x": 0} },
		"at full UTC hours":          func(o *Options) { o.WindowFromMS, o.WindowToMS = 1, hourMS },
		"must end after it begins":   func(o *Options) { o.WindowFromMS, o.WindowToMS = hourMS, hourMS },
		"window from 1970-01-01T00":  func(o *Options) { o.WindowToMS = hourMS + 1 },
	} {
		o := newBook(t).o
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	for _, text := range []string{"x", "a=1,a=2", "=3", "1,2", "a="} {
		if got, err := ParseCapacity(text); err == nil {
			t.Errorf("capacity %q: got %v, want an error", text, got)
		}
	}
}

// TestRandomPlans: whatever is imported in whatever order, each job has what
// its last record says, and the hours are those that one import of the last
// records would say.
func TestRandomPlans(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		b := newBook(t)
		last := map[string]Record{}
		for range 1 + r.IntN(4) {
			var file []Record
			for range r.IntN(12) {
				name := fmt.Sprint(r.IntN(15))
				from := (r.Int64N(40*hourMS)/7 + int64(len(name))) * int64(r.IntN(2)+1)
				if old, ok := last[name]; ok {
					from = old.StartMS
				}
				rec := job(name, 1+r.Uint32N(3000), from, from+1+r.Int64N(6*hourMS))
				rec.User = fmt.Sprint(r.IntN(3))
				last[name] = rec
				file = append(file, rec)
			}
			distinct := File{Records: file}
			distinct.distinct(true)
			b.take(distinct.Records...)
		}
		want := map[string]int64{}
		var all []Record
		for name, rec := range last {
			want[name] = int64(rec.MilliGPUs) * (rec.EndMS - rec.StartMS)
			all = append(all, rec)
		}
		got := b.held()
		delete(got, "unobserved")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d: slice-ms (-want +got):\n%s", seed, diff)
		}
		once := newBook(t)
		once.take(all...)
		for at, batch := range b.wins {
			var fresh []*wire.Gpu
			if other := once.wins[at]; other != nil {
				fresh = other.Gpus
			}
			if diff := cmp.Diff(fmt.Sprint(fresh), fmt.Sprint(batch.Gpus)); diff != "" {
				t.Fatalf("seed %d, %s: by steps it says otherwise than at once (-once +steps):\n%s", seed, rfc3339(at.hourMS), diff)
			}
		}
	}
}
