package podresources

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/gputally/gputally/collector/attribution"
)

// checkpoint has the needed fields of the file in which NVIDIA's DRA driver stores the claims it prepared
// (cmd/gpu-kubelet-plugin/checkpointv.go of kubernetes-sigs/dra-driver-nvidia-gpu): the only place with the UUID of a
// MIG device created on demand. The driver replaces the file atomically.
type checkpoint struct {
	V1 preparedClaims `json:"v1"`
	V2 preparedClaims `json:"v2"`
}

type preparedClaims struct {
	Claims map[string]struct { // by the claim's UID
		PreparedDevices []struct {
			Devices []preparedDevice `json:"devices"`
		} `json:"preparedDevices"`
	} `json:"preparedClaims"`
}

type preparedDevice struct {
	MIG struct {
		Concrete struct {
			UUID string `json:"migUUID"`
		} `json:"concrete"`
		Device struct {
			CDI []string `json:"CDIDeviceIDs"` // of this claim and device only
		} `json:"device"`
	} `json:"mig"`
}

// fromCheckpoint returns the MIG device that the driver created for a grant, by the grant's CDI device. cause is the
// error that made the lookup necessary.
func (r *Reader) fromCheckpoint(g grant, cause error) (attribution.Device, error) {
	path := r.cfg.DRACheckpoint
	if path == "" {
		return attribution.Device{}, fmt.Errorf("%w; only the driver knows it: set dra_checkpoint", cause)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return attribution.Device{}, fmt.Errorf("%w: read the driver's checkpoint: %w", cause, err)
	}
	var c checkpoint
	if err := json.Unmarshal(data, &c); err != nil {
		return attribution.Device{}, fmt.Errorf("%w: decode the driver's checkpoint %s: %w", cause, path, err)
	}
	for _, claims := range []preparedClaims{c.V2, c.V1} {
		if uuid := claims.find(g.cdi); uuid != "" {
			if !strings.HasPrefix(uuid, "MIG-") || !uuidForm.MatchString(uuid[len("MIG-"):]) {
				return attribution.Device{}, fmt.Errorf("the driver's checkpoint %s has migUUID %q, want MIG-<uuid>", path, uuid)
			}
			return attribution.Device{UUID: uuid}, nil
		}
	}
	return attribution.Device{}, fmt.Errorf("%w: the driver's checkpoint %s has no CDI device %q", cause, path, g.cdi)
}

// find returns the UUID of the MIG device prepared under one of the CDI names; empty: none.
func (p preparedClaims) find(cdi []string) string {
	for _, claim := range p.Claims {
		for _, group := range claim.PreparedDevices {
			for _, d := range group.Devices {
				if slices.ContainsFunc(d.MIG.Device.CDI, func(name string) bool { return slices.Contains(cdi, name) }) {
					return d.MIG.Concrete.UUID
				}
			}
		}
	}
	return ""
}
