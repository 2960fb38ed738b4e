package dcgm

import (
	"math"
	"time"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/collector/source/local"
)

// window is the time from which values are valid for a slot, in µs since 1970.
type window struct {
	startUS, endUS int64 // the slot
	intervalUS     int64
}

// fresh returns whether a latest value is of the slot: not older than the last sample before it, and not later than
// its end, as after the clock was set back.
func (w window) fresh(tsUS int64) bool {
	return tsUS >= w.startUS-w.intervalUS && tsUS <= w.endUS+w.intervalUS
}

// read reads the values of a slot that has just ended.
func (s *Source) read(slot source.Slot) local.Seen {
	now := s.deps.Clock.Now()
	s.fitSlot(slot.Length)
	had := s.session != nil
	err := s.refresh(now)
	if err != nil && had && s.session == nil { // a restarted host engine still has the slot's energy
		s.retryAt = now
		err = s.refresh(now)
	}
	switch {
	case nothingThere(err):
		return local.Seen{Reading: local.Reading{At: now}, Err: err}
	case err != nil:
		return local.Seen{Nothing: true, Err: err}
	}
	w := window{
		slot.Start.UnixMicro(), max(slot.End().UnixMicro(), now.UnixMicro()),
		s.session.watches.interval.Microseconds(),
	}
	for _, step := range []func() error{
		s.readBind,
		s.readXIDs,
		func() error { return s.readActivity(slot, w) },
		func() error { return s.readLatest(w) },
	} {
		if err := step(); codeOf(err) == stGPUsDetached {
			s.away(errDetached)
			return local.Seen{Reading: local.Reading{At: now}, Err: errDetached}
		} else if err != nil {
			return local.Seen{Nothing: true, Err: s.lose(now, err)}
		}
	}
	l := s.session.layout
	return local.Seen{Reading: local.Reading{At: now, Complete: l.leftOut == nil, GPUs: l.boards}, Err: l.leftOut}
}

// fitSlot makes DCGM sample at least once per slot, and keep two slots.
func (s *Source) fitSlot(length time.Duration) {
	s.slot = length
	if s.session == nil {
		return
	}
	w := s.session.watches
	if interval, keep := s.sampling(); interval != w.interval || keep != w.keep {
		w.interval, w.keep, s.session.remake = interval, keep, true
	}
}

// sampling returns DCGM's sampling interval, and how long it keeps samples.
func (s *Source) sampling() (interval, keep time.Duration) {
	if s.slot == 0 { // before the first reading
		return s.cfg.Interval, s.cfg.Keep
	}
	return min(s.cfg.Interval, s.slot), max(s.cfg.Keep, 2*s.slot)
}

// readActivity averages the samples of the slot, since the latest one covers only its own interval. A sample counts
// for the slot in which its interval ends.
func (s *Source) readActivity(slot source.Slot, w window) error {
	ses := s.session
	for i := range ses.layout.parts {
		ses.layout.parts[i].activity = [2]mean{}
	}
	if ses.watches.activity == nil {
		return nil
	}
	records, err := ses.link.since(ses.watches.activity, w.startUS)
	if err != nil {
		return err
	}
	for i := range records {
		ses.layout.takeSample(&records[i], w, slot.End().UnixMicro())
	}
	return nil
}

// takeSample adds a sample to the mean of its part. An instance's first sample is dropped, since it may cover a time
// in which its entity id denoted another instance.
func (l *layout) takeSample(r *record, w window, endUS int64) {
	p, which, at := l.of(r), isActivity(uint16(r.field)), int64(r.ts_us)
	if p == nil || which < 0 || at <= w.startUS || at > endUS || (p.leaf != onBoard && at-w.intervalUS < p.sinceUS) {
		return
	}
	if v, ok := valueOf(r); ok && r.status == 0 && !math.IsNaN(v) {
		p.activity[which].sum += v
		p.activity[which].n++
	}
}

// readLatest sets the GPUs' values. GPUs and instances are read by two calls, since DCGM reads all fields of all
// entities of a call and GPUs have five times the fields.
func (s *Source) readLatest(w window) error {
	ses := s.session
	l := ses.layout
	for i := range l.boards {
		l.boards[i].Values = l.boards[i].Values[:0]
		l.boards[i].EnergyAt = time.Time{}
		for j := range l.boards[i].Instances {
			l.boards[i].Instances[j].Values = l.boards[i].Instances[j].Values[:0]
		}
	}
	for _, c := range l.calls(s.extra) {
		records, err := ses.link.latest(c.entities, c.fields)
		if err != nil {
			return err
		}
		for i := range records {
			s.takeLatest(&records[i], w)
		}
	}
	for i := range l.parts {
		l.parts[i].addActivity(l)
	}
	return nil
}

// batchCall is one dcgmEntitiesGetLatestValues.
type batchCall struct {
	entities []entity
	fields   []uint16
}

// calls are created once per layout.
func (l *layout) calls(extra []uint16) []batchCall {
	if l.batch != nil {
		return l.batch
	}
	latest := func(own, profiling []uint16) []uint16 {
		out := append([]uint16{}, own...)
		for _, id := range profiling {
			if isActivity(id) < 0 {
				out = append(out, id)
			}
		}
		return out
	}
	l.batch = []batchCall{
		{l.entities(isBoard), append(latest(boardFields, profilingFields), extra...)},
		{l.entities(isLeaf), latest(instanceFields, instanceProfilingFields)},
	}
	return l.batch
}

// takeLatest sets a value of its GPU or instance, or counts why it is absent.
func (s *Source) takeLatest(r *record, w window) {
	l := s.session.layout
	p, id := l.of(r), uint16(r.field)
	if p == nil || p.leaf == noLeaf || (id >= firstProfiling && id <= profilingFields[len(profilingFields)-1] &&
		!p.profiling) {
		return
	}
	b := &l.boards[p.board]
	if r.status == stGPULost && p.leaf == onBoard {
		b.Lost, s.session.remake = true, true
	}
	if id == fieldUUID {
		s.checkUUID(r, p, w)
		return
	}
	v, ok := valueOf(r)
	at := int64(r.ts_us)
	switch {
	case r.status != 0:
		s.metrics.absent.WithLabelValues(absentStatus).Inc()
	case r._type != 'd' && r._type != 'i' && r._type != 't':
		s.metrics.absent.WithLabelValues(absentType).Inc()
	case !ok:
		s.metrics.absent.WithLabelValues(absentBlank).Inc()
	case !w.fresh(at) || (p.leaf >= 0 && at <= p.sinceUS):
		s.metrics.absent.WithLabelValues(absentStale).Inc()
	case p.leaf >= 0:
		in := &b.Instances[p.leaf]
		in.Values = append(in.Values, local.Value{ID: uint32(id), V: v})
	default:
		b.Values = append(b.Values, local.Value{ID: uint32(id), V: v})
		switch id {
		case field.EnergyMJ:
			b.EnergyAt = time.UnixMicro(at).UTC()
		case field.MIGMode:
			b.MIG = v == 1 || len(b.Instances) > 0
		}
	}
}

// checkUUID detects an instance that was recreated and looks the same in DCGM's list. The slot's values are then
// mixed, and absent.
func (s *Source) checkUUID(r *record, p *part, w window) {
	at := int64(r.ts_us)
	switch {
	case r.status != 0 || r.value == 0 || !w.fresh(at) || at <= p.sinceUS:
	case p.uuid == 0:
		p.uuid = uint64(r.value)
	case uint64(r.value) != p.uuid:
		s.session.remake, p.remade = true, true
	}
}

// addActivity appends the slot's means to the values of a GPU or instance.
func (p *part) addActivity(l *layout) {
	if p.leaf == noLeaf {
		return
	}
	into := &l.boards[p.board].Values
	if p.leaf >= 0 {
		into = &l.boards[p.board].Instances[p.leaf].Values
	}
	if p.remade {
		*into = (*into)[:0]
		return
	}
	for i, id := range activityFields {
		if m := p.activity[i]; m.n > 0 {
			*into = append(*into, local.Value{ID: uint32(id), V: m.sum / float64(m.n)})
		}
	}
}

// valueOf converts a record to float64, by the field's type (DCGM_FT_*). ok is false if it isn't a number, or
// blank.
func valueOf(r *record) (v float64, ok bool) {
	switch r._type {
	case 'd':
		v = math.Float64frombits(uint64(r.value))
	case 'i', 't':
		v = float64(int64(r.value))
	default:
		return 0, false
	}
	return v, !field.IsBlank(v)
}
