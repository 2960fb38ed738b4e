package nvml

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/local"
)

// renewAfter is the interval at which NVML is initialised again while a GPU is lost: it counts the GPUs only then,
// and a GPU that was reset reappears only then.
const renewAfter = 5 * time.Minute

// gpu is the state of a GPU from reading to reading.
type gpu struct {
	uuid, name string
	index      int
	slices     uint32 // compute slices; 0: not reported
	mig, lost  bool

	dev       gonvml.Device // nil: unknown since the last initialisation
	gpm       bool
	profiles  []profile
	profiled  bool // profiles were read
	samplers  map[samplerKey]*sampler
	values    []local.Value // reused, like the next
	instances []instance
	listed    []local.Instance
}

// forget clears what is valid for one initialisation only.
func (g *gpu) forget() { g.dev, g.profiles, g.profiled, g.gpm = nil, nil, false, false }

func (s *Source) anyLost() bool {
	for _, g := range s.gpus {
		if g.lost {
			return true
		}
	}
	return false
}

// enumerate lists the GPUs by index. A lost GPU no longer has a UUID, so known GPUs that are missing are listed as
// lost. It is complete if every index was answered; an error that the driver is unloaded is returned alone.
func (s *Source) enumerate() (present []*gpu, complete bool, err error) {
	count, ret := s.lib.api.DeviceGetCount()
	if ret != gonvml.SUCCESS {
		return nil, false, callError("count GPUs", ret)
	}
	var errs []error
	found, lostIndices := map[string]bool{}, 0
	for i := range count {
		g, err := s.at(i)
		switch {
		case gone(err):
			return nil, false, err
		case lost(err):
			lostIndices++
		case err != nil:
			errs = append(errs, fmt.Errorf("gpu at index %d: %w", i, err))
		case found[g.uuid]:
			errs = append(errs, fmt.Errorf("gpu at index %d: UUID %s is also another GPU's", i, g.uuid))
		default:
			found[g.uuid], g.lost = true, false
			present = append(present, g)
		}
	}
	for uuid, g := range s.gpus {
		switch {
		case found[uuid]:
		case lostIndices > 0:
			g.lose()
			present = append(present, g)
		case len(errs) == 0: // removed, or not attached since the driver was loaded
			g.freeSamplers()
			delete(s.gpus, uuid)
		}
	}
	slices.SortFunc(present, func(a, b *gpu) int { return a.index - b.index })
	return present, len(errs) == 0, errors.Join(errs...)
}

// at returns the GPU at an index.
func (s *Source) at(index int) (*gpu, error) {
	dev, ret := s.lib.api.DeviceGetHandleByIndex(index)
	if ret != gonvml.SUCCESS {
		return nil, callError("get handle", ret)
	}
	uuid, ret := dev.GetUUID()
	if ret != gonvml.SUCCESS {
		return nil, callError("get UUID", ret)
	}
	g := s.gpus[uuid]
	if g == nil {
		g = &gpu{uuid: uuid, samplers: map[samplerKey]*sampler{}}
		s.gpus[uuid] = g
	}
	g.index = index
	if g.dev == dev {
		return g, nil
	}
	name, ret := dev.GetName()
	if ret != gonvml.SUCCESS {
		return nil, callError("get name", ret)
	}
	g.forget()
	g.dev, g.name = dev, strings.TrimSpace(name)
	g.gpm = s.cfg.GPM && s.supportsGPM(dev)
	return g, nil
}

// lose marks a GPU as lost; its earlier samples can't be used any more.
func (g *gpu) lose() {
	g.lost = true
	for _, sp := range g.samplers {
		sp.seeded = false
	}
}

// read reads a GPU's identity, instances and values.
func (s *Source) read(g *gpu, slot source.Slot) (local.GPU, error) {
	if !g.lost {
		if err := s.layout(g); lost(err) {
			g.lose()
		} else if err != nil {
			return local.GPU{}, err
		}
	}
	r := reader{s: s, lib: s.lib, dev: g.dev, values: g.values[:0]}
	if !g.lost {
		r.board(g, slot)
		g.values = r.values
	}
	if lost(r.fatal) {
		g.lose()
	} else if r.fatal != nil {
		return local.GPU{}, r.fatal
	}
	b := g.board()
	b.Reset, b.EnergyAt = s.away, r.energyAt
	if !g.lost {
		b.Values = g.values
	}
	return b, nil
}

// board returns what is known without values.
func (g *gpu) board() local.GPU {
	b := local.GPU{UUID: g.uuid, Model: g.name, Index: uint32(g.index), Slices: g.slices, MIG: g.mig, Lost: g.lost}
	if !g.lost {
		b.Instances = g.listed
	}
	return b
}

// layouts lists the GPUs with their instances only, for a look between readings, without those that fail. It fails if
// the driver is unloaded.
func (s *Source) layouts() (boards []local.GPU, err error) {
	present, _, err := s.enumerate()
	if gone(err) {
		return nil, s.stop(err)
	}
	for _, g := range present {
		if !g.lost {
			if err := s.layout(g); gone(err) {
				return nil, s.stop(err)
			} else if err != nil {
				continue
			}
		}
		boards = append(boards, g.board())
	}
	return boards, nil
}
