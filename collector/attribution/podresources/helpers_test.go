package podresources

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gputally/gputally/collector/attribution"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

const (
	gpuA = "GPU-be839661-c0f5-7452-284b-b875666df60c"
	gpuB = "GPU-21c6d9d7-46cd-7e91-99c3-7b6a06a3faea"
	migA = "MIG-c73ab1c4-6cb7-59b6-be7e-21c4ac35c3b6"
	node = "gpu-node-1"
)

// fakeKubelet is the real gRPC service on a Unix socket, with answers of ours.
type fakeKubelet struct {
	podresourcesv1.UnimplementedPodResourcesListerServer
	socket string
	server *grpc.Server
	served chan struct{} // closed when server has ended

	mu             sync.Mutex
	pods           []*podresourcesv1.PodResources
	err            error
	allocatable    []*podresourcesv1.ContainerDevices
	allocatableErr error
	asked          map[string]int
	block          chan struct{} // List waits until it is closed
}

func newFakeKubelet(t *testing.T) *fakeKubelet {
	t.Helper()
	dir, err := os.MkdirTemp("", "kubelet")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	k := &fakeKubelet{socket: filepath.Join(dir, "kubelet.sock"), asked: map[string]int{}}
	k.start(t)
	t.Cleanup(k.stop)
	return k
}

func (k *fakeKubelet) start(t *testing.T) {
	t.Helper()
	os.Remove(k.socket)
	l, err := net.Listen("unix", k.socket)
	if err != nil {
		t.Fatal(err)
	}
	k.server = grpc.NewServer()
	podresourcesv1.RegisterPodResourcesListerServer(k.server, k)
	served := make(chan struct{})
	k.served = served
	go func() {
		defer close(served)
		k.server.Serve(l)
	}()
}

// stop returns when the socket is gone.
func (k *fakeKubelet) stop() {
	k.server.Stop()
	<-k.served
}

func (k *fakeKubelet) List(ctx context.Context, _ *podresourcesv1.ListPodResourcesRequest) (*podresourcesv1.ListPodResourcesResponse, error) {
	k.mu.Lock()
	block := k.block
	k.asked["list"]++
	k.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return &podresourcesv1.ListPodResourcesResponse{PodResources: k.pods}, k.err
}

func (k *fakeKubelet) GetAllocatableResources(context.Context, *podresourcesv1.AllocatableResourcesRequest) (*podresourcesv1.AllocatableResourcesResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked["allocatable"]++
	return &podresourcesv1.AllocatableResourcesResponse{Devices: k.allocatable}, k.allocatableErr
}

func (k *fakeKubelet) set(pods ...*podresourcesv1.PodResources) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods = pods
}

func (k *fakeKubelet) setAllocatable(err error, devices ...*podresourcesv1.ContainerDevices) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.allocatable, k.allocatableErr = devices, err
}

func (k *fakeKubelet) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

// hang makes List wait until the returned function is called.
func (k *fakeKubelet) hang() func() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.block = make(chan struct{})
	block := k.block
	return func() { close(block) }
}

func (k *fakeKubelet) count(question string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked[question]
}

// pod is team-a's listing of one pod.
func pod(name string, containers ...*podresourcesv1.ContainerResources) *podresourcesv1.PodResources {
	return &podresourcesv1.PodResources{Namespace: "team-a", Name: name, Containers: containers}
}

func container(name, resource string, ids ...string) *podresourcesv1.ContainerResources {
	return &podresourcesv1.ContainerResources{Name: name, Devices: []*podresourcesv1.ContainerDevices{devices(resource, ids...)}}
}

func devices(resource string, ids ...string) *podresourcesv1.ContainerDevices {
	return &podresourcesv1.ContainerDevices{ResourceName: resource, DeviceIds: ids}
}

func claimed(name, claim string, resources ...*podresourcesv1.ClaimResource) *podresourcesv1.ContainerResources {
	return &podresourcesv1.ContainerResources{Name: name, DynamicResources: []*podresourcesv1.DynamicResource{
		{ClaimName: claim, ClaimNamespace: "team-a", ClaimResources: resources},
	}}
}

func draResource(device string) *podresourcesv1.ClaimResource {
	return &podresourcesv1.ClaimResource{DriverName: "gpu.nvidia.com", PoolName: node, DeviceName: device}
}

// fakeKube is a kubelet's or an API server's HTTPS side.
type fakeKube struct {
	*httptest.Server
	token, ca string // files

	mu      sync.Mutex
	answers map[string]any // by path: what to encode, a func(http.ResponseWriter) or an http.HandlerFunc
	asked   map[string]int // by path
	claims  any            // answers for every ResourceClaim that has no answer of its own
	queries []string
	auth    []string
}

func newFakeKube(t *testing.T) *fakeKube {
	t.Helper()
	f := &fakeKube{answers: map[string]any{}, asked: map[string]int{}}
	f.Server = httptest.NewUnstartedServer(f)
	f.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	f.StartTLS()
	t.Cleanup(f.Close)
	f.token, f.ca = filepath.Join(t.TempDir(), "token"), filepath.Join(t.TempDir(), "ca.crt")
	writeFile(t, f.token, "first\n")
	writeFile(t, f.ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw})))
	return f
}

func (f *fakeKube) endpoint() Endpoint {
	return Endpoint{URL: f.URL, TokenFile: f.token, CAFile: f.ca}
}

func (f *fakeKube) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked[r.URL.Path]++
	f.queries = append(f.queries, r.URL.RequestURI())
	f.auth = append(f.auth, r.Header.Get("Authorization"))
	answer := f.answers[r.URL.Path]
	if answer == nil && strings.Contains(r.URL.Path, "/resourceclaims/") {
		answer = f.claims
	}
	f.mu.Unlock()
	switch answer := answer.(type) {
	case http.HandlerFunc:
		answer(w, r)
	case nil:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"kind":"Status","message":"%s not found"}`, r.URL.Path)
	case func(http.ResponseWriter):
		answer(w)
	default:
		json.NewEncoder(w).Encode(answer)
	}
}

func (f *fakeKube) set(path string, answer any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[path] = answer
}

func (f *fakeKube) count(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[path]
}

func refuse(status int, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

type object = map[string]any

// kubePod is a v1.Pod of team-a.
func kubePod(name, uid, phase string) object {
	return object{
		"metadata": object{"namespace": "team-a", "name": name, "uid": uid, "creationTimestamp": "2026-11-01T10:00:00Z"},
		"status":   object{"phase": phase},
	}
}

func podList(pods ...object) object {
	return object{"kind": "PodList", "apiVersion": "v1", "metadata": object{}, "items": pods}
}

func namespace(labels object) object {
	return object{"kind": "Namespace", "metadata": object{"labels": labels}}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// rig is a Reader with its clock and metrics.
type rig struct {
	*Reader
	clock   *clock.Fake
	kubelet *fakeKubelet
}

// newRig makes a Reader on a fake kubelet that asks nobody for pods.
func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	k := newFakeKubelet(t)
	cfg := DefaultConfig()
	cfg.Socket, cfg.Pods, cfg.Namespaces = k.socket, FromNowhere, FromNowhere
	for _, f := range change {
		f(&cfg)
	}
	fake := clock.NewFake(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	r, err := New(cfg, deps(fake))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return &rig{r, fake, k}
}

func deps(c clock.Clock) Deps {
	return Deps{
		Clock: c, Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), Node: node,
		Getenv: func(string) string { return "" },
	}
}

func withPods(f *fakeKube) func(*Config) {
	return func(c *Config) { c.Pods, c.API = FromAPI, f.endpoint() }
}

func (r *rig) read(t *testing.T) attribution.Snapshot {
	t.Helper()
	snap, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// fails reads, and wants an error that names all of the words.
func (r *rig) fails(t *testing.T, words ...string) {
	t.Helper()
	snap, err := r.Read(t.Context())
	if err == nil {
		t.Fatalf("read: no error but %v, want one naming %q", snap, words)
	}
	wantWords(t, err, words...)
}

func wantWords(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not name %q", err, word)
		}
	}
}

func wantMetric(t *testing.T, c prometheus.Collector, want float64) {
	t.Helper()
	if got := testutil.ToFloat64(c); got != want {
		t.Errorf("metric: got %v, want %v", got, want)
	}
}

func wantHoldings(t *testing.T, snap attribution.Snapshot, want ...attribution.Holding) {
	t.Helper()
	if diff := cmp.Diff(want, snap.Holdings, protocmp.Transform()); diff != "" {
		t.Errorf("holdings (-want +got):\n%s", diff)
	}
}

func wantShared(t *testing.T, snap attribution.Snapshot, want ...attribution.Shared) {
	t.Helper()
	if want == nil {
		want = []attribution.Shared{}
	}
	if diff := cmp.Diff(want, snap.Shared); diff != "" {
		t.Errorf("shared (-want +got):\n%s", diff)
	}
}

// whole is a pod of team-a having all of a device.
func whole(uuid, pod, container, uid string) attribution.Holding {
	return attribution.Holding{Device: attribution.Device{UUID: uuid}, Owner: owner(pod, container, uid)}
}

func owner(pod, container, uid string) *wire.Owner {
	return &wire.Owner{Namespace: "team-a", Pod: pod, Uid: uid, Container: container}
}

func n(v uint32) *uint32 { return &v }

var unimplemented = status.Error(codes.Unimplemented, "unknown method GetAllocatableResources")
