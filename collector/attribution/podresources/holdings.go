package podresources

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/gputally/gputally/collector/attribution"
	"github.com/gputally/gputally/internal/wire"
)

// holdings returns a pod's devices, one per device and replica, with the first container that has it, and the parsed
// ids of device plugins among them.
func (h holder) holdings(owner *wire.Owner, dra map[draGrant]granted) ([]attribution.Holding, []deviceID, error) {
	var out []attribution.Holding
	var plugin []deviceID
	var errs []error
	seen := map[[2]string]bool{}
	for _, g := range h.grants {
		var one deviceID
		if g.claim != (claimKey{}) {
			to := dra[draGrant{h.pod, g.claim, g.dra}]
			if to.admin {
				continue
			}
			one = deviceID{device: to.device, base: to.device.UUID, replica: g.share}
		} else {
			var err error
			if one, err = parseDevice(g.id); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", g.place(h.pod), err))
				continue
			}
			plugin = append(plugin, one)
		}
		key := [2]string{one.base, one.replica}
		if seen[key] {
			continue
		}
		seen[key] = true
		out = append(out, attribution.Holding{Device: one.device, Replica: one.replica, Owner: named(owner, g.container)})
	}
	return out, plugin, joined(errs)
}

// named returns a copy of the pod's facts with a container: the receiver of a Snapshot may keep and change its
// owners.
func named(owner *wire.Owner, container string) *wire.Owner {
	o := proto.CloneOf(owner)
	o.Container = container
	return o
}
