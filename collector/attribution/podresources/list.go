package podresources

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// podKey is a pod's name, which a later pod may have again.
type podKey struct{ namespace, name string }

func (k podKey) String() string { return k.namespace + "/" + k.name }

// grant is one device given to a container: a device plugin's id, or a device of a DRA claim.
type grant struct {
	container string
	resource  string // of a device plugin
	id        string
	claim     claimKey
	dra       draDevice
	cdi       []string // names of the claim's CDI devices
	share     string   // of a DRA device with consumable capacity
}

// place describes a grant's position for errors.
func (g grant) place(pod podKey) string {
	if g.claim != (claimKey{}) {
		return fmt.Sprintf("pod %s, container %q, claim %s, device %s", pod, g.container, g.claim, g.dra)
	}
	return fmt.Sprintf("pod %s, container %q, resource %s, device id %q", pod, g.container, g.resource, g.id)
}

// holder is a listed pod that has devices.
type holder struct {
	pod    podKey
	grants []grant
}

// fingerprint is equal as long as a pod's devices are equal.
func (h holder) fingerprint() string {
	ids := make([]string, len(h.grants))
	for i, g := range h.grants {
		ids[i] = strings.Join([]string{g.resource, g.id, g.claim.String(), g.dra.String(), g.share}, "\x00")
	}
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), "\x01")
}

// holders returns the pods of a kubelet's list that have devices of configured resources, ordered by name, and the
// number of NVIDIA devices of other resources, by resource.
func (c Config) holders(list *podresourcesv1.ListPodResourcesResponse) ([]holder, map[string]int, error) {
	var errs []error
	byPod := map[podKey][]grant{}
	ignored := map[string]int{}
	for i, p := range list.GetPodResources() {
		pod := podKey{p.GetNamespace(), p.GetName()}
		var grants []grant
		for _, container := range p.GetContainers() {
			got, err := c.granted(container, ignored)
			if err != nil {
				errs = append(errs, fmt.Errorf("pod %s: %w", pod, err))
			}
			grants = append(grants, got...)
		}
		if len(grants) > 0 && (pod.name == "" || pod.namespace == "") {
			errs = append(errs, fmt.Errorf("pod_resources[%d] %s: holds %q but has no name or no namespace", i, pod,
				grants[0].id))
		}
		if len(grants) > 0 {
			byPod[pod] = append(byPod[pod], grants...)
		}
	}
	holders := make([]holder, 0, len(byPod))
	for pod, grants := range byPod {
		holders = append(holders, holder{pod, grants})
	}
	slices.SortFunc(holders, func(a, b holder) int {
		return cmp.Or(cmp.Compare(a.pod.namespace, b.pod.namespace), cmp.Compare(a.pod.name, b.pod.name))
	})
	return holders, ignored, joined(errs)
}

// joined joins the first few errors: a wrong resource name would log every device of the node once a second.
func joined(errs []error) error {
	const most = 8
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) > most {
		errs = append(errs[:most:most], fmt.Errorf("and %d more", len(errs)-most))
	}
	return errors.Join(errs...)
}

func (c Config) granted(container *podresourcesv1.ContainerResources, ignored map[string]int) ([]grant, error) {
	var grants []grant
	for _, devices := range container.GetDevices() {
		resource := devices.GetResourceName()
		for _, id := range devices.GetDeviceIds() {
			if c.matches(resource) {
				grants = append(grants, grant{container: container.GetName(), resource: resource, id: id})
			} else if _, err := parseDevice(id); err == nil {
				ignored[resource]++
			}
		}
	}
	for _, dynamic := range container.GetDynamicResources() {
		claim := claimKey{dynamic.GetClaimNamespace(), dynamic.GetClaimName()}
		for _, r := range dynamic.GetClaimResources() {
			if !slices.Contains(c.DRADrivers, r.GetDriverName()) {
				continue
			}
			dra, err := claimDevice(r)
			if err == nil && (claim.namespace == "" || claim.name == "") {
				err = errors.New("namespace and name must not be empty")
			}
			if err != nil {
				return nil, fmt.Errorf("container %q, claim %s: %w", container.GetName(), claim, err)
			}
			g := grant{container: container.GetName(), claim: claim, dra: dra, share: r.GetShareId()}
			for _, cdi := range r.GetCdiDevices() {
				g.cdi = append(g.cdi, cdi.GetName())
			}
			grants = append(grants, g)
		}
	}
	return grants, nil
}

// matches returns whether a device plugin's resource is configured.
func (c Config) matches(resource string) bool {
	return slices.ContainsFunc(c.Resources, func(glob string) bool {
		ok, _ := path.Match(glob, resource) // its only error is a bad glob, which Validate refuses
		return ok
	})
}
