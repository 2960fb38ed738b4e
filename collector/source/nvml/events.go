package nvml

import (
	"os"
	"slices"
	"sync"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gputally/gputally/collector/source/gpustate"
	"github.com/gputally/gputally/collector/source/local"
)

const (
	// waitMS bounds a wait for events, and so how long stopping takes.
	waitMS = 200
	// noInstance is the instance id of an event without one.
	noInstance = 0xFFFFFFFF
	// eventTypes are the errors that a driver reports as events.
	eventTypes = gonvml.EventTypeXidCriticalError | gonvml.EventTypeSingleBitEccError | gonvml.EventTypeDoubleBitEccError
	// maxQueued bounds the events waiting for the next reading: a GPU may send thousands.
	maxQueued = 4096
)

// events waits for XIDs in a goroutine and queues them until the next reading.
type events struct {
	stop, done chan struct{} // nil: no goroutine is running

	mu     sync.Mutex
	set    gonvml.EventSet
	uuids  map[gonvml.Device]string // registered
	queue  []local.XID
	failed bool // the goroutine ended because of an error
	// twice are events of the previous set that this one may report again: they came while both were registered.
	twice []gonvml.EventData
}

// take empties the queue.
func (e *events) take() []local.XID {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.queue
	e.queue = nil
	return out
}

// listen starts the goroutine that waits for the events of all GPUs, unless it is running.
func (s *Source) listen(present []*gpu) {
	e := s.events
	if !s.lib.haveAll("nvmlEventSetCreate", "nvmlEventSetFree", "nvmlDeviceRegisterEvents",
		"nvmlDeviceGetSupportedEventTypes") {
		s.sayOnce("XIDs aren't visible: the library has no events")
		return
	}
	if e.ended() {
		s.drain()
		e.close()
	}
	if e.stop == nil {
		set, ret := s.lib.api.EventSetCreate()
		if ret != gonvml.SUCCESS {
			s.sayOnce("XIDs aren't visible: creating an event set failed", "error", ret)
			return
		}
		e.set, e.uuids = set, map[gonvml.Device]string{}
	}
	for _, g := range present {
		if !g.lost {
			s.register(g)
		}
		if g.mig && os.Geteuid() != 0 {
			s.sayOnce("XIDs of MIG instances aren't visible, only those of whole GPUs: they require root")
		}
	}
	if e.stop == nil {
		e.stop, e.done = make(chan struct{}), make(chan struct{})
		go s.wait(e.stop, e.done)
	}
}

// ended returns whether the goroutine ended because of an error.
func (e *events) ended() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failed
}

// register adds a GPU's events to the set, which may be waited for at the same time.
func (s *Source) register(g *gpu) {
	e := s.events
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, there := e.uuids[g.dev]; there {
		return
	}
	switch ret := enlist(g.dev, e.set); ret {
	case gonvml.SUCCESS:
		e.uuids[g.dev] = g.uuid
	case gonvml.ERROR_GPU_IS_LOST:
	default:
		s.sayOnce("XIDs of a GPU aren't visible", "gpu", g.uuid, "error", ret)
	}
}

// enlist registers the events that a GPU supports.
func enlist(dev gonvml.Device, set gonvml.EventSet) gonvml.Return {
	types, ret := dev.GetSupportedEventTypes()
	if ret != gonvml.SUCCESS {
		return ret
	}
	if types&gonvml.EventTypeXidCriticalError == 0 {
		return gonvml.ERROR_NOT_SUPPORTED
	}
	return dev.RegisterEvents(types&eventTypes, set)
}

// wait receives events until it is stopped. When a GPU is lost, it continues with the others; any other error ends
// it, and the next reading starts again.
func (s *Source) wait(stop <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	for {
		select {
		case <-stop:
			return
		default:
		}
		data, ret := s.events.current().Wait(waitMS)
		switch {
		case ret == gonvml.SUCCESS:
			s.happened(data)
		case ret == gonvml.ERROR_TIMEOUT:
			s.events.onlyOnce()
		case ret == gonvml.ERROR_GPU_IS_LOST && s.renewSet():
		default:
			s.deps.Log.Warn("waiting for XIDs failed; the next reading starts it again", "error", ret)
			s.events.mu.Lock()
			s.events.failed = true
			s.events.mu.Unlock()
			return
		}
	}
}

func (e *events) current() gonvml.EventSet {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.set
}

// renewSet creates a set of the GPUs that aren't lost; false: none was, or it failed. The old set's remaining events
// are read partly before and partly after the new one exists, so that none is lost in between.
func (s *Source) renewSet() bool {
	s.drain()
	e := s.events
	e.mu.Lock()
	defer e.mu.Unlock()
	set, ret := s.lib.api.EventSetCreate()
	if ret != gonvml.SUCCESS {
		return false
	}
	kept := make(map[gonvml.Device]string, len(e.uuids))
	for dev, uuid := range e.uuids {
		if enlist(dev, set) == gonvml.SUCCESS {
			kept[dev] = uuid
		}
	}
	fewer := len(kept) < len(e.uuids)
	e.twice = pending(e.set)
	for _, data := range e.twice {
		s.keep(data)
	}
	_ = e.set.Free()
	e.set, e.uuids = set, kept
	return fewer
}

// drain reads the set's events without waiting for more.
func (s *Source) drain() {
	e := s.events
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, data := range pending(e.set) {
		s.keep(data)
	}
}

// pending returns the current events of a set; none if it can't be read.
func pending(set gonvml.EventSet) (out []gonvml.EventData) {
	for len(out) < maxQueued {
		data, ret := set.Wait(0)
		if ret != gonvml.SUCCESS {
			break
		}
		out = append(out, data)
	}
	return out
}

// onlyOnce ends the check for repeated events: the set has reported all that it had when it took over.
func (e *events) onlyOnce() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.twice = nil
}

// happened handles one event of the current set.
func (s *Source) happened(data gonvml.EventData) {
	e := s.events
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := slices.Index(e.twice, data); i >= 0 {
		e.twice = slices.Delete(e.twice, i, i+1)
		return
	}
	s.keep(data)
}

// keep counts an event, and queues an XID. The caller holds the lock on events.
func (s *Source) keep(data gonvml.EventData) {
	switch data.EventType {
	case gonvml.EventTypeSingleBitEccError:
		s.metrics.ecc.WithLabelValues("single_bit").Inc()
	case gonvml.EventTypeDoubleBitEccError:
		s.metrics.ecc.WithLabelValues("double_bit").Inc()
	case gonvml.EventTypeXidCriticalError:
		e := s.events
		uuid, known := e.uuids[data.Device]
		if !known { // the event has another handle of the GPU
			var ret gonvml.Return
			uuid, ret = data.Device.GetUUID()
			known = ret == gonvml.SUCCESS
		}
		if !known || len(e.queue) >= maxQueued {
			s.metrics.xids.WithLabelValues("dropped").Inc()
			return
		}
		e.queue = append(e.queue, local.XID{
			At: s.deps.Clock.Now(), UUID: uuid, Part: partOf(data),
			Code: int64(data.EventData),
		})
		s.metrics.xids.WithLabelValues("taken").Inc()
	}
}

// partOf is where an event happened, at one of three levels.
func partOf(data gonvml.EventData) gpustate.Part {
	switch {
	case data.GpuInstanceId == noInstance:
		return gpustate.Whole
	case data.ComputeInstanceId == noInstance:
		return gpustate.Instance(data.GpuInstanceId)
	}
	return gpustate.ComputeInstance(data.GpuInstanceId, data.ComputeInstanceId)
}

// close ends the goroutine and frees the set; queued events stay.
func (e *events) close() {
	if e.stop == nil {
		return
	}
	close(e.stop)
	<-e.done
	_ = e.set.Free()
	e.set, e.uuids, e.stop, e.done, e.failed, e.twice = nil, nil, nil, nil, false, nil
}
