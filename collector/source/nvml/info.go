package nvml

import (
	"fmt"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gputally/gputally/collector/source"
)

// learn sets the result of Info; it changes only with the driver or the GPUs.
func (s *Source) learn(present []*gpu) {
	info := source.Info{GPUs: make(map[string]source.GPUInfo, len(present))}
	known := s.Info()
	changed := s.away || known.Driver == "" || len(present) != len(known.GPUs)
	for _, g := range present {
		was, there := known.GPUs[g.uuid]
		if changed = changed || !there; g.lost {
			info.GPUs[g.uuid] = was
		}
	}
	if !changed {
		return
	}
	if v, ret := s.lib.api.SystemGetDriverVersion(); ret == gonvml.SUCCESS {
		info.Driver = v
	}
	if v, ret := s.lib.api.SystemGetNVMLVersion(); ret == gonvml.SUCCESS {
		info.NVML = v
	}
	if s.lib.have("nvmlSystemGetCudaDriverVersion_v2") {
		if v, ret := s.lib.api.SystemGetCudaDriverVersion_v2(); ret == gonvml.SUCCESS {
			info.CUDA = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
		}
	}
	for _, g := range present {
		if !g.lost {
			info.GPUs[g.uuid] = s.infoOf(g.dev)
		}
	}
	s.Inform(info)
}

func (s *Source) infoOf(dev gonvml.Device) (info source.GPUInfo) {
	for _, f := range []struct {
		symbol string
		into   *string
		read   func() (string, gonvml.Return)
	}{
		{"nvmlDeviceGetVbiosVersion", &info.VBIOS, dev.GetVbiosVersion},
		{"nvmlDeviceGetSerial", &info.Serial, dev.GetSerial},
		{"nvmlDeviceGetPciInfo_v3", &info.PCIBusID, func() (string, gonvml.Return) {
			pci, ret := dev.GetPciInfo()
			return text(pci.BusId[:]), ret
		}},
	} {
		if s.lib.have(f.symbol) {
			if v, ret := f.read(); ret == gonvml.SUCCESS {
				*f.into = v
			}
		}
	}
	if s.lib.have("nvmlDeviceGetMinorNumber") {
		if v, ret := dev.GetMinorNumber(); ret == gonvml.SUCCESS {
			minor := uint32(v)
			info.Minor = &minor
		}
	}
	return info
}
