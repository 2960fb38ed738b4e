package podresources

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gputally/gputally/collector/attribution"
)

// draDevice names a device of a DRA driver's pool on this node.
type draDevice struct{ driver, pool, device string }

func (d draDevice) String() string { return d.driver + "/" + d.pool + "/" + d.device }

// draGrant is a claim's device that a pod has.
type draGrant struct {
	pod    podKey
	claim  claimKey
	device draDevice
}

// claimKey is a ResourceClaim's name; zero: no claim.
type claimKey struct{ namespace, name string }

func (k claimKey) String() string { return k.namespace + "/" + k.name }

// granted is the result of looking up a draGrant.
type granted struct {
	device attribution.Device
	admin  bool // granted with adminAccess, in addition to the device's holders
}

// draBook stores each grant's device for as long as it is granted: a MIG device's name may later denote another
// device, but not while it is held.
type draBook struct {
	known   map[draGrant]granted
	version string // of resource.k8s.io in the last answer
}

// claimDevice returns the device's name from a claim's resource. If that is empty, the name of the CDI device is
// used: k8s.DRIVER/device=NAME, or k8s.DRIVER/claim=CLAIM-UID-NAME.
func claimDevice(r *podresourcesv1.ClaimResource) (draDevice, error) {
	d := draDevice{r.GetDriverName(), r.GetPoolName(), r.GetDeviceName()}
	for _, cdi := range r.GetCdiDevices() {
		if d.device != "" {
			break
		}
		kind, name, _ := strings.Cut(cdi.GetName(), "=")
		switch {
		case strings.HasSuffix(kind, "/device"):
			d.device = name
		case strings.HasSuffix(kind, "/claim") && len(name) > 37 && uuidForm.MatchString(name[:36]) && name[36] == '-':
			d.device = name[37:]
		}
	}
	if d.device == "" || d.pool == "" {
		return d, fmt.Errorf("device %s: pool and device must not be empty", d)
	}
	return d, nil
}

// pending is a new grant.
type pending struct {
	grant
	key draGrant
}

// identify finds the board or MIG device of every DRA grant; it looks up new grants.
func (r *Reader) identify(ctx context.Context, holders []holder) (map[draGrant]granted, error) {
	known := map[draGrant]granted{}
	var unknown []pending
	for _, h := range holders {
		for _, g := range h.grants {
			if g.claim == (claimKey{}) {
				continue
			}
			key := draGrant{h.pod, g.claim, g.dra}
			if before, ok := r.dra.known[key]; ok {
				known[key] = before
			} else {
				unknown = append(unknown, pending{g, key})
			}
		}
	}
	r.dra.known = known
	if len(unknown) > 0 {
		if err := r.lookUp(ctx, unknown, known); err != nil {
			return nil, err
		}
	}
	admin := 0
	for _, g := range known {
		if g.admin {
			admin++
		}
	}
	r.metrics.admin.Set(float64(admin))
	return known, nil
}

// lookUp adds the grants' devices to known.
func (r *Reader) lookUp(ctx context.Context, unknown []pending, known map[draGrant]granted) error {
	if r.api == nil {
		return fmt.Errorf("look up DRA devices of %d grants: %w", len(unknown), errNoAPI)
	}
	devices, err := r.listSlices(ctx)
	if err != nil {
		return fmt.Errorf("look up DRA devices of %d grants: %w", len(unknown), err)
	}
	claims := map[claimKey]allocation{}
	var errs []error
	for _, p := range unknown {
		results, ok := claims[p.claim]
		if !ok {
			if results, err = r.getClaim(ctx, p.claim); err != nil {
				return fmt.Errorf("look up claim %s of pod %s: %w", p.claim, p.key.pod, err)
			}
			claims[p.claim] = results
		}
		if results.admin(p.dra) {
			known[p.key] = granted{admin: true}
			continue
		}
		device, err := devices.device(p.dra)
		if errors.Is(err, errOnDemand) {
			device, err = r.fromCheckpoint(p.grant, err)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.place(p.key.pod), err))
			continue
		}
		known[p.key] = granted{device: device}
	}
	return joined(errs)
}

// allocation has the needed fields of a ResourceClaim, which are equal in all versions of the API.
type allocation []struct {
	Driver      string `json:"driver"`
	Pool        string `json:"pool"`
	Device      string `json:"device"`
	AdminAccess bool   `json:"adminAccess"`
}

// admin returns whether a claim has a device with adminAccess only, for monitoring: the device is not allocated by
// that, and may be held by others.
func (a allocation) admin(d draDevice) bool {
	admin := false
	for _, result := range a {
		if d == (draDevice{result.Driver, result.Pool, result.Device}) {
			if !result.AdminAccess {
				return false
			}
			admin = true
		}
	}
	return admin
}

func (r *Reader) getClaim(ctx context.Context, claim claimKey) (allocation, error) {
	var item struct {
		Status struct {
			Allocation struct {
				Devices struct {
					Results allocation `json:"results"`
				} `json:"devices"`
			} `json:"allocation"`
		} `json:"status"`
	}
	path := "/apis/resource.k8s.io/" + r.dra.version + "/namespaces/" + url.PathEscape(claim.namespace) +
		"/resourceclaims/" + url.PathEscape(claim.name)
	err := r.query(ctx, queryClaim, func(ctx context.Context) error {
		return r.api.get(ctx, path, nil, "ResourceClaim", &item)
	})
	return item.Status.Allocation.Devices.Results, err
}
