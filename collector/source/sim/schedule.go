package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/gputally/gputally/internal/wire"
)

// run is the time in which one owner has a lane.
type run struct {
	span
	owner *owner
	load  load
}

// owner has the facts of wire.Owner as a plain value: runs are shared between reads, messages are not.
type owner struct {
	project, namespace, pod, uid, container, job, user, account string
}

func (o *owner) message() *wire.Owner {
	return &wire.Owner{
		Project: o.project, Namespace: o.namespace, Pod: o.pod, Uid: o.uid, Container: o.container,
		Job: o.job, User: o.user, Account: o.account,
	}
}

// resolve names the tenant's users, and looks up its zone and its busiest hour.
func (t *tenant) resolve() (err error) {
	for i := range 4 {
		t.users = append(t.users, fmt.Sprintf("%s-user%d", t.Name, i+1))
	}
	if t.zone, err = time.LoadLocation(t.TimeZone); err != nil {
		return fmt.Errorf("load zone of tenant %s: %w", t.Name, err)
	}
	// Summer time is ignored on purpose: the customers' day has no clock.
	_, offset := time.Date(2026, time.January, 1, 0, 0, 0, 0, t.zone).Zone()
	t.peak = ((14*3600-int64(offset))%86400 + 86400) % 86400 * 1000
	return nil
}

// localMS is the Unix time of a local time of day.
func (t *tenant) localMS(y int, m time.Month, d int, at time.Duration) int64 {
	return time.Date(y, m, d, 0, 0, 0, int(at), t.zone).UnixMilli()
}

// open returns the working hours that overlap the UTC day d.
func (t *tenant) open(d span) []span {
	var out []span
	first := time.UnixMilli(d.from).In(t.zone)
	for i := -1; i <= 1; i++ {
		local := first.AddDate(0, 0, i)
		if w := local.Weekday(); w == time.Saturday || w == time.Sunday {
			continue
		}
		y, m, dd := local.Date()
		s := span{t.localMS(y, m, dd, t.WorkFrom), t.localMS(y, m, dd, t.WorkTo)}
		if !s.clip(d).empty() {
			out = append(out, s)
		}
	}
	return out
}

// unit follows a workload's pattern independently: a gang, or one lane.
type unit struct {
	workload
	tenant    *tenant
	scheduler scheduler
	seed      uint64
	lanes     []int
}

// shift is one run of a unit before it is placed on lanes.
type shift struct {
	span
	seed uint64
}

// shifts returns the unit's runs that overlap the UTC day d, whole.
func (u *unit) shifts(d span, open []span) []shift {
	switch u.Kind {
	case notebook:
		return u.notebooks(d)
	case batch:
		return u.batchJobs(d, open)
	}
	cycle := u.Cycle.Milliseconds()
	phase := below(u.seed, cycle)
	var out []shift
	for k := floorDiv(d.from-phase, cycle); k <= floorDiv(d.to-1-phase, cycle); k++ {
		s := u.inCycle(k*cycle+phase, cycle, derive(u.seed, k))
		if !s.clip(d).empty() {
			out = append(out, s)
		}
	}
	return out
}

// inCycle places one run in a cycle; inference takes all of it.
func (u *unit) inCycle(from, cycle int64, seed uint64) shift {
	length := cycle * u.FillPercent / 100
	if u.Kind == training {
		length -= below(derive(seed, 1), length/20)
	}
	from += below(derive(seed, 2), cycle-length)
	return shift{span{from, from + length}, seed}
}

// notebooks are opened on Monday to Wednesday and closed on Friday evening: they stay allocated overnight.
func (u *unit) notebooks(d span) []shift {
	var out []shift
	local := time.UnixMilli(d.from).In(u.tenant.zone)
	monday := local.AddDate(0, 0, -(int(local.Weekday())+6)%7)
	for _, week := range []time.Time{monday, monday.AddDate(0, 0, 7)} {
		y, m, dd := week.Date()
		// The date itself, not a count of weeks, is the week's seed.
		seed := derive(u.seed, int64(y)*10_000+int64(m)*100+int64(dd))
		if below(seed, 100) >= u.FillPercent {
			continue
		}
		opened := u.tenant.localMS(y, m, dd+int(below(derive(seed, 1), 3)), u.tenant.WorkFrom)
		closed := u.tenant.localMS(y, m, dd+4, u.tenant.WorkTo)
		const spread = 90 * 60_000
		s := span{opened + below(derive(seed, 2), spread), closed - below(derive(seed, 3), spread)}
		if !s.clip(d).empty() {
			out = append(out, shift{s, seed})
		}
	}
	return out
}

// batchJobs divides each cycle into as many parts as it has jobs. Cycles divide the day, so the day has all of them.
func (u *unit) batchJobs(d span, open []span) []shift {
	cycle := u.Cycle.Milliseconds()
	var out []shift
	for from := d.from; from < d.to; from += cycle {
		if u.WorkHours && !anyHas(open, from) {
			continue
		}
		seed := derive(u.seed, from)
		n := 1 + below(seed, u.Jobs)
		part := cycle / n
		for i := range n {
			out = append(out, u.job(from+i*part, part, derive(seed, i+1)))
		}
	}
	return out
}

// job places one job in a part of a cycle; one in eight ends after some seconds, like a failing one.
func (u *unit) job(from, part int64, seed uint64) shift {
	most := part * u.FillPercent / 100
	length := most*3/4 + below(derive(seed, 1), most/4)
	if seed%8 == 0 {
		length = 3_000 + below(derive(seed, 2), 17_000)
	}
	from += below(derive(seed, 3), part-length)
	return shift{span{from, from + length}, seed}
}

func anyHas(spans []span, t int64) bool {
	return slices.ContainsFunc(spans, func(s span) bool { return s.has(t) })
}

func (u *unit) load(seed uint64, open []span) load {
	l := load{kind: u.Kind, seed: seed, open: open, peak: u.tenant.peak}
	switch u.Kind {
	case training:
		l.base = 760_000 + below(derive(seed, 9), 160_000)
	case inference:
		l.base = 350_000 + below(derive(seed, 9), 250_000)
	case batch:
		l.base = 450_000 + below(derive(seed, 9), 480_000)
	}
	return l
}

func (u *unit) owner(seed uint64) *owner {
	project := u.Project
	if project == "" {
		project = u.tenant.Projects[0]
	}
	o := newOwner(u.tenant, u.scheduler, u.Name, project, seed)
	if u.Kind == notebook {
		// A notebook belongs to a person, who keeps to the same leaf.
		o.user = u.tenant.users[below(u.seed, int64(len(u.tenant.users)))]
	}
	return o
}

func newOwner(t *tenant, s scheduler, name, project string, seed uint64) *owner {
	if s == slurm {
		return &owner{
			project: project, account: t.Name,
			job:  fmt.Sprintf("%d", 1_000_000+below(seed, 9_000_000)),
			user: t.users[below(derive(seed, 7), int64(len(t.users)))],
		}
	}
	uid := uuidOf(derive(seed, 8))
	return &owner{project: project, namespace: t.Name, pod: name + "-" + uid[:8], uid: uid, container: "main"}
}
