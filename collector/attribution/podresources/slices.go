package podresources

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/gputally/gputally/collector/attribution"
)

// errOnDemand: the driver creates the MIG device when a claim is prepared, so its ResourceSlice can't have the UUID.
var errOnDemand = errors.New("its ResourceSlice has no uuid")

// draVersions are the versions of resource.k8s.io that list a node's devices, newest first.
var draVersions = []string{"v1", "v1beta2", "v1beta1"}

// resourceSlice has the needed fields of a ResourceSlice; v1beta1 has the attributes one level deeper.
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

// get returns the driver's attribute with a name, with or without the driver's domain.
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

// device returns the board, or the MIG device itself and not its parent, by the attributes type, uuid, parentUUID and
// profile of NVIDIA's driver.
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
		return attribution.Device{}, fmt.Errorf("%w: a MIG device %s made on demand on %s",
			errOnDemand, found.get(d.driver, "profile"), found.get(d.driver, "parentUUID"))
	case !strings.HasPrefix(uuid, prefix) || !uuidForm.MatchString(uuid[len(prefix):]):
		return attribution.Device{}, fmt.Errorf("its ResourceSlice has type %q and uuid %q, want %s<uuid>", kind, uuid,
			prefix)
	}
	return attribution.Device{UUID: uuid}, nil
}

// listSlices reads the node's ResourceSlices in the newest version of the API
// that the server has.
func (r *Reader) listSlices(ctx context.Context) (poolDevices, error) {
	versions := draVersions
	if r.dra.version != "" {
		versions = append([]string{r.dra.version}, draVersions...)
	}
	var list struct {
		Items []resourceSlice `json:"items"`
	}
	err := r.query(ctx, querySlices, func(ctx context.Context) (err error) {
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
