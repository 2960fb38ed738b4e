package podresources

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gputally/gputally/collector/attribution"
	"github.com/gputally/gputally/internal/clock"
)

// The shape of a kubelet's answer on a node with MIG: pods without devices, a
// pod with two containers, NUMA nodes that split a resource into several entries.
func TestReadHoldings(t *testing.T) {
	r := newRig(t)
	both := container("trainer", "nvidia.com/gpu", gpuA)
	both.Devices[0].Topology = &podresourcesv1.TopologyInfo{Nodes: []*podresourcesv1.NUMANode{{ID: 0}}}
	both.Devices = append(both.Devices,
		devices("nvidia.com/mig-1g.10gb", "MIG-"+gpuB+"/11/0"),
		devices("rdma/hca", "mlx5_0"),
		devices("nvidia.com/gpu", gpuA))
	r.kubelet.set(
		pod("no-gpu", &podresourcesv1.ContainerResources{Name: "web", CpuIds: []int64{1, 2}}),
		pod("train-0", both, container("sidecar", "nvidia.com/mig-2g.20gb.shared", migA)),
	)
	wantHoldings(t, r.read(t),
		whole(gpuA, "train-0", "trainer", ""),
		attribution.Holding{
			Device: attribution.Device{UUID: gpuB, GI: n(11), CI: n(0)},
			Owner:  owner("train-0", "trainer", ""),
		},
		whole(migA, "train-0", "sidecar", ""))
	wantMetric(t, r.metrics.questions.WithLabelValues(queryList, "ok"), 1)
}

// A pod that lives for three seconds is in the polls of its time, and in no other.
func TestReadShortPod(t *testing.T) {
	r := newRig(t)
	for second, want := range []int{0, 1, 1, 1, 0} {
		r.kubelet.set()
		if want > 0 {
			r.kubelet.set(pod("short", container("c", "nvidia.com/gpu", gpuA)))
		}
		if got := len(r.read(t).Holdings); got != want {
			t.Errorf("second %d: %d holdings, want %d", second, got, want)
		}
		r.clock.Advance(time.Second)
	}
}

func TestReadNamesWhatItCannotUnderstand(t *testing.T) {
	r := newRig(t)
	// As captured: a MIG id without its instance says nothing of which one.
	r.kubelet.set(
		pod("ollama", container("ollama", "nvidia.com/gpu", gpuA, "MIG-"+gpuA)),
		pod("hami", container("c", "nvidia.com/gpu", gpuB+"-7")))
	r.fails(t, "pod team-a/ollama", `container "ollama"`, "resource nvidia.com/gpu", `device id "MIG-`+gpuA+`"`,
		"pod team-a/hami", `"`+gpuB+`-7"`, "want GPU-<uuid>")
}

func TestReadNamesTheFirstFew(t *testing.T) {
	r := newRig(t)
	ids := make([]string, 100)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	r.kubelet.set(pod("p", container("c", "nvidia.com/gpu", ids...)))
	r.fails(t, `device id "7"`, "and 92 more")
}

func TestReadPodWithoutName(t *testing.T) {
	r := newRig(t)
	r.kubelet.set(pod("a"), &podresourcesv1.PodResources{Name: "b", Containers: []*podresourcesv1.ContainerResources{container("c", "nvidia.com/gpu", gpuA)}})
	r.fails(t, "pod_resources[1] /b", gpuA)
}

// A renamed resource holds GPUs that would look free: it is counted until the
// configuration has it.
func TestReadOtherResources(t *testing.T) {
	r := newRig(t)
	r.kubelet.set(pod("p", container("c", "nvidia.com/h100", gpuA, gpuB)), pod("q", container("c", "example.com/fpga", "fpga-0")))
	wantHoldings(t, r.read(t))
	wantMetric(t, r.metrics.ignored, 2)

	r = newRig(t, func(c *Config) { c.Resources = []string{"nvidia.com/h*"} })
	r.kubelet.set(pod("p", container("c", "nvidia.com/h100", gpuA)))
	wantHoldings(t, r.read(t), whole(gpuA, "p", "c", ""))
	wantMetric(t, r.metrics.ignored, 0)
}

func TestReadReplicas(t *testing.T) {
	r := newRig(t)
	r.kubelet.setAllocatable(nil,
		devices("nvidia.com/gpu.shared", gpuA+"::0", gpuA+"::1"), devices("nvidia.com/gpu.shared", gpuA+"::2", gpuA+"::3"),
		devices("nvidia.com/gpu", gpuB), devices("example.com/fpga", "fpga::0"),
		devices("nvidia.com/mig-1g.5gb.shared", migA+"::0", migA+"::1", "nonsense::1"),
		devices("nvidia.com/gpu", "nvidia7/gi3/vgpu0", "nvidia7/gi3/vgpu1", "nvidia7/gi3/vgpu2"))
	r.kubelet.set(
		pod("p", container("one", "nvidia.com/gpu.shared", gpuA+"::1", gpuA+"::3"), container("two", "nvidia.com/gpu.shared", gpuA+"::1")),
		pod("q", container("c", "nvidia.com/gpu", "nvidia7/gi3/vgpu1")))
	shared := []attribution.Shared{
		{Device: attribution.Device{UUID: gpuA}, Replicas: 4},
		{Device: attribution.Device{UUID: migA}, Replicas: 2},
		{Device: attribution.Device{Minor: n(7), GI: n(3)}, Replicas: 3},
	}
	snap := r.read(t)
	wantHoldings(t, snap,
		attribution.Holding{Device: attribution.Device{UUID: gpuA}, Replica: "1", Owner: owner("p", "one", "")},
		attribution.Holding{Device: attribution.Device{UUID: gpuA}, Replica: "3", Owner: owner("p", "one", "")},
		attribution.Holding{Device: attribution.Device{Minor: n(7), GI: n(3)}, Replica: "1", Owner: owner("q", "c", "")})
	wantShared(t, snap, shared...)
}

func TestReplicasAreAskedAgain(t *testing.T) {
	r := newRig(t)
	a := func(replicas uint32) attribution.Shared {
		return attribution.Shared{Device: attribution.Device{UUID: gpuA}, Replicas: replicas}
	}
	asked := func(want int) {
		t.Helper()
		if got := r.kubelet.count("allocatable"); got != want {
			t.Fatalf("asked for allocatable resources %d times, want %d", got, want)
		}
	}
	r.kubelet.setAllocatable(nil, devices("nvidia.com/gpu", gpuA+"::0", gpuA+"::1"))
	r.kubelet.set(pod("p", container("c", "nvidia.com/gpu", gpuA+"::1")))
	wantShared(t, r.read(t), a(2))
	r.clock.Advance(59 * time.Second)
	r.read(t)
	asked(1)
	r.clock.Advance(time.Second)
	r.read(t)
	asked(2)

	// A replica nobody has heard of: asked at once.
	r.kubelet.setAllocatable(nil, devices("nvidia.com/gpu", gpuA+"::0", gpuA+"::1", gpuA+"::2"))
	r.kubelet.set(pod("p", container("c", "nvidia.com/gpu", gpuA+"::2")))
	wantShared(t, r.read(t), a(3))
	asked(3)

	// One that even then is not listed is not asked for at every poll.
	r.kubelet.set(pod("p", container("c", "nvidia.com/gpu", gpuA+"::9")))
	r.read(t)
	wantShared(t, r.read(t), a(3))
	asked(4)
	wantMetric(t, r.metrics.unlisted, 1)

	// An unhealthy board is not allocatable; who holds it keeps his share.
	r.kubelet.setAllocatable(nil)
	r.clock.Advance(time.Minute)
	wantShared(t, r.read(t), a(3))
	// Once nobody holds it, it is forgotten.
	r.kubelet.set()
	r.clock.Advance(time.Minute)
	wantShared(t, r.read(t))
}

// After sharing was switched off a board has a count only as long as somebody has
// a replica of it from before.
func TestReplicasSwitchedOff(t *testing.T) {
	r := newRig(t)
	r.kubelet.setAllocatable(nil, devices("nvidia.com/gpu", gpuA+"::0", gpuA+"::1", gpuB+"::0", gpuB+"::1"))
	old := pod("old", container("c", "nvidia.com/gpu", gpuB+"::1"))
	r.kubelet.set(old)
	sharedB := attribution.Shared{Device: attribution.Device{UUID: gpuB}, Replicas: 2}
	wantShared(t, r.read(t), sharedB, attribution.Shared{Device: attribution.Device{UUID: gpuA}, Replicas: 2})

	r.kubelet.setAllocatable(nil, devices("nvidia.com/gpu", gpuA, gpuB))
	r.kubelet.set(pod("new", container("c", "nvidia.com/gpu", gpuA)), old)
	r.read(t)
	for range 3 {
		r.clock.Advance(time.Minute)
		wantShared(t, r.read(t), sharedB)
	}
	r.kubelet.set(pod("new", container("c", "nvidia.com/gpu", gpuA)))
	r.clock.Advance(time.Minute)
	wantShared(t, r.read(t))
}

func TestReplicasUnknown(t *testing.T) {
	for _, err := range []error{unimplemented, errors.New("Pod Resources API GetAllocatableResources disabled")} {
		r := newRig(t)
		r.kubelet.setAllocatable(err)
		r.kubelet.set(pod("p", container("c", "nvidia.com/gpu", gpuA+"::1")))
		r.read(t)
		wantShared(t, r.read(t))
		if got := r.kubelet.count("allocatable"); got != 1 {
			t.Errorf("%v: asked %d times in two polls, want once", err, got)
		}
	}
}

// Without the number a replica's holder would have all of the device.
func TestReplicasFail(t *testing.T) {
	r := newRig(t)
	r.kubelet.setAllocatable(status.Error(codes.Internal, "checkpoint is corrupt"))
	r.kubelet.set(pod("p", container("c", "nvidia.com/gpu", gpuB)))
	wantHoldings(t, r.read(t), whole(gpuB, "p", "c", ""))
	wantMetric(t, r.metrics.stale.WithLabelValues(queryAllocatable), 1)
	r.kubelet.set(pod("p", container("c", "nvidia.com/gpu", gpuA+"::1")))
	r.fails(t, "count replicas", gpuA+" replica 1", "checkpoint is corrupt")
}

func TestKubeletGoneAndBack(t *testing.T) {
	r := newRig(t)
	r.kubelet.set(pod("p", container("c", "nvidia.com/gpu", gpuA)))
	want := whole(gpuA, "p", "c", "")
	wantHoldings(t, r.read(t), want)

	// A restart between two polls is not even seen.
	r.kubelet.stop()
	r.kubelet.start(t)
	wantHoldings(t, r.read(t), want)

	r.kubelet.stop()
	r.fails(t, "query kubelet for pod resources", r.kubelet.socket, "the socket's directory mounted")
	r.fails(t, r.kubelet.socket)
	wantMetric(t, r.metrics.questions.WithLabelValues(queryList, "error"), 2)
	r.kubelet.start(t)
	wantHoldings(t, r.read(t), want)
}

func TestKubeletRefuses(t *testing.T) {
	r := newRig(t)
	r.kubelet.stop()
	writeFile(t, r.kubelet.socket, "not a socket")
	r.fails(t, r.kubelet.socket, "connection refused", "nothing listens on it")

	r = newRig(t)
	r.kubelet.fail(status.Error(codes.ResourceExhausted, "rejected by rate limit"))
	r.fails(t, "query kubelet for pod resources", "rejected by rate limit")
	r.kubelet.fail(nil)
	r.read(t)
}

// To root nothing is forbidden, so the refusal is made by hand.
func TestKubeletForbidden(t *testing.T) {
	c := &conn{socket: "/run/kubelet.sock", dialErr: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EACCES)}}
	err := c.explain(status.Error(codes.Unavailable, "connection error"))
	wantWords(t, err, "/run/kubelet.sock", "permission denied", "run the collector as root")
}

func TestKubeletSlow(t *testing.T) {
	r := newRig(t)
	unblock := r.kubelet.hang()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := r.Read(ctx); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("read of a kubelet that hangs: %v, want DeadlineExceeded", err)
	}
	unblock()
	r.read(t)

	slow := newRig(t, func(c *Config) { c.Timeout = 20 * time.Millisecond })
	defer slow.kubelet.hang()()
	slow.fails(t, "DeadlineExceeded", slow.kubelet.socket)
}

func TestAnswerLargerThanGRPCsDefault(t *testing.T) {
	r := newRig(t)
	r.kubelet.set(pod(strings.Repeat("x", 5<<20)), pod("p", container("c", "nvidia.com/gpu", gpuA)))
	wantHoldings(t, r.read(t), whole(gpuA, "p", "c", ""))
}

func TestInvalidUTF8(t *testing.T) {
	r := newRig(t)
	r.kubelet.set(pod("p\xff", container("c", "nvidia.com/gpu", gpuA)))
	r.fails(t, "query kubelet for pod resources", "invalid UTF-8")
}

func TestNewNeedsNodeAndServer(t *testing.T) {
	d := deps(clock.NewFake(time.Time{}))
	if _, err := New(DefaultConfig(), d); err == nil {
		t.Error("no pod's environment and no api.url: no error")
	} else {
		wantWords(t, err, "pods api", "KUBERNETES_SERVICE_HOST", "api.url")
	}
	d.Node = ""
	if _, err := New(DefaultConfig(), d); err == nil {
		t.Error("no node: no error")
	} else {
		wantWords(t, err, "node is empty")
	}
	d = deps(clock.NewFake(time.Time{}))
	d.Getenv = func(name string) string {
		return map[string]string{"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}[name]
	}
	r, err := New(DefaultConfig(), d)
	if err != nil {
		t.Fatal(err)
	}
	if want := "https://[fd00::1]:443"; r.api.base != want {
		t.Errorf("API server: got %s, want %s", r.api.base, want)
	}
	if want := "https://gpu-node-1:10250"; r.kubeletHTTP.base != want {
		t.Errorf("kubelet: got %s, want %s", r.kubeletHTTP.base, want)
	}
	if r.Name() != "kubelet" || r.Close() != nil {
		t.Error("name or close is wrong")
	}
}
