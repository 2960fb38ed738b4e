package podresources

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gputally/gputally/collector/attribution"
)

// allocatableRetry is how long a failed count is left alone while nobody needs it.
const allocatableRetry = 10 * time.Second

// replicas knows into how many replicas each shared device is divided.
type replicas struct {
	next     time.Time           // when to count again
	known    map[string]shared   // by base id
	unlisted map[string]struct{} // ids held that a fresh count did not have
}

type shared struct {
	device   attribution.Device
	replicas map[string]struct{}
}

// count is the number of replicas of every shared device of the node, held or
// not. It fails when a held replica's device could not be counted: without the
// number its holder would be charged for all of the device.
func (r *Reader) count(ctx context.Context, ids []deviceID) ([]attribution.Shared, error) {
	c := &r.replicas
	var unknown []string
	for _, h := range ids {
		if h.replica != "" && !c.has(h) {
			unknown = append(unknown, h.base+" replica "+h.replica)
		}
	}
	now := r.deps.Clock.Now()
	if len(unknown) > 0 || !now.Before(c.next) {
		fresh, err := r.allocatable(ctx)
		switch {
		case err == nil:
			c.take(fresh, ids)
			c.next = now.Add(r.cfg.AllocatableEvery)
		case len(unknown) > 0:
			return nil, fmt.Errorf("count replicas, needed for %s: %w", strings.Join(unknown, ", "), err)
		default:
			c.next = now.Add(allocatableRetry)
			r.useLast(queryAllocatable, err)
		}
	}
	r.metrics.unlisted.Set(float64(len(c.unlisted)))
	return c.shared(), nil
}

// has reports whether a held replica is known, or known to be listed nowhere.
func (c *replicas) has(h deviceID) bool {
	_, listed := c.known[h.base].replicas[h.replica]
	_, unlisted := c.unlisted[h.base+"::"+h.replica]
	return listed || unlisted
}

// take replaces what is known. The kubelet leaves out unhealthy devices, so one
// of which a replica is held keeps its count when it is missing.
func (c *replicas) take(fresh map[string]shared, ids []deviceID) {
	before := c.known
	c.known, c.unlisted = fresh, map[string]struct{}{}
	for _, h := range ids {
		if old, ok := before[h.base]; ok && h.replica != "" && len(fresh[h.base].replicas) == 0 {
			c.known[h.base] = old
		}
	}
	for _, h := range ids {
		if h.replica != "" && !c.has(h) {
			c.unlisted[h.base+"::"+h.replica] = struct{}{}
		}
	}
}

func (c *replicas) shared() []attribution.Shared {
	out := make([]attribution.Shared, 0, len(c.known))
	for _, base := range slices.SortedFunc(maps.Keys(c.known), cmp.Compare[string]) {
		s := c.known[base]
		out = append(out, attribution.Shared{Device: s.device, Replicas: uint32(len(s.replicas))})
	}
	return out
}

// allocatable asks for all replica ids of the node. A kubelet without that
// question (before 1.23) has none to tell.
func (r *Reader) allocatable(ctx context.Context) (map[string]shared, error) {
	type response = *podresourcesv1.AllocatableResourcesResponse
	answer, err := queryKubelet(ctx, r, queryAllocatable, func(ctx context.Context, c kubelet) (response, error) {
		answer, err := c.GetAllocatableResources(ctx, &podresourcesv1.AllocatableResourcesRequest{})
		if unsupported(err) {
			return &podresourcesv1.AllocatableResourcesResponse{}, nil
		}
		return answer, err
	})
	if err != nil {
		return nil, fmt.Errorf("ask kubelet for allocatable resources: %w", err)
	}
	known := map[string]shared{}
	for _, devices := range answer.GetDevices() {
		if !r.cfg.matches(devices.GetResourceName()) {
			continue
		}
		for _, id := range devices.GetDeviceIds() {
			// An id that can't be read is an error once somebody holds it.
			h, err := parseDevice(id)
			if err != nil || h.replica == "" {
				continue
			}
			if _, ok := known[h.base]; !ok {
				known[h.base] = shared{h.device, map[string]struct{}{}}
			}
			known[h.base].replicas[h.replica] = struct{}{}
		}
	}
	return known, nil
}

// unsupported reports that a kubelet does not have a method: it is not there, or
// its feature gate is off, which kubelets tell by text alone.
func unsupported(err error) bool {
	return status.Code(err) == codes.Unimplemented ||
		(status.Code(err) == codes.Unknown && strings.Contains(err.Error(), "disabled"))
}
