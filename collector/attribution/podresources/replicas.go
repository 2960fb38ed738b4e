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

// allocatableRetry is the pause after a failed count while no holder needs it.
const allocatableRetry = 10 * time.Second

// replicas stores the number of replicas of each shared device.
type replicas struct {
	next     time.Time           // time of the next count
	known    map[string]shared   // by base id
	unlisted map[string]struct{} // held ids that were missing in the last count
}

type shared struct {
	device   attribution.Device
	replicas map[string]struct{}
}

// count returns the number of replicas of every shared device of the node, held or not. It fails if the device of a
// held replica could not be counted: without the number its holder would be charged for the whole device.
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

// has returns whether the number of a held replica's device is known, or known to be listed nowhere.
func (c *replicas) has(h deviceID) bool {
	_, listed := c.known[h.base].replicas[h.replica]
	_, unlisted := c.unlisted[h.base+"::"+h.replica]
	return listed || unlisted
}

// take replaces the stored counts. The kubelet omits unhealthy devices, so a missing device keeps its count while one
// of its replicas is held.
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

// allocatable returns the replica ids of the node. Kubelets before 1.23 don't support the query; they have none.
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
		return nil, fmt.Errorf("query kubelet for allocatable resources: %w", err)
	}
	known := map[string]shared{}
	for _, devices := range answer.GetDevices() {
		if !r.cfg.matches(devices.GetResourceName()) {
			continue
		}
		for _, id := range devices.GetDeviceIds() {
			// An invalid id becomes an error when it is held.
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

// unsupported returns whether a kubelet lacks a method: it isn't implemented, or its feature gate is off, which can
// only be recognised by the error's text.
func unsupported(err error) bool {
	return status.Code(err) == codes.Unimplemented ||
		(status.Code(err) == codes.Unknown && strings.Contains(err.Error(), "disabled"))
}
