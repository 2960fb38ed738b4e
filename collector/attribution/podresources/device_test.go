package podresources

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/collector/attribution"
)

func TestParseDeviceForms(t *testing.T) {
	board := attribution.Device{UUID: gpuA}
	instance := attribution.Device{UUID: migA}
	old := attribution.Device{UUID: gpuA, GI: n(11), CI: n(0)}
	for id, want := range map[string]deviceID{
		gpuA:                         {board, gpuA, ""},
		gpuA + "::3":                 {board, gpuA, "3"},
		migA:                         {instance, migA, ""},
		migA + "::12":                {instance, migA, "12"},
		"MIG-" + gpuA + "/11/0":      {old, "MIG-" + gpuA + "/11/0", ""},
		"MIG-" + gpuA + "/11/0::1":   {old, "MIG-" + gpuA + "/11/0", "1"},
		"nvidia0":                    {attribution.Device{Minor: n(0)}, "nvidia0", ""},
		"nvidia15::2":                {attribution.Device{Minor: n(15)}, "nvidia15", "2"},
		"nvidia0/gi9":                {attribution.Device{Minor: n(0), GI: n(9)}, "nvidia0/gi9", ""},
		"nvidia0/vgpu4":              {attribution.Device{Minor: n(0)}, "nvidia0", "4"},
		"nvidia0/gi9/vgpu4":          {attribution.Device{Minor: n(0), GI: n(9)}, "nvidia0/gi9", "4"},
		"nvidia0/gi9/vgpu4::1":       {attribution.Device{Minor: n(0), GI: n(9)}, "nvidia0/gi9", "4::1"},
		"nvidia4294967295/gi0/vgpu0": {attribution.Device{Minor: n(4294967295), GI: n(0)}, "nvidia4294967295/gi0", "0"},
	} {
		got, err := parseDevice(id)
		if err != nil {
			t.Errorf("parseDevice(%q): %v", id, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(deviceID{})); diff != "" {
			t.Errorf("parseDevice(%q) (-want +got):\n%s", id, diff)
		}
	}
}

func TestParseDeviceRefuses(t *testing.T) {
	for _, id := range []string{
		"", "0", "GPU-", "GPU-1", gpuA + "-3", gpuA + "::", gpuA + "::x", gpuA + "::1::2", gpuA + "::-1", gpuA + "/1/0",
		"MIG-" + gpuA, "MIG-" + gpuA + "/1", "MIG-" + gpuA + "/1/0/0", "MIG-" + gpuA + "/a/0", "MIG-" + gpuA + "/1/",
		"MIG-1", "nvidia", "nvidiax", "nvidia0/gi", "nvidia0/ci1", "nvidia0/vgpu1/gi0", "nvidia0/gi1/vgpu", "tegra", "0000:3b:00.0",
	} {
		if got, err := parseDevice(id); !errors.Is(err, errForm) {
			t.Errorf("parseDevice(%q): got %+v, %v; want an error that lists the forms", id, got, err)
		}
	}
	for _, id := range []string{"nvidia4294967296", "nvidia0/gi99999999999"} {
		if got, err := parseDevice(id); err == nil {
			t.Errorf("parseDevice(%q): got %+v, want an error: the number is too big", id, got)
		}
	}
}
