package podresources

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/gputally/gputally/collector/attribution"
)

var (
	uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	gkeForm  = regexp.MustCompile(`^nvidia([0-9]+)(?:/gi([0-9]+))?(?:/vgpu([0-9]+))?$`)
)

// errForm lists what a device id may look like: NVIDIA's device plugin with and
// without sharing, its MIG ids before driver 470, and GKE's plugin.
var errForm = errors.New("want GPU-<uuid>, MIG-<uuid>, MIG-GPU-<uuid>/<gi>/<ci>, nvidia<N>[/gi<M>][/vgpu<K>], each " +
	"with or without ::<K>")

// deviceID is one device id taken apart.
type deviceID struct {
	device  attribution.Device
	base    string // the id without its replica: equal for all replicas of a device
	replica string // empty: the device is not shared
}

// parseDevice takes a device plugin's device id apart. GKE's N is the minor of
// /dev/nvidiaN, its vgpuK a replica like ::K.
func parseDevice(id string) (deviceID, error) {
	base, replica, shared := strings.Cut(id, "::")
	if _, err := number(replica); shared && err != nil {
		return deviceID{}, fmt.Errorf("replica %q: want a number: %w", replica, errForm)
	}
	if old, ok := strings.CutPrefix(base, "MIG-GPU-"); ok {
		device, err := parseOldMIG(old)
		return deviceID{device, base, replica}, err
	}
	for _, prefix := range []string{"GPU-", "MIG-"} {
		if uuid, ok := strings.CutPrefix(base, prefix); ok && uuidForm.MatchString(uuid) {
			return deviceID{attribution.Device{UUID: base}, base, replica}, nil
		}
	}
	return parseGKE(base, replica)
}

func parseOldMIG(rest string) (attribution.Device, error) {
	parts := strings.Split(rest, "/")
	if len(parts) != 3 || !uuidForm.MatchString(parts[0]) {
		return attribution.Device{}, errForm
	}
	gi, giErr := number(parts[1])
	ci, ciErr := number(parts[2])
	if giErr != nil || ciErr != nil {
		return attribution.Device{}, errForm
	}
	return attribution.Device{UUID: "GPU-" + parts[0], GI: gi, CI: ci}, nil
}

func parseGKE(base, replica string) (deviceID, error) {
	m := gkeForm.FindStringSubmatch(base)
	if m == nil {
		return deviceID{}, errForm
	}
	h := deviceID{base: base, replica: replica}
	var err error
	if h.device.Minor, err = number(m[1]); err != nil {
		return deviceID{}, fmt.Errorf("minor: %w", err)
	}
	if m[2] != "" {
		if h.device.GI, err = number(m[2]); err != nil {
			return deviceID{}, fmt.Errorf("GPU instance: %w", err)
		}
	}
	if vgpu := m[3]; vgpu != "" {
		h.base = strings.TrimSuffix(base, "/vgpu"+vgpu)
		h.replica = strings.TrimSuffix(vgpu+"::"+replica, "::")
	}
	return h, nil
}

func number(s string) (*uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("parse number %q: %w", s, err)
	}
	v := uint32(n)
	return &v, nil
}
