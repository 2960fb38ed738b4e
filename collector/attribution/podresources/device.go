package podresources

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/gputally/gputally/collector/attribution"
)

const uuidPattern = `[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`

var (
	uuidForm = regexp.MustCompile(`^` + uuidPattern + `$`)
	// deviceForm matches a UUID, else the UUID, GI and CI of an old MIG id, else GKE's minor, GI and replica.
	deviceForm = regexp.MustCompile(`^(?:((?:GPU|MIG)-` + uuidPattern + `)|MIG-(GPU-` + uuidPattern +
		`)/([0-9]+)/([0-9]+)|nvidia([0-9]+)(?:/gi([0-9]+))?(?:/vgpu([0-9]+))?)$`)
)

// errForm lists the forms of a device id: NVIDIA's device plugin with and without sharing, its MIG ids before driver
// 470, and GKE's plugin.
var errForm = errors.New("want GPU-<uuid>, MIG-<uuid>, MIG-GPU-<uuid>/<gi>/<ci>, nvidia<N>[/gi<M>][/vgpu<K>], each " +
	"with or without ::<K>")

// deviceID is a parsed device id.
type deviceID struct {
	device  attribution.Device
	base    string // the id without its replica: equal for all replicas of a device
	replica string // empty: the device is not shared
}

// parseDevice parses a device plugin's device id. GKE's N is the minor of /dev/nvidiaN, its vgpuK a replica like ::K.
func parseDevice(id string) (deviceID, error) {
	base, replica, shared := strings.Cut(id, "::")
	if _, err := strconv.ParseUint(replica, 10, 32); shared && err != nil {
		return deviceID{}, fmt.Errorf("replica %q: want a number: %w", replica, errForm)
	}
	m := deviceForm.FindStringSubmatch(base)
	if m == nil {
		return deviceID{}, errForm
	}
	d := deviceID{device: attribution.Device{UUID: cmp.Or(m[1], m[2])}, base: base, replica: replica}
	for _, part := range []struct {
		name, digits string
		into         **uint32
	}{
		{"GPU instance", m[3], &d.device.GI},
		{"compute instance", m[4], &d.device.CI},
		{"minor", m[5], &d.device.Minor},
		{"GPU instance", m[6], &d.device.GI},
	} {
		if part.digits == "" {
			continue
		}
		n, err := strconv.ParseUint(part.digits, 10, 32)
		if err != nil {
			return deviceID{}, fmt.Errorf("%s %q: %w", part.name, part.digits, err)
		}
		*part.into = new(uint32(n))
	}
	if vgpu := m[7]; vgpu != "" {
		d.base = strings.TrimSuffix(base, "/vgpu"+vgpu)
		d.replica = strings.TrimSuffix(vgpu+"::"+replica, "::")
	}
	return d, nil
}
