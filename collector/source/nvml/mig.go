package nvml

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gputally/gputally/collector/source/local"
)

// instance is a compute instance, or a GPU instance without any.
type instance struct {
	key local.Key
	dev gonvml.Device // nil: it has no compute instance
	// whole: the instance is all of its GPU instance.
	whole bool
}

// profile is a kind of GPU instance that a GPU offers.
type profile struct {
	id, slices, most uint32
	memoryMB         uint64
	engines          [3]uint32 // decoders, JPEG, OFA
	name             string    // "1g.10gb+me"; empty: the driver doesn't tell
}

// layout reads the GPU's MIG mode and instances. It fails if they are unknown; an instance that vanishes meanwhile is
// left out.
func (s *Source) layout(g *gpu) error {
	g.mig = false
	g.instances = g.instances[:0]
	if s.lib.have("nvmlDeviceGetMigMode") {
		mode, _, ret := g.dev.GetMigMode()
		if ret != gonvml.SUCCESS && ret != gonvml.ERROR_NOT_SUPPORTED {
			return callError("get MIG mode", ret)
		}
		g.mig = ret == gonvml.SUCCESS && mode == gonvml.DEVICE_MIG_ENABLE
	}
	if g.mig {
		s.profile(g)
		if err := s.computeInstances(g); err != nil {
			return err
		}
		if err := s.bareInstances(g); err != nil {
			return err
		}
		markWhole(g)
	}
	g.pruneSamplers()
	g.list()
	return nil
}

// list converts the instances for the Builder and reuses their values.
func (g *gpu) list() {
	room := g.listed[:cap(g.listed)]
	g.listed = g.listed[:0]
	for i, in := range g.instances {
		next := local.Instance{Key: in.key}
		if i < len(room) {
			next.Values = room[i].Values[:0]
		}
		g.listed = append(g.listed, next)
	}
}

// vanished returns whether a return code means that the instance was just destroyed.
func vanished(ret gonvml.Return) bool {
	return ret == gonvml.ERROR_NOT_FOUND || ret == gonvml.ERROR_INVALID_ARGUMENT
}

// computeInstances lists the MIG devices, whose indices have gaps.
func (s *Source) computeInstances(g *gpu) error {
	if !s.lib.haveAll("nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex",
		"nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId") {
		return callError("list MIG devices", gonvml.ERROR_FUNCTION_NOT_FOUND)
	}
	most, ret := g.dev.GetMaxMigDeviceCount()
	if ret != gonvml.SUCCESS {
		return callError("count MIG devices", ret)
	}
	for i := range most {
		dev, ret := g.dev.GetMigDeviceHandleByIndex(i)
		if vanished(ret) {
			continue
		}
		if ret != gonvml.SUCCESS {
			return fmt.Errorf("MIG device %d: %w", i, callError("get handle", ret))
		}
		in, ret := s.migDevice(g, dev)
		if vanished(ret) {
			continue
		}
		if ret != gonvml.SUCCESS {
			return fmt.Errorf("MIG device %d: %w", i, callError("get identity", ret))
		}
		g.instances = append(g.instances, in)
	}
	return nil
}

// migDevice reads a MIG device's identity.
func (s *Source) migDevice(g *gpu, dev gonvml.Device) (in instance, ret gonvml.Return) {
	gi, ret := dev.GetGpuInstanceId()
	if ret != gonvml.SUCCESS {
		return in, ret
	}
	ci, ret := dev.GetComputeInstanceId()
	if ret != gonvml.SUCCESS {
		return in, ret
	}
	uuid, ret := dev.GetUUID()
	if ret != gonvml.SUCCESS {
		return in, ret
	}
	in = instance{key: local.Key{GI: uint32(gi), CI: int64(ci), UUID: uuid}, dev: dev}
	var a gonvml.DeviceAttributes
	if s.lib.have("nvmlDeviceGetAttributes_v2") {
		if a, ret = dev.GetAttributes(); vanished(ret) {
			return in, ret
		}
	}
	in.key.Slices = a.ComputeInstanceSliceCount
	in.whole = a.ComputeInstanceSliceCount > 0 && a.ComputeInstanceSliceCount == a.GpuInstanceSliceCount
	name, ret := dev.GetName()
	if vanished(ret) {
		return in, ret
	}
	if _, p, found := strings.Cut(name, " MIG "); found { // as written by nvidia-smi
		in.key.Profile = p
		return in, gonvml.SUCCESS
	}
	in.key.Profile = s.profileOf(g, a)
	return in, gonvml.SUCCESS
}

// profileOf returns a MIG device's profile by its attributes, if its name doesn't contain it: the GPU's profile with
// the same figures, else one made of the figures.
func (s *Source) profileOf(g *gpu, a gonvml.DeviceAttributes) string {
	if a.GpuInstanceSliceCount == 0 {
		return ""
	}
	part := ""
	if a.ComputeInstanceSliceCount < a.GpuInstanceSliceCount {
		part = fmt.Sprintf("%dc.", a.ComputeInstanceSliceCount)
	}
	engines := [3]uint32{a.SharedDecoderCount, a.SharedJpegCount, a.SharedOfaCount}
	for _, p := range g.profiles {
		if p.slices == a.GpuInstanceSliceCount && p.memoryMB == a.MemorySizeMB && p.engines == engines && p.name != "" {
			return part + p.name
		}
	}
	memory, ret := g.dev.GetMemoryInfo()
	if ret != gonvml.SUCCESS {
		return ""
	}
	return fmt.Sprintf("%s%dg.%dgb", part, a.GpuInstanceSliceCount, profileGB(a.MemorySizeMB, memory.Total))
}

// profileGB is the memory in a profile's name: eighths of the GPU's, rounded up, in whole GB, as in NVIDIA's
// go-nvlib.
func profileGB(instanceMB, boardBytes uint64) uint64 {
	const gb, eighths = 1 << 30, 8
	share := math.Ceil(float64(instanceMB<<20)/float64(boardBytes)*eighths) / eighths
	return uint64(math.Round(share * float64((boardBytes+gb-1)/gb)))
}

// profile reads once which GPU instances a GPU offers; the largest is the whole GPU.
func (s *Source) profile(g *gpu) {
	if g.profiled || !s.lib.have("nvmlDeviceGetGpuInstanceProfileInfo") {
		return
	}
	g.profiled = true
	for i := range gonvml.GPU_INSTANCE_PROFILE_COUNT {
		info, ret := g.dev.GetGpuInstanceProfileInfo(i)
		if ret != gonvml.SUCCESS {
			continue
		}
		p := profile{
			id: info.Id, slices: info.SliceCount, most: info.InstanceCount, memoryMB: info.MemorySizeMB,
			engines: [3]uint32{info.DecoderCount, info.JpegCount, info.OfaCount},
		}
		if s.lib.have("nvmlDeviceGetGpuInstanceProfileInfoV") {
			if v2, ret := g.dev.GetGpuInstanceProfileInfoV(i).V2(); ret == gonvml.SUCCESS {
				p.name = strings.TrimPrefix(text(v2.Name[:]), "MIG ")
			}
		}
		g.profiles = append(g.profiles, p)
	}
	if len(g.profiles) > 0 {
		g.slices = slices.MaxFunc(g.profiles, func(a, b profile) int { return cmp.Compare(a.slices, b.slices) }).slices
	}
}

// bareInstances lists GPU instances without compute instances. It requires root, and is skipped if compute instances
// have every slice.
func (s *Source) bareInstances(g *gpu) error {
	const denied = "GPU instances without compute instances aren't visible: only root may list them"
	used := uint32(0)
	for _, in := range g.instances {
		used += in.key.Slices
	}
	if s.said[denied] || used >= g.slices || !s.lib.haveAll("nvmlDeviceGetGpuInstances", "nvmlGpuInstanceGetInfo") {
		return nil
	}
	for _, p := range g.profiles {
		// go-nvml allocates as many as this says, and requires at least one.
		list, ret := g.dev.GetGpuInstances(&gonvml.GpuInstanceProfileInfo{Id: p.id, InstanceCount: max(p.most, 1)})
		switch ret {
		case gonvml.SUCCESS:
		case gonvml.ERROR_NO_PERMISSION:
			s.sayOnce(denied, "gpu", g.uuid)
			return nil
		case gonvml.ERROR_NOT_SUPPORTED, gonvml.ERROR_INVALID_ARGUMENT:
			continue
		default:
			return callError("list GPU instances", ret)
		}
		for _, gi := range list {
			info, ret := gi.GetInfo()
			if ret != gonvml.SUCCESS || slices.ContainsFunc(g.instances,
				func(in instance) bool { return in.key.GI == info.Id }) {
				continue
			}
			g.instances = append(g.instances, instance{key: local.Key{GI: info.Id, CI: -1, Profile: p.name, Slices: p.slices}})
		}
	}
	return nil
}

// markWhole clears whole of a GPU instance with several compute instances.
func markWhole(g *gpu) {
	for i := range g.instances {
		for j := range g.instances {
			if i != j && g.instances[i].key.GI == g.instances[j].key.GI {
				g.instances[i].whole = false
			}
		}
	}
}

// text converts a C string in an array of chars.
func text(chars []int8) string {
	var b strings.Builder
	for _, c := range chars {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}
