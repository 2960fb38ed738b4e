package dcgm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"
)

// Names of watches, and of what fails with them.
const (
	watchBoards    = "boards"
	watchInstances = "instances"
	watchExtra     = "extra"
	watchXID       = "xid"
	watchBind      = "bind"
	watchActivity  = "activity"
	watchProfiling = "profiling"
)

// watch is a group of entities and a group of fields that DCGM samples for us.
type watch struct {
	group   godcgm.GroupHandle
	fields  godcgm.FieldHandle
	watched bool
}

// watches are those of a connection. DCGM takes 64 groups of entities and 64 of
// fields at a time.
type watches struct {
	fields   map[string]godcgm.FieldHandle // by name; they last as long as the connection
	standing []*watch                      // but for profiling
	xid      *watch
	bind     *watch // nil: this DCGM has no such event
	activity *watch // the entities that are watched for profiling
	models   []*modelWatch
	prefix   string
	interval time.Duration
	keep     time.Duration
}

// modelWatch is the profiling of one model's GPUs.
type modelWatch struct {
	model   string
	watches []*watch
	failed  error
	retryUS int64 // when to try again, where it failed
}

const profilingRetry = time.Minute

// newWatches has names of its own: a host engine wants each name of a group of
// fields once, whoever makes it.
func newWatches(interval, keep time.Duration, nowUS int64) *watches {
	return &watches{
		fields: map[string]godcgm.FieldHandle{}, interval: interval, keep: keep,
		prefix: fmt.Sprintf("gpuledger-%d-%d-", os.Getpid(), nowUS),
	}
}

// fieldGroup makes a group of fields once.
func (w *watches) fieldGroup(name string, ids []uint16) (godcgm.FieldHandle, error) {
	if h, ok := w.fields[name]; ok {
		return h, nil
	}
	fields := make([]godcgm.Short, 0, len(ids))
	for _, id := range ids {
		fields = append(fields, godcgm.Short(id))
	}
	h, err := godcgm.FieldGroupCreate(w.prefix+name, fields)
	if err := call("dcgmFieldGroupCreate", err); err != nil {
		return h, err
	}
	w.fields[name] = h
	return h, nil
}

// group makes a watch that samples nothing yet; nil: it has no entities.
func (w *watches) group(name, fieldsName string, ids []uint16, entities []entity) (*watch, error) {
	if len(entities) == 0 || len(ids) == 0 {
		return nil, nil
	}
	fields, err := w.fieldGroup(fieldsName, ids)
	if err != nil {
		return nil, err
	}
	group, err := godcgm.CreateGroup(w.prefix + name)
	if err := call("dcgmGroupCreate", err); err != nil {
		return nil, err
	}
	out := &watch{group: group, fields: fields}
	for _, e := range entities {
		err := godcgm.AddEntityToGroup(group, godcgm.Field_Entity_Group(e.group), uint(e.id))
		if err := call("dcgmGroupAddEntity", err); err != nil {
			out.drop()
			return nil, err
		}
	}
	return out, nil
}

// start has the host engine sample it. History is kept by age, a latest value by
// number.
func (w *watches) start(name, fieldsName string, ids []uint16, entities []entity, history bool) (*watch, error) {
	out, err := w.group(name, fieldsName, ids, entities)
	if out == nil || err != nil {
		return nil, err
	}
	keep, samples := 0.0, int32(2)
	if history {
		keep, samples = w.keep.Seconds(), 0
	}
	err = godcgm.WatchFieldsWithGroupEx(out.fields, out.group, w.interval.Microseconds(), keep, samples)
	if err := call("dcgmWatchFields", err); err != nil {
		out.drop()
		return nil, err
	}
	out.watched = true
	return out, nil
}

// drop ends a watch. Where that fails its instances are gone, or the host
// engine, and the watch with them.
func (w *watch) drop() {
	if w == nil {
		return
	}
	if w.watched {
		_ = godcgm.UnwatchFields(w.fields, w.group)
	}
	_ = godcgm.DestroyGroup(w.group)
}

func (w *watches) dropAll() {
	for _, old := range w.standing {
		old.drop()
	}
	for _, m := range w.models {
		m.drop()
	}
	w.activity.drop()
	w.standing, w.models, w.xid, w.bind, w.activity = nil, nil, nil, nil, nil
}

func (m *modelWatch) drop() {
	for _, old := range m.watches {
		old.drop()
	}
	m.watches = nil
}

// rewatch makes all groups and watches anew for a layout. Its error means that
// nothing can be read; what fails by itself is counted and told.
func (s *Source) rewatch(nowUS int64) error {
	w, l := s.session.watches, s.session.layout
	w.dropAll()
	boards, leaves := l.entities(isBoard), l.entities(isLeaf)
	first := boards[:min(1, len(boards))]
	for _, v := range []struct {
		name     string
		ids      []uint16
		entities []entity
		history  bool
		into     **watch
		vital    bool
	}{
		{name: watchBoards, ids: boardFields, entities: boards, vital: true},
		{name: watchInstances, ids: instanceFields, entities: leaves},
		{name: watchXID, ids: xidFields, entities: l.entities(isAny), history: true, into: &w.xid},
		{name: watchExtra, ids: s.extra, entities: boards},
		{name: watchBind, ids: bindFields, entities: first, history: true, into: &w.bind},
	} {
		made, err := w.start(v.name, v.name, v.ids, v.entities, v.history)
		if err != nil {
			s.watchFailed(v.name, err)
			if v.vital || codeOf(err) == stConnectionInvalid {
				return fmt.Errorf("watch %s: %w", v.name, err)
			}
			continue
		}
		if made != nil {
			w.standing = append(w.standing, made)
		}
		if v.into != nil {
			*v.into = made
		}
	}
	s.modelWatches()
	return s.watchProfiles(nowUS)
}

// watchFailed tells of a watch that is done without; old news are for debugging.
func (s *Source) watchFailed(name string, err error) {
	s.metrics.watchFailures.WithLabelValues(name).Inc()
	level := slog.LevelWarn
	if was := s.told[name]; was == err.Error() || name == watchBind {
		level = slog.LevelDebug
	}
	s.told[name] = err.Error()
	s.deps.Log.Log(context.Background(), level, "DCGM refused a watch: its fields are absent", "watch", name, "error", err)
}

// modelWatches lists the models of present boards.
func (s *Source) modelWatches() {
	w, l := s.session.watches, s.session.layout
	for i := range l.boards {
		b := &l.boards[i]
		if s.cfg.Profiling && !b.Lost && !slices.ContainsFunc(w.models, func(m *modelWatch) bool { return m.model == b.Model }) {
			w.models = append(w.models, &modelWatch{model: b.Model})
		}
	}
}

// watchProfiles watches the models whose profiling isn't, and may be by now.
func (s *Source) watchProfiles(nowUS int64) error {
	w, l := s.session.watches, s.session.layout
	changed := false
	for i, m := range w.models {
		if len(m.watches) > 0 || nowUS < m.retryUS {
			continue
		}
		m.failed = s.watchModel(m, i)
		m.retryUS = nowUS + profilingRetry.Microseconds()
		if codeOf(m.failed) == stConnectionInvalid {
			return m.failed
		}
		if m.failed != nil {
			s.watchFailed(watchProfiling, fmt.Errorf("%s: %w%s", m.model, m.failed, profilingHint(codeOf(m.failed))))
			continue
		}
		changed = true
		for j := range l.parts {
			p := &l.parts[j]
			p.profiling = p.profiling || (p.leaf != noLeaf && l.boards[p.board].Model == m.model)
		}
	}
	if !changed {
		return nil
	}
	w.activity.drop()
	var err error
	w.activity, err = w.group(watchActivity, watchActivity, activityFields, l.entities(func(p *part) bool { return p.profiling }))
	if err != nil {
		return fmt.Errorf("watch %s: %w", watchActivity, err)
	}
	return nil
}

// watchModel asks for all profiling fields, and for the basic ones where that is
// refused: not all GPUs have all.
func (s *Source) watchModel(m *modelWatch, n int) error {
	w, l := s.session.watches, s.session.layout
	of := func(kind func(*part) bool) []entity {
		return l.entities(func(p *part) bool { return kind(p) && l.boards[p.board].Model == m.model })
	}
	var first error
	for _, set := range []struct {
		name            string
		board, instance []uint16
	}{
		{"all", profilingFields, instanceProfilingFields},
		{"basic", basicProfiling, basicProfiling},
	} {
		boards, err := w.start(fmt.Sprintf("%s-%d", watchProfiling, n), watchProfiling+"-"+set.name, set.board, of(isBoard), true)
		if err == nil {
			var leaves *watch
			leaves, err = w.start(fmt.Sprintf("%s-instances-%d", watchProfiling, n), watchProfiling+"-instances-"+set.name, set.instance, of(isLeaf), true)
			if err == nil {
				m.watches = slices.DeleteFunc([]*watch{boards, leaves}, func(w *watch) bool { return w == nil })
				return nil
			}
			boards.drop()
		}
		if first == nil {
			first = err
		}
		if codeOf(err) == stConnectionInvalid {
			break
		}
	}
	return errors.Join(first)
}

// profilingHint says what may help.
func profilingHint(code int) string {
	switch code {
	case stModuleNotLoaded:
		return ": install datacenter-gpu-manager-4-proprietary"
	case stRequiresRoot:
		return ": run nv-hostengine as root, or set NVreg_RestrictProfilingToAdminUsers=0"
	case stProfilingLibrary:
		return ": another profiler holds the GPU: a second host engine, or Nsight"
	case stNotSupported, stProfilingMissing:
		return ": this GPU can't be profiled; its utilisation (field 203) remains"
	}
	return ""
}
