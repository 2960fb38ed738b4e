package e2e

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

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/ask"
	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/collector"
	"github.com/gputally/gputally/collector/attribution"
	"github.com/gputally/gputally/collector/attribution/podresources"
	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/dcgm"
	"github.com/gputally/gputally/collector/source/local"
	"github.com/gputally/gputally/internal/gpusim"
	"github.com/gputally/gputally/internal/usage"
	"github.com/gputally/gputally/internal/wire"
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

func (k *kubelet) List(context.Context,
	*podresourcesv1.ListPodResourcesRequest,
) (*podresourcesv1.ListPodResourcesResponse, error) {
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
	builder, err := local.New(local.DefaultConfig(), local.Deps{
		Cluster: "c", Node: "n1", StateFile: filepath.Join(t.TempDir(), app.DeviceState), Clock: r.clk, Log: quietLog(),
		Registry: r.reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := dcgm.DefaultConfig()
	cfg.Library = r.sim.DCGM()
	src, err := dcgm.New(cfg, builder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(src.Close)
	of := podresources.DefaultConfig()
	of.Socket, of.Pods, of.Namespaces, of.DRADrivers = r.kubelet.socket, podresources.FromNowhere, podresources.FromNowhere, nil
	reader, err := podresources.New(of,
		podresources.Deps{
			Node: "n1", Getenv: func(string) string { return "" }, Clock: r.clk, Log: quietLog(),
			Registry: r.reg,
		})
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
	ctx, cancel := context.WithTimeout(r.t.Context(), programtest.RunPatience)
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
		at(5, 0):   func() { r.sim.Do("xid 1 95") },   // fatal, the board
		at(5, 1):   func() { r.sim.Do("xid 3/9 95") }, // one instance
		at(5, 2):   func() { r.sim.Do("xid 5/1/0 95") },
		at(12, 3):  func() { r.kubelet.give("ci/short", r.board(2)) },
		at(12, 6):  func() { r.kubelet.give("ci/short") },
		at(15, 4):  func() { r.sim.Do("mig 6 3g.40gb 3g.40gb") },
		at(20, 3):  func() { r.sim.Do("hostengine down") },
		at(20, 15): func() { r.sim.Do("hostengine up") },
		at(30, 0):  func() { r.sim.Do("driver reload") },
		at(40, 0):  func() { r.sim.Do("lost 7") },
		at(50, 0):  func() { r.sim.Do("back 7") },
	})
	// For an hour nobody can ask the kubelet, then it is back.
	r.until(at(120, 30), map[int]func(){
		at(60, 0):  r.kubelet.stop,
		at(120, 5): func() { r.kubelet.start(t) },
	})
	r.settle(t)
	r.verify(t)
	// 19 s without a host engine, from the slot whose reading failed to the look
	// that found it again, are unproven where holders go on, else
	// unobserved; the reload at 30:00 leaves no MIG instance, and its flags end.
	want := []string{
		"0  : free 420000", // until 1:00
		"0 gpu train: active 24647000 unproven 133000",                            //
		"1  : free 14700000 unhealthy 10367000 unobserved 133000",                 // 5:00 to 30:00
		"2  : free 25046000 unobserved 133000",                                    //
		"2 gpu ci: unproven 21000",                                                // three seconds of seven slices
		"3  : free 9278000 stranded 12586000 unhealthy 1481000 unobserved 114000", // one slice flagged
		"3 gi8ci0 serve: active 1719000 unproven 22000",                           // three seconds of the reload, too
		"4  : free 12481000 stranded 12586000 unobserved 133000",
		"5  : free 6557000 stranded 12586000 unhealthy 5924000 unobserved 133000", // four slices flagged
		"6  : free 11603000 stranded 13464000 unobserved 133000",                  // one more stranded from 15:05
		"7  : free 434000 unhealthy 4200000",                                      // lost for ten minutes
		"7 gpu train: active 20433000 unproven 133000",
	}
	if diff := cmp.Diff(want, r.byIndex(t, 0)); diff != "" {
		t.Errorf("first hour (-want +got):\n%s", diff)
	}
	// R4: nothing is free, and nobody pays; what is stranded needs no owner.
	want = nil
	for i := range 8 {
		if i >= 3 && i <= 6 {
			want = append(want, fmt.Sprintf("%d  : stranded 25200000", i))
			continue
		}
		want = append(want, fmt.Sprintf("%d  : unobserved 25200000", i))
	}
	if diff := cmp.Diff(want, r.byIndex(t, 1)); diff != "" {
		t.Errorf("second hour (-want +got):\n%s", diff)
	}
	if got := r.counter(t, "gputally_attribution_slots_failed_total"); got != 361 {
		t.Errorf("attribution failed in %v slots, want the hour's 360 and the one in which the kubelet came back", got)
	}
}

// byIndex is an hour of the ledger by board, leaf and tenant, without energy.
func (r *deviceRig) byIndex(t *testing.T, hour int) (lines []string) {
	t.Helper()
	from := firstHour.Add(time.Duration(hour) * time.Hour)
	rows, err := usage.Run(t.Context(), r.db,
		usage.Query{By: []string{"gpu", "leaf", "tenant"}, From: from, To: from.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	index := map[string]string{}
	for i := range r.last.Gpus {
		index[r.board(uint32(i))] = fmt.Sprint(i)
	}
	for _, row := range rows {
		line := fmt.Sprintf("%s %s %s:", index[row.By[0]], row.By[1], row.By[2])
		n := len(line)
		for b, ms := range row.Buckets {
			if ms.Sign() > 0 {
				line += fmt.Sprintf(" %s %d", ask.BucketNames[b], ms)
			}
		}
		if len(line) > n {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}
