package podresources

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuledger/gpuledger/collector/attribution"
)

// draDevice names a device of a DRA driver's pool on this node.
type draDevice struct{ driver, pool, device string }

func (d draDevice) String() string { return d.driver + "/" + d.pool + "/" + d.device }

// draVersions of resource.k8s.io that tell a node's devices, newest first.
var draVersions = []string{"v1", "v1beta2", "v1beta1"}

// draBook remembers each grant's device for as long as it is granted: a MIG
// device of the same name may be another one later, but never while it is held.
type draBook struct {
	known   map[draGrant]attribution.Device
	version string // of resource.k8s.io that answered last
}

type draGrant struct {
	pod    podKey
	claim  string
	device draDevice
}

// claimDevice takes the device's name out of a claim's resource. Where that is
// empty, the CDI device names it: k8s.DRIVER/device=NAME, or
// k8s.DRIVER/claim=CLAIM-UID-NAME.
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

// draDevices maps every DRA grant of the holders to its board or MIG device.
// A grant that is new is looked up afresh.
func (r *Reader) draDevices(ctx context.Context, holders []holder) (map[draGrant]attribution.Device, error) {
	granted := map[draGrant]attribution.Device{}
	places := map[draGrant]string{}
	for _, h := range holders {
		for _, g := range h.grants {
			if g.claim == "" {
				continue
			}
			key := draGrant{h.pod, g.claim, g.dra}
			if device, ok := r.dra.known[key]; ok {
				granted[key] = device
			} else {
				places[key] = g.place(h.pod)
			}
		}
	}
	r.dra.known = granted
	if len(places) == 0 {
		return granted, nil
	}
	fresh, err := r.askSlices(ctx)
	if err != nil {
		return nil, fmt.Errorf("look up DRA devices of %d grants: %w", len(places), err)
	}
	var errs []error
	for key, place := range places {
		if device, err := fresh.device(key.device); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", place, err))
		} else {
			granted[key] = device
		}
	}
	return granted, errors.Join(errs...)
}

// resourceSlice is what we read of a ResourceSlice; v1beta1 has the attributes
// one level deeper.
type resourceSlice struct {
	Spec struct {
		Driver string `json:"driver"`
		Pool   struct {
			Name       string `json:"name"`
			Generation int64  `json:"generation"`
		} `json:"pool"`
		Devices []struct {
			Name       string     `json:"name"`
			Attributes attributes `json:"attributes"`
			Basic      struct {
				Attributes attributes `json:"attributes"`
			} `json:"basic"`
		} `json:"devices"`
	} `json:"spec"`
}

type attributes map[string]struct {
	String string `json:"string"`
}

// get looks a name up as the driver's own, with or without its domain.
func (a attributes) get(driver, name string) string {
	if v := a[name].String; v != "" {
		return v
	}
	return a[driver+"/"+name].String
}

// poolDevices are the devices of the newest generation of each pool.
type poolDevices map[draDevice]attributes

func newPoolDevices(items []resourceSlice) poolDevices {
	newest := map[[2]string]int64{}
	for _, s := range items {
		pool := [2]string{s.Spec.Driver, s.Spec.Pool.Name}
		newest[pool] = max(newest[pool], s.Spec.Pool.Generation)
	}
	devices := poolDevices{}
	for _, s := range items {
		if s.Spec.Pool.Generation < newest[[2]string{s.Spec.Driver, s.Spec.Pool.Name}] {
			continue
		}
		for _, d := range s.Spec.Devices {
			found := d.Attributes
			if found == nil {
				found = d.Basic.Attributes
			}
			devices[draDevice{s.Spec.Driver, s.Spec.Pool.Name, d.Name}] = found
		}
	}
	return devices
}

// device is the board, or the MIG device itself and not its parent, by the
// attributes type, uuid, parentUUID and profile of NVIDIA's driver.
func (p poolDevices) device(d draDevice) (attribution.Device, error) {
	found, ok := p[d]
	if !ok {
		return attribution.Device{}, errors.New("is in no ResourceSlice of the node")
	}
	uuid, kind := found.get(d.driver, "uuid"), found.get(d.driver, "type")
	prefix := "GPU-"
	if kind == "mig" {
		prefix = "MIG-"
	}
	switch {
	case uuid == "" && kind == "mig":
		return attribution.Device{}, fmt.Errorf("its ResourceSlice has no uuid: a MIG device %s made on demand on %s, which only the driver can name",
			found.get(d.driver, "profile"), found.get(d.driver, "parentUUID"))
	case !strings.HasPrefix(uuid, prefix) || !uuidForm.MatchString(uuid[len(prefix):]):
		return attribution.Device{}, fmt.Errorf("its ResourceSlice has type %q and uuid %q, want %s<uuid>", kind, uuid, prefix)
	}
	return attribution.Device{UUID: uuid}, nil
}

// askSlices reads the node's ResourceSlices in the newest version of the API
// that the server has.
func (r *Reader) askSlices(ctx context.Context) (poolDevices, error) {
	if r.api == nil {
		return nil, errNoAPI
	}
	versions := draVersions
	if r.dra.version != "" {
		versions = append([]string{r.dra.version}, draVersions...)
	}
	var list struct {
		Items []resourceSlice `json:"items"`
	}
	err := r.ask(ctx, askSlices, func(ctx context.Context) (err error) {
		for _, version := range versions {
			path := "/apis/resource.k8s.io/" + version + "/resourceslices"
			err = r.api.get(ctx, path, url.Values{"fieldSelector": {"spec.nodeName=" + r.node}}, "ResourceSliceList", &list)
			if !isNotFound(err) {
				r.dra.version = version
				return err
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return newPoolDevices(list.Items), nil
}
