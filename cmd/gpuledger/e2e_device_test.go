package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/collector/attribution"
	"github.com/gpuledger/gpuledger/collector/attribution/podresources"
	"github.com/gpuledger/gpuledger/collector/source"
	"github.com/gpuledger/gpuledger/collector/source/board"
	"github.com/gpuledger/gpuledger/collector/source/dcgm"
	"github.com/gpuledger/gpuledger/internal/gpusim"
	"github.com/gpuledger/gpuledger/internal/wire"
)

const deviceSlot = 10 * time.Second

// kubelet is the real pod-resources service on a Unix socket.
type kubelet struct {
	podresourcesv1.UnimplementedPodResourcesListerServer
	socket string
	server *grpc.Server

	mu   sync.Mutex
	pods map[string][]string // pod: device ids
}

func newKubelet(t *testing.T) *kubelet {
	t.Helper()
	dir, err := os.MkdirTemp("", "kubelet") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	k := &kubelet{socket: filepath.Join(dir, "kubelet.sock"), pods: map[string][]string{}}
	k.start(t)
	t.Cleanup(k.stop)
	return k
}

func (k *kubelet) start(t *testing.T) {
	t.Helper()
	l, err := net.Listen("unix", k.socket)
	if err != nil {
		t.Fatal(err)
	}
	k.server = grpc.NewServer()
	podresourcesv1.RegisterPodResourcesListerServer(k.server, k)
	go func() { _ = k.server.Serve(l) }()
}

func (k *kubelet) stop() { k.server.Stop() }

func (k *kubelet) List(context.Context, *podresourcesv1.ListPodResourcesRequest) (*podresourcesv1.ListPodResourcesResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := &podresourcesv1.ListPodResourcesResponse{}
	for pod, ids := range k.pods {
		namespace, name, _ := strings.Cut(pod, "/")
		out.PodResources = append(out.PodResources, &podresourcesv1.PodResources{
			Namespace: namespace, Name: name, Containers: []*podresourcesv1.ContainerResources{{
				Name: "main", Devices: []*podresourcesv1.ContainerDevices{{ResourceName: "nvidia.com/gpu", DeviceIds: ids}},
			}},
		})
	}
	return out, nil
}

// give has a pod hold devices; none: it ends.
func (k *kubelet) give(pod string, ids ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods[pod] = ids
	if len(ids) == 0 {
		delete(k.pods, pod)
	}
}

// told is a source that says when it has looked and read, so that time goes on
// only then.
type told struct {
	*dcgm.Source
	looks, reads chan struct{}
}

func (s *told) Watch() {
	s.Source.Watch()
	s.looks <- struct{}{}
}

func (s *told) Read(ctx context.Context, slot source.Slot) ([]*wire.Batch, error) {
	batches, err := s.Source.Read(ctx, slot)
	s.reads <- struct{}{}
	return batches, err
}

// deviceRig is a node with simulated GPUs and a kubelet under a live collector,
// second by second in virtual time.
type deviceRig struct {
	*scrapeRig
	t       *testing.T
	sim     *gpusim.Sim
	kubelet *kubelet
	tracker *attribution.Tracker
	source  *told
	now     int // seconds since firstHour

	mu   sync.Mutex
	last *wire.Batch
}

func newDeviceRig(t *testing.T, lines string) *deviceRig {
	t.Helper()
	r := &deviceRig{scrapeRig: newVirtualRig(t), t: t, sim: gpusim.Open(t), kubelet: newKubelet(t)}
	r.sim.SetTime(firstHour)
	r.sim.Do(lines)
	builder, err := board.New(board.DefaultConfig(), board.Deps{
		Cluster: "c", Node: "n1", StateFile: filepath.Join(t.TempDir(), deviceState), Clock: r.clk, Log: quietLog(), Registry: r.reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := dcgm.DefaultConfig()
	cfg.Library = r.sim.DCGM()
	src, err := dcgm.New(cfg, dcgm.Deps{Builder: builder, Clock: r.clk, Log: quietLog(), Registry: r.reg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(src.Close)
	of := podresources.DefaultConfig()
	of.Socket, of.Pods, of.Namespaces, of.DRADrivers = r.kubelet.socket, podresources.FromNowhere, podresources.FromNowhere, nil
	reader, err := podresources.New(of, podresources.Deps{Node: "n1", Getenv: func(string) string { return "" }, Clock: r.clk, Log: quietLog(), Registry: r.reg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Close() })
	r.tracker, err = attribution.New(attribution.DefaultConfig(), attribution.Deps{
		Node: "n1", Readers: []attribution.Reader{reader}, Info: src.Info, Clock: r.clk, Log: quietLog(), Registry: r.reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.tracker.Poll(t.Context())
	src.Watch()
	r.source = &told{Source: src, looks: make(chan struct{}, 1), reads: make(chan struct{}, 1)}
	r.collect(t, deviceSlot, collector.Deps{Source: r.source, Attributor: r.tracker, Observer: r})
	return r
}

// Observe keeps the last batch.
func (r *deviceRig) Observe(batches []*wire.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(batches) > 0 {
		r.last = batches[0]
	}
}

// until passes seconds; before each, the script of that second happens.
func (r *deviceRig) until(second int, script map[int]func()) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), runPatience)
	defer cancel()
	for r.now < second {
		if do := script[r.now]; do != nil {
			do()
			delete(script, r.now)
		}
		r.tracker.Poll(ctx)
		if err := r.clk.BlockUntil(ctx, 1); err != nil {
			r.t.Fatalf("the collector does not wait for the clock: %v", err)
		}
		r.sim.Advance(time.Second)
		r.clk.Advance(time.Second)
		r.now++
		r.wait(ctx, r.source.looks, "look at its GPUs")
		if r.now%int(deviceSlot/time.Second) == 0 {
			r.wait(ctx, r.source.reads, "read them")
		}
	}
	if err := r.clk.BlockUntil(ctx, 1); err != nil {
		r.t.Fatalf("the collector does not wait for the clock: %v", err)
	}
}

func (r *deviceRig) wait(ctx context.Context, done <-chan struct{}, what string) {
	r.t.Helper()
	select {
	case <-done:
	case <-ctx.Done():
		r.t.Fatalf("second %d: the collector does not %s", r.now, what)
	}
}

// leaf is the MIG UUID of an instance, as the last slot has it.
func (r *deviceRig) leaf(index, gi uint32) string {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.last.Gpus {
		for _, l := range g.Leaves {
			if g.Index == index && l.GetGi() == gi && l.Gi != nil && l.MigUuid != "" {
				return l.MigUuid
			}
		}
	}
	r.t.Fatalf("no instance %d on GPU %d", gi, index)
	return ""
}

func (r *deviceRig) board(index uint32) string {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.last.Gpus {
		if g.Index == index {
			return g.Uuid
		}
	}
	r.t.Fatalf("no GPU %d", index)
	return ""
}

func at(minute, second int) int { return minute*60 + second }

// TestDevicesAreMeteredThroughEverything runs an hour of a node to which all
// happens that nodes go through, and then an hour without its kubelet. Each hour
// of each GPU sums to its capacity, from the slots to the ledger (C6).
func TestDevicesAreMeteredThroughEverything(t *testing.T) {
	r := newDeviceRig(t, `gpus 8; mig 3 1g.10gb*7; mig 4 3g.40gb 2g.20gb 1g.10gb 1g.10gb; mig 5 3g.40gb/1c+2c 4g.40gb; mig 6 1g.10gb*7;
		activity all 0; activity 0 0.6; activity 3/8 0.4; activity 7 0.5`)
	r.until(at(0, 20), nil) // the first batches tell the names
	whole, mig, lost := r.board(0), r.leaf(3, 8), r.board(7)
	r.until(at(60, 0), map[int]func(){
		at(1, 0):   func() { r.kubelet.give("train/whole", whole) },
		at(1, 1):   func() { r.kubelet.give("serve/mig", mig) },
		at(1, 2):   func() { r.kubelet.give("train/lost", lost) },
		at(5, 0):   func() { r.sim.Do("xid 1 95") },  // fatal, the board
		at(5, 1):   func() { r.sim.Do("xid 3/9 95") }, // one instance
		at(5, 2):   func() { r.sim.Do("xid 5/1/0 95") },
		at(12, 3):  func() { r.kubelet.give("ci/short", r.board(2)) },
		at(12, 6):  func() { r.kubelet.give("ci/short") },
		at(15, 4):  func() { r.sim.Do("mig 6 3g.40gb 3g.40gb") },
		at(20, 3):  func() { r.sim.Do("hostengine down") },
		at(20, 33): func() { r.sim.Do("hostengine up") },
		at(30, 0):  func() { r.sim.Do("driver reload") },
		at(40, 0):  func() { r.sim.Do("lost 7") },
		at(50, 0):  func() { r.sim.Do("back 7") },
	})
	r.settle(t)
	r.verify(t)
	got := r.usage(t, 1, "gpu", "leaf", "tenant")
	t.Log(strings.Join(got, "\n"))
	if n := len(slices.Compact(slices.Sorted(slices.Values(r.boards(t, 1))))); n != 8 {
		t.Errorf("%d GPUs in the ledger, want 8", n)
	}
	_ = cmp.Diff
	_ = fmt.Sprint
	_ = source.Slot{}
}

// boards lists the GPUs of the first hours.
func (r *deviceRig) boards(t *testing.T, hours int) []string {
	return r.usage(t, hours, "gpu")
}
