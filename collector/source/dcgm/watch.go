package dcgm

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"
)

// Names of watches, for logs and metrics.
const (
	watchBoards    = "boards"
	watchInstances = "instances"
	watchExtra     = "extra"
	watchXID       = "xid"
	watchBind      = "bind"
	watchActivity  = "activity"
	watchProfiling = "profiling"
)

// watch is a group of entities and a group of fields that DCGM samples.
type watch struct {
	group   godcgm.GroupHandle
	fields  godcgm.FieldHandle
	watched bool
}

// watches are a connection's watches. DCGM supports 64 groups of entities and 64 of fields.
type watches struct {
	fields   map[string]godcgm.FieldHandle // by name; they exist as long as the connection
	standing []*watch                      // all but profiling
	xid      *watch
	bind     *watch // nil: this DCGM version has no such event
	activity *watch // the entities watched for profiling
	profiles []*profile
	prefix   string
	interval time.Duration
	keep     time.Duration
}

// profile is the profiling of one model's GPUs or instances.
type profile struct {
	model   string
	of      func(*part) bool
	fields  []uint16
	watch   *watch // nil: refused, or not tried yet
	retryUS int64  // time of the next attempt
}

const profilingRetry = time.Minute

// newWatches uses unique names: names of field groups are unique in a host engine, across all clients.
func newWatches(interval, keep time.Duration, nowUS int64) *watches {
	return &watches{
		fields: map[string]godcgm.FieldHandle{}, interval: interval, keep: keep,
		prefix: fmt.Sprintf("gputally-%d-%d-", os.Getpid(), nowUS),
	}
}

// fieldGroup creates a group of fields once.
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

// group creates a watch without starting it; nil: it has no entities.
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

// start makes the host engine sample the watch. History is kept by age, latest values by number.
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

// drop removes a watch. If that fails, its instances or the host engine no longer exist, and the watch neither.
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
	for _, p := range w.profiles {
		p.watch.drop()
	}
	w.activity.drop()
	w.standing, w.profiles, w.xid, w.bind, w.activity = nil, nil, nil, nil, nil
}

// rewatch creates all groups and watches for a layout. An error means that nothing can be read; failed optional
// watches are counted and logged.
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
			s.watchFailed(v.name, "", err)
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
	s.listProfiles()
	return s.watchProfiles(nowUS)
}

// watchFailed logs a failed optional watch; repeated failures at debug level.
func (s *Source) watchFailed(name, model string, err error) {
	s.metrics.watchFailures.WithLabelValues(name).Inc()
	level := slog.LevelWarn
	if was := s.told[name+model]; was == err.Error() || name == watchBind {
		level = slog.LevelDebug
	}
	s.told[name+model] = err.Error()
	s.deps.Log.Log(context.Background(), level, "DCGM refused a watch: its fields are absent", "watch", name, "model",
		model, "error", err)
}

// listProfiles creates a profile for each model's GPUs and one for its instances: profiling may be refused for some
// only.
func (s *Source) listProfiles() {
	w, l := s.session.watches, s.session.layout
	if !s.cfg.Profiling {
		return
	}
	for i := range l.boards {
		b := &l.boards[i]
		if !b.Lost && !slices.ContainsFunc(w.profiles, func(p *profile) bool { return p.model == b.Model }) {
			w.profiles = append(w.profiles,
				&profile{model: b.Model, of: isBoard, fields: profilingFields},
				&profile{model: b.Model, of: isLeaf, fields: instanceProfilingFields})
		}
	}
}

// watchProfiles retries the profiles whose profiling isn't watched.
func (s *Source) watchProfiles(nowUS int64) error {
	w, l := s.session.watches, s.session.layout
	changed := false
	for _, pr := range w.profiles {
		if pr.watch != nil || nowUS < pr.retryUS {
			continue
		}
		pr.retryUS = nowUS + profilingRetry.Microseconds()
		of := func(p *part) bool { return pr.of(p) && l.boards[p.board].Model == pr.model }
		var err error
		if pr.watch, err = s.watchProfile(pr, l.entities(of)); codeOf(err) == stConnectionInvalid {
			return err
		}
		if err != nil {
			s.watchFailed(watchProfiling, pr.model, fmt.Errorf("%w%s", err, profilingHint(codeOf(err))))
		}
		if pr.watch == nil {
			continue
		}
		changed = true
		for i := range l.parts {
			l.parts[i].profiling = l.parts[i].profiling || of(&l.parts[i])
		}
	}
	if !changed {
		return nil
	}
	w.activity.drop()
	var err error
	w.activity, err = w.group(watchActivity, watchActivity, activityFields,
		l.entities(func(p *part) bool { return p.profiling }))
	if err != nil {
		return fmt.Errorf("watch %s: %w", watchActivity, err)
	}
	return nil
}

// watchProfile watches all profiling fields or, if refused, the basic ones, since not all GPUs support all. It
// returns the error of the first attempt.
func (s *Source) watchProfile(pr *profile, entities []entity) (*watch, error) {
	w := s.session.watches
	all, err := w.start(watchProfiling, fmt.Sprintf("%s-%d", watchProfiling, len(pr.fields)), pr.fields, entities, true)
	if err == nil || codeOf(err) == stConnectionInvalid {
		return all, err
	}
	if basic, again := w.start(watchProfiling, watchProfiling+"-basic", basicProfiling, entities, true); again == nil {
		return basic, nil
	}
	return nil, err
}

// profilingHint returns what may solve a profiling error.
func profilingHint(code int) string {
	switch code {
	case stModuleNotLoaded:
		return ": install datacenter-gpu-manager-4-proprietary"
	case stRequiresRoot, stNoPermission:
		return ": run nv-hostengine as root, or set NVreg_RestrictProfilingToAdminUsers=0"
	case stProfilingLibrary:
		return ": another profiler uses the GPU, such as a second host engine or Nsight"
	case stNotSupported, stProfilingMissing:
		return ": this GPU can't be profiled; its utilisation (field 203) remains"
	}
	return ""
}
