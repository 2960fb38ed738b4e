package dcgm

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"slices"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"
)

// inventory is the host engine's list at one instant; inventories are comparable.
type inventory struct {
	gpus      []listed
	instances []godcgm.MigHierarchyInfo_v2
	// blind is why instances can't be listed (embedded without root); MIG GPUs are then left out, since their time
	// would count as stranded.
	blind string
}

// listed is a GPU with its DCGM id.
type listed struct {
	id    uint32
	state gpuState
}

type gpuState int

const (
	present gpuState = iota
	lost             // fallen off the bus
	hidden           // DCGM may not read it, or doesn't support it
)

// A host engine runs, but lists no GPU. Only the first error proves that the driver was reloaded when they reappear.
var (
	errDetached = errors.New("DCGM lists no GPU: the driver is detached or being reloaded")
	errNoGPU    = errors.New("DCGM lists no GPU: the node has none, or its driver isn't loaded")
)

// nothingThere returns whether an error is about the driver, not DCGM.
func nothingThere(err error) bool { return errors.Is(err, errDetached) || errors.Is(err, errNoGPU) }

func (inv *inventory) equal(other *inventory) bool {
	return inv.blind == other.blind && slices.Equal(inv.gpus, other.gpus) && slices.Equal(inv.instances, other.instances)
}

// list reads all GPUs and instances.
func (l *link) list() (*inventory, error) {
	all, err := l.devices()
	switch {
	case codeOf(err) == stGPUsDetached:
		return nil, errDetached
	case err != nil:
		return nil, err
	case len(all) == 0:
		return nil, errNoGPU
	}
	supported, err := godcgm.GetSupportedDevices()
	if err := call("dcgmGetAllSupportedDevices", err); err != nil {
		if codeOf(err) == stGPUsDetached {
			return nil, errDetached
		}
		return nil, err
	}
	inv := &inventory{gpus: make([]listed, 0, len(all))}
	detached := 0
	for _, id := range all {
		g := listed{id: id}
		if !slices.Contains(supported, uint(id)) {
			status := godcgm.GetGPUStatus(uint(id))
			g.state = stateOf(status)
			if status == godcgm.EntityStatusDetached {
				detached++
			}
		}
		inv.gpus = append(inv.gpus, g)
	}
	if detached == len(all) {
		return nil, errDetached
	}
	return inv, l.listInstances(inv)
}

// stateOf is the state of a GPU that is not among the supported ones.
func stateOf(status godcgm.EntityStatus) gpuState {
	switch status {
	case godcgm.EntityStatusUnsupported, godcgm.EntityStatusInaccessible,
		godcgm.EntityStatusDisabled, godcgm.EntityStatusDetached:
		return hidden
	}
	return lost
}

// listInstances calls go-dcgm only if the hierarchy has changed since its last call: a call takes 70 KB, and the
// check runs every second.
func (l *link) listInstances(inv *inventory) error {
	var mark C.uint64_t
	marked := C.gl_hierarchy_mark(l.handle, &l.buffer, &mark) == 0
	if marked && l.mig.read && mark == l.mig.mark {
		inv.instances = l.mig.instances
		return nil
	}
	if err := inv.readInstances(); err != nil {
		return err
	}
	l.mig.mark, l.mig.read, l.mig.instances = mark, marked, inv.instances
	return nil
}

func (inv *inventory) readInstances() error {
	h, err := godcgm.GetGPUInstanceHierarchy()
	switch err := call("dcgmGetGpuInstanceHierarchy", err); codeOf(err) {
	case stNotSupported: // no GPU of this node supports MIG
		return nil
	case stRequiresRoot:
		inv.blind = err.Error()
		return nil
	default:
		if err != nil {
			return err
		}
	}
	if h.Count > uint(len(h.EntityList)) {
		return fmt.Errorf("dcgmGetGpuInstanceHierarchy: %d instances are listed, at most %d are possible", h.Count,
			len(h.EntityList))
	}
	for _, e := range h.EntityList[:h.Count] {
		if e.Entity.EntityGroupId == godcgm.FE_GPU_I || e.Entity.EntityGroupId == godcgm.FE_GPU_CI {
			inv.instances = append(inv.instances, e)
		}
	}
	return nil
}

// gpuOf returns the DCGM id of an instance's GPU, found by its parents.
func (inv *inventory) gpuOf(e godcgm.MigHierarchyInfo_v2) (id uint32, ok bool) {
	for range 2 {
		if e.Parent.EntityGroupId == godcgm.FE_GPU {
			return uint32(e.Parent.EntityId), true
		}
		i := slices.IndexFunc(inv.instances, func(p godcgm.MigHierarchyInfo_v2) bool { return p.Entity == e.Parent })
		if i < 0 {
			return 0, false
		}
		e = inv.instances[i]
	}
	return 0, false
}
