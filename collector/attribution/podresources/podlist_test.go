package podresources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/collector/attribution"
	"github.com/gputally/gputally/internal/jsonstream"
)

// budget is a context whose deadline passes when a test says so.
type budget struct {
	context.Context
	over chan struct{}
}

func newBudget() *budget { return &budget{context.Background(), make(chan struct{})} }

func (b *budget) Done() <-chan struct{} { return b.over }

func (b *budget) Err() error {
	select {
	case <-b.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// paged answers like an API server: limit pods at a time, the rest by continue.
// slow decides which questions are never answered.
func paged(slow func(limit, from int) bool, pods ...object) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		if slow != nil && slow(limit, from) {
			<-r.Context().Done()
			return
		}
		to := len(pods)
		list := podList()
		if limit > 0 && from+limit < to {
			to = from + limit
			list["metadata"] = object{"continue": strconv.Itoa(to)}
		}
		list["items"] = pods[from:to]
		json.NewEncoder(w).Encode(list)
	}
}

// crowd is so many pods of which the last is train-0.
func crowd(n int) []object {
	pods := make([]object, n)
	for i := range pods {
		pods[i] = kubePod(fmt.Sprintf("web-%d", i), fmt.Sprintf("u-%d", i), "Running")
	}
	pods[n-1] = kubePod("train-0", "uid-1", "Running")
	return pods
}

// wantPages are the limits and tokens that the API server was asked with since
// the last such look.
func wantPages(t *testing.T, kube *fakeKube, want ...string) {
	t.Helper()
	var got []string
	kube.mu.Lock()
	for _, q := range kube.queries {
		q = strings.TrimPrefix(q, podsPath+"?")
		got = append(got, strings.Replace(q, "fieldSelector=spec.nodeName%3Dgpu-node-1&", "", 1))
	}
	kube.queries = nil
	kube.mu.Unlock()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
}

func TestPodsInPages(t *testing.T) {
	r, kube := newPodRig(t)
	kube.set(podsPath, paged(nil, crowd(250)...))
	wantHoldings(t, r.read(t), whole(gpuA, "train-0", "c", "uid-1"))
	wantPages(t, kube, "limit=100", "continue=100&limit=100", "continue=200&limit=100")

	// A pod that a later page spoils is named by its place in the whole list.
	pods := crowd(250)
	pods[120] = kubePod("web-120", "", "Running")
	kube.set(podsPath, paged(nil, pods...))
	r.kubelet.set(pod("new", container("c", "nvidia.com/gpu", gpuB)))
	r.fails(t, "items[120]", "team-a/web-120")
	// A list that expired between two pages is begun anew at the next poll.
	kube.set(podsPath, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Query().Get("continue") != "" {
			refuse(http.StatusGone, `{"message":"The provided continue parameter is too old"}`)(w)
			return
		}
		paged(nil, crowd(250)...)(w, q)
	}))
	r.fails(t, "status 410", "too old")
	kube.set(podsPath, paged(nil, kubePod("new", "u", "Running")))
	wantHoldings(t, r.read(t), whole(gpuB, "new", "c", "u"))
}

// slowRig reads within a budget of time, which is over when stop says so of a page.
type slowRig struct {
	*rig
	kube *fakeKube
	now  *budget
}

func newSlowRig(t *testing.T, stop func(limit, from int) bool, pods ...object) *slowRig {
	r, kube := newPodRig(t, func(c *Config) { c.Timeout = time.Minute })
	s := &slowRig{rig: r, kube: kube}
	kube.set(podsPath, paged(func(limit, from int) bool {
		if !stop(limit, from) {
			return false
		}
		close(s.now.over)
		return true
	}, pods...))
	return s
}

func (s *slowRig) read() (attribution.Snapshot, error) {
	s.now = newBudget()
	return s.Read(s.now)
}

func (s *slowRig) wantHoldings(t *testing.T, want ...attribution.Holding) {
	t.Helper()
	snap, err := s.read()
	if err != nil {
		t.Fatal(err)
	}
	wantHoldings(t, snap, want...)
}

func (s *slowRig) wantError(t *testing.T, words ...string) {
	t.Helper()
	_, err := s.read()
	if err == nil {
		t.Fatalf("read: no error, want one naming %q", words)
	}
	wantWords(t, err, words...)
}

// Tenants can make a node's pods as large as the API server bears. That makes a
// list late, and fails nothing that was known before.
func TestPodsThatTakeLongerThanAPoll(t *testing.T) {
	slow, stopped := false, false
	// No page of more than 30 arrives in time, and the second stops once.
	s := newSlowRig(t, func(limit, from int) bool {
		stop := slow && (limit > 30 || (from == 25 && !stopped))
		stopped = stopped || (slow && from == 25)
		return stop
	}, crowd(60)...)
	want := whole(gpuA, "train-0", "c", "uid-1")
	s.wantHoldings(t, want)
	wantPages(t, s.kube, "limit=100")
	slow = true
	for _, pages := range [][]string{
		{"limit=100"},
		{"limit=50"},
		{"limit=25", "continue=25&limit=25"},
		{"continue=25&limit=25", "continue=50&limit=25"},
	} {
		s.clock.Advance(10 * time.Second)
		s.wantHoldings(t, want)
		wantPages(t, s.kube, pages...)
	}
	wantMetric(t, s.metrics.stale.WithLabelValues(queryPods), 3)
	if want := s.clock.Now().Add(-10 * time.Second); !s.pods.asOf.Equal(want) {
		t.Errorf("the answer is of %s, want %s, when its first page was asked for", s.pods.asOf, want)
	}
	// A list that came in time tries larger pages.
	for _, pages := range [][]string{{"limit=25", "continue=25&limit=25", "continue=50&limit=25"}, {"limit=50"}} {
		s.clock.Advance(10 * time.Second)
		s.wantHoldings(t, want)
		wantPages(t, s.kube, pages...)
	}
}

// Time that is over in the middle of a page is no broken answer, over either HTTP.
func TestPodsPageCutByTime(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		kube := newFakeKube(t)
		kube.Config.ErrorLog.SetOutput(io.Discard)
		server := httptest.NewUnstartedServer(kube)
		server.EnableHTTP2 = http2
		server.StartTLS()
		t.Cleanup(server.Close)
		c := newKubeletClient(Endpoint{URL: server.URL, InsecureSkipVerify: true}, node)
		kube.set("/pods", http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if got := q.ProtoMajor == 2; got != http2 {
				t.Errorf("protocol is %s, HTTP/2 wanted: %v", q.Proto, http2)
			}
			io.WriteString(w, `{"kind":"PodList","items":[{"metadata":`)
			w.(http.Flusher).Flush()
			<-q.Context().Done()
		}))
		now := newBudget()
		err := c.stream(now, "/pods", nil, func(answer io.Reader) error {
			close(now.over)
			_, err := DefaultConfig().decodePods(answer)
			return err
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("HTTP/2 %v: got %v, want that the deadline is exceeded", http2, err)
		}
	}
}

// A list is of the instant at which it began: of a pod that came later it says nothing.
func TestPodsListedDuringALongList(t *testing.T) {
	stopped := false
	s := newSlowRig(t, func(_, from int) bool {
		stop := from == 100 && !stopped
		stopped = stopped || stop
		return stop
	}, crowd(150)...)
	s.wantError(t, "identify 1 of 1 pods", "rest is requested at the next poll", "100 so far")
	s.clock.Advance(time.Second)
	// web-7 is known to that list, which may mean its predecessor.
	s.kubelet.set(pod("train-0", container("c", "nvidia.com/gpu", gpuA)), pod("web-7", container("c", "nvidia.com/gpu", gpuB)))
	s.wantError(t, "identify 1 of 2 pods", "team-a/web-7")
	s.clock.Advance(time.Second)
	s.wantHoldings(t, whole(gpuA, "train-0", "c", "uid-1"), whole(gpuB, "web-7", "c", "u-7"))
	wantPages(t, s.kube, "limit=100", "continue=100&limit=100", "continue=100&limit=100", "limit=100", "continue=100&limit=100")
}

// The rest of a list is asked for at the next poll, not pods_every later; one that
// went on for too long is begun anew.
func TestPodsListGoesOn(t *testing.T) {
	slow := false
	s := newSlowRig(t, func(_, from int) bool { return slow && from == 100 }, crowd(150)...)
	want := whole(gpuA, "train-0", "c", "uid-1")
	s.wantHoldings(t, want)
	slow = true
	s.clock.Advance(10 * time.Second)
	s.wantHoldings(t, want)
	s.clock.Advance(time.Second)
	slow = false
	s.wantHoldings(t, want)
	wantPages(t, s.kube, "limit=100", "continue=100&limit=100",
		"limit=100", "continue=100&limit=100",
		"continue=100&limit=100")

	slow = true
	s.clock.Advance(10 * time.Second)
	s.wantHoldings(t, want)
	s.clock.Advance(61 * time.Second)
	slow = false
	s.wantHoldings(t, want)
	wantPages(t, s.kube, "limit=100", "continue=100&limit=100", "limit=100", "continue=100&limit=100")
}

func TestPodsFromKubeletInOnePiece(t *testing.T) {
	kube := newFakeKube(t)
	r := newRig(t, func(c *Config) { c.Pods, c.Kubelet = FromKubelet, kube.endpoint() })
	kube.set("/pods", object{"kind": "PodList", "metadata": object{"continue": "abc"}, "items": crowd(1)})
	r.kubelet.set(pod("train-0", container("c", "nvidia.com/gpu", gpuA)))
	r.fails(t, "query kubelet", "part of the list")
	kube.set("/pods", paged(nil, crowd(250)...))
	wantHoldings(t, r.read(t), whole(gpuA, "train-0", "c", "uid-1"))
	if diff := cmp.Diff([]string{"/pods", "/pods"}, kube.queries); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
}

// fatPods writes a list of pods of 1.4 MB each, as many as are asked for.
func fatPods(w io.Writer, n int) {
	filler := strings.Repeat("x", 700_000)
	io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[`)
	for i := range n {
		if i > 0 {
			io.WriteString(w, ",")
		}
		fmt.Fprintf(w, `{"metadata":{"name":"fat-%d","namespace":"team-a","uid":"u-%d","labels":{"project":"p","other":"o"},"annotations":{"a":"`, i, i)
		io.WriteString(w, filler)
		io.WriteString(w, `"}},"spec":{"containers":[{"env":[{"name":"A","value":"`)
		io.WriteString(w, filler)
		io.WriteString(w, `"}]}]},"status":{"phase":"Running"}}`)
	}
	io.WriteString(w, "]}\n")
}

// Only one pod is in memory at a time.
func TestDecodePodsInBoundedMemory(t *testing.T) {
	const pods = 30
	out, in := io.Pipe()
	go func() {
		fatPods(in, pods)
		in.Close()
	}()
	cfg := DefaultConfig()
	cfg.ProjectLabels = []string{"project"}
	peak := &peakReader{from: out}
	page, err := cfg.decodePods(peak)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(page.items); got != pods {
		t.Fatalf("decoded %d pods, want %d", got, pods)
	}
	last := page.items[pods-1]
	if diff := cmp.Diff(map[string]string{"project": "p"}, last.Metadata.Labels); diff != "" || last.Metadata.UID != "u-29" {
		t.Errorf("last pod is %+v, labels (-want +got):\n%s", last, diff)
	}
	if limit := uint64(24 << 20); peak.bytes > limit {
		t.Errorf("%d bytes live while %d bytes were read, want at most %d", peak.bytes, peak.read, limit)
	}
}

// peakReader notes what is live now and then, while it is read.
type peakReader struct {
	from        io.Reader
	read, after int
	bytes       uint64
}

func (p *peakReader) Read(b []byte) (int, error) {
	if p.read >= p.after {
		p.after += 5 << 20
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		p.bytes = max(p.bytes, m.HeapAlloc)
	}
	n, err := p.from.Read(b)
	p.read += n
	return n, err
}

func TestDecodePodsRefusesOneWithoutEnd(t *testing.T) {
	endless := io.MultiReader(strings.NewReader(`{"kind":"PodList","items":[{"metadata":{"name":"`), zeros{})
	_, err := DefaultConfig().decodePods(endless)
	if err == nil {
		t.Fatal("a pod without end: no error")
	}
	wantWords(t, err, "decode PodList: items[0]", "16777216 bytes")
	if !errors.Is(err, jsonstream.ErrTooLarge) {
		t.Errorf("got %v, want that it is too large", err)
	}
}

// zeros is the digit 0 for ever.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

func TestDecodePodsInAnyOrder(t *testing.T) {
	const one = `{"status":{"phase":"Failed"},"metadata":{"uid":"u","namespace":"n","name":"a","creationTimestamp":null}}`
	for _, text := range []string{
		`{"items":[` + one + `],"metadata":{"continue":"c"},"kind":"PodList","extra":{"items":[7]}}`,
		" {\"kind\":\"PodList\",\"apiVersion\":\"v1\",\n\"metadata\":{\"remainingItemCount\":9,\"continue\":\"c\"},\"items\":[" + one + "]}\n\n",
	} {
		page, err := DefaultConfig().decodePods(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if len(page.items) != 1 || page.next != "c" || page.items[0].facts().state != stateFinished {
			t.Errorf("%s: got %+v", text, page)
		}
	}
	page, err := DefaultConfig().decodePods(strings.NewReader(`{"kind":"PodList","items":null}`))
	if err != nil || len(page.items) != 0 {
		t.Errorf("null items: got %+v, %v; want none", page, err)
	}
}
