package podresources

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/collector/attribution"
)

const podsPath = "/api/v1/pods"

// newPodRig is a Reader that asks an API server for pods, on a node where
// train-0 holds a GPU.
func newPodRig(t *testing.T, change ...func(*Config)) (*rig, *fakeKube) {
	t.Helper()
	kube := newFakeKube(t)
	r := newRig(t, append([]func(*Config){withPods(kube)}, change...)...)
	kube.set(podsPath, podList(kubePod("train-0", "uid-1", "Running")))
	r.kubelet.set(pod("train-0", container("c", "nvidia.com/gpu", gpuA)))
	return r, kube
}

func TestPodsAreAskedWhenNeeded(t *testing.T) {
	r, kube := newPodRig(t)
	asked := func(want int) {
		t.Helper()
		if got := kube.count(podsPath); got != want {
			t.Fatalf("asked for pods %d times, want %d", got, want)
		}
	}
	wantHoldings(t, r.read(t), whole(gpuA, "train-0", "c", "uid-1"))
	r.clock.Advance(9 * time.Second)
	r.read(t)
	asked(1)
	r.clock.Advance(time.Second)
	r.read(t)
	asked(2)

	// A new pod is asked about at once.
	kube.set(podsPath, podList(kubePod("train-0", "uid-1", "Running"), kubePod("train-1", "uid-2", "Pending")))
	r.kubelet.set(pod("train-0", container("c", "nvidia.com/gpu", gpuA)), pod("train-1", container("c", "nvidia.com/gpu", gpuB)))
	wantHoldings(t, r.read(t), whole(gpuA, "train-0", "c", "uid-1"), whole(gpuB, "train-1", "c", "uid-2"))
	asked(3)

	// Where nobody holds anything nobody is asked.
	r.kubelet.set(pod("web"))
	r.clock.Advance(time.Minute)
	wantHoldings(t, r.read(t))
	asked(3)
	if want := "/api/v1/pods?fieldSelector=spec.nodeName%3Dgpu-node-1&limit=100"; kube.queries[0] != want {
		t.Errorf("question: got %s, want %s", kube.queries[0], want)
	}
	if kube.auth[0] != "Bearer first" {
		t.Errorf("authorization: got %q, want the token", kube.auth[0])
	}
}

// A StatefulSet's pod comes back under its name.
func TestRecreatedPod(t *testing.T) {
	again := podList(kubePod("train-0", "uid-2", "Running"))
	t.Run("away for one poll", func(t *testing.T) {
		r, kube := newPodRig(t)
		r.read(t)
		r.kubelet.set()
		r.clock.Advance(time.Second)
		r.read(t)
		kube.set(podsPath, again)
		r.kubelet.set(pod("train-0", container("c", "nvidia.com/gpu", gpuA)))
		r.clock.Advance(time.Second)
		wantHoldings(t, r.read(t), whole(gpuA, "train-0", "c", "uid-2"))
	})
	t.Run("on another GPU", func(t *testing.T) {
		r, kube := newPodRig(t)
		r.read(t)
		kube.set(podsPath, again)
		r.kubelet.set(pod("train-0", container("c", "nvidia.com/gpu", gpuB)))
		r.clock.Advance(time.Second)
		wantHoldings(t, r.read(t), whole(gpuB, "train-0", "c", "uid-2"))
	})
	t.Run("unseen, on the same GPU", func(t *testing.T) {
		r, kube := newPodRig(t)
		r.read(t)
		kube.set(podsPath, again)
		r.clock.Advance(9 * time.Second)
		wantHoldings(t, r.read(t), whole(gpuA, "train-0", "c", "uid-1")) // the documented bound
		r.clock.Advance(time.Second)
		wantHoldings(t, r.read(t), whole(gpuA, "train-0", "c", "uid-2"))
	})
	t.Run("its change is not answered for by the old answer", func(t *testing.T) {
		r, kube := newPodRig(t)
		r.read(t)
		kube.set(podsPath, refuse(http.StatusInternalServerError, "etcd is away"))
		r.kubelet.set(pod("train-0", container("c", "nvidia.com/gpu", gpuB)))
		r.fails(t, "identify 1 of 1 pods", "etcd is away")
		r.fails(t, "identify 1 of 1 pods")
	})
}

func TestFinishedPodsHoldNothing(t *testing.T) {
	r, kube := newPodRig(t)
	kube.set(podsPath, podList(kubePod("done", "u1", "Succeeded"), kubePod("dead", "u2", "Failed"), kubePod("runs", "u3", "Running")))
	r.kubelet.set(
		// A finished pod's device need not even be one any more.
		pod("done", container("c", "nvidia.com/gpu", "rubbish")),
		pod("dead", container("c", "nvidia.com/gpu", gpuA)),
		pod("runs", container("c", "nvidia.com/gpu", gpuB)))
	for range 3 {
		wantHoldings(t, r.read(t), whole(gpuB, "runs", "c", "u3"))
		r.clock.Advance(time.Second)
	}
	wantMetric(t, r.metrics.finished, 2)
	// Deleted as well, but still listed, it stays finished.
	kube.set(podsPath, podList(kubePod("dead", "u2", "Failed"), kubePod("runs", "u3", "Running")))
	for range 3 {
		r.clock.Advance(10 * time.Second)
		wantHoldings(t, r.read(t), whole(gpuB, "runs", "c", "u3"))
	}
	wantMetric(t, r.metrics.finished, 2)
	wantMetric(t, r.metrics.unknown, 0)
}

// What the kubelet lists is in somebody's hands, whether or not the API server
// knows the pod: a static one has no mirror yet, or one was deleted by force.
func TestPodsThatNoListHas(t *testing.T) {
	asked := func(t *testing.T, kube *fakeKube, want int) {
		t.Helper()
		if got := kube.count(podsPath); got != want {
			t.Fatalf("asked for pods %d times, want %d", got, want)
		}
	}
	t.Run("never known", func(t *testing.T) {
		r, kube := newPodRig(t)
		kube.set(podsPath, podList(kubePod("other", "u1", "Running")))
		r.fails(t, "identify 1 of 1 pods", "not in the list of pods: team-a/train-0")
		r.clock.Advance(time.Second)
		// By the second list it is certain, and nobody asks every second any more.
		for range 10 {
			wantHoldings(t, r.read(t), whole(gpuA, "train-0", "c", ""))
			wantMetric(t, r.metrics.unknown, 1)
			asked(t, kube, 2)
			r.clock.Advance(time.Second)
		}
		r.read(t)
		asked(t, kube, 3)
		// The mirror is there at last.
		kube.set(podsPath, podList(kubePod("train-0", "uid-1", "Running")))
		r.clock.Advance(10 * time.Second)
		wantHoldings(t, r.read(t), whole(gpuA, "train-0", "c", "uid-1"))
		wantMetric(t, r.metrics.unknown, 0)
	})
	t.Run("new beside a known one", func(t *testing.T) {
		r, kube := newPodRig(t)
		r.read(t)
		r.kubelet.set(pod("train-0", container("c", "nvidia.com/gpu", gpuA)), pod("new", container("c", "nvidia.com/gpu", gpuB)))
		r.fails(t, "identify 1 of 2 pods", "team-a/new")
		wantHoldings(t, r.read(t), whole(gpuB, "new", "c", ""), whole(gpuA, "train-0", "c", "uid-1"))
		// Listed anew it is a new question.
		r.kubelet.set(pod("train-0", container("c", "nvidia.com/gpu", gpuA)))
		r.read(t)
		r.kubelet.set(pod("train-0", container("c", "nvidia.com/gpu", gpuA)), pod("new", container("c", "nvidia.com/gpu", gpuB)))
		r.fails(t, "team-a/new")
		asked(t, kube, 4)
	})
	t.Run("known once", func(t *testing.T) {
		r, kube := newPodRig(t)
		r.read(t)
		kube.set(podsPath, podList(kubePod("other", "u1", "Running")))
		for range 5 {
			r.clock.Advance(10 * time.Second)
			wantHoldings(t, r.read(t), whole(gpuA, "train-0", "c", "uid-1"))
		}
		wantMetric(t, r.metrics.unknown, 1)
		r.kubelet.set()
		wantHoldings(t, r.read(t))
		wantMetric(t, r.metrics.unknown, 0)
	})
	t.Run("an error is no list", func(t *testing.T) {
		r, kube := newPodRig(t)
		kube.set(podsPath, podList(kubePod("other", "u1", "Running")))
		r.fails(t, "not in the list")
		kube.set(podsPath, refuse(http.StatusServiceUnavailable, "leader lost"))
		r.fails(t, "leader lost")
		r.fails(t, "leader lost")
		kube.set(podsPath, podList(kubePod("train-0", "uid-1", "Running")))
		wantHoldings(t, r.read(t), whole(gpuA, "train-0", "c", "uid-1"))
	})
}

func TestPodsFail(t *testing.T) {
	r, kube := newPodRig(t)
	kube.set(podsPath, refuse(http.StatusForbidden, `{"kind":"Status","message":"pods is forbidden"}`))
	r.fails(t, "identify 1 of 1 pods", "query API server", "status 403", "pods is forbidden", "lacks the permission")

	kube.set(podsPath, podList(kubePod("train-0", "uid-1", "Running")))
	want := whole(gpuA, "train-0", "c", "uid-1")
	wantHoldings(t, r.read(t), want)
	kube.set(podsPath, refuse(http.StatusServiceUnavailable, "leader lost"))
	r.clock.Advance(60 * time.Second)
	wantHoldings(t, r.read(t), want)
	wantMetric(t, r.metrics.stale.WithLabelValues(queryPods), 1)
	r.clock.Advance(time.Second)
	r.read(t) // not asked again for pods_every
	wantMetric(t, r.metrics.stale.WithLabelValues(queryPods), 1)
	r.clock.Advance(9 * time.Second)
	r.fails(t, "identify pods: last answer is 1m10s old", "leader lost")
	kube.set(podsPath, podList(kubePod("train-0", "uid-1", "Running")))
	wantHoldings(t, r.read(t), want)
}

// An answer that can't be about this node must not make every GPU free.
func TestPodsAnswersThatAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		answer any
		words  []string
	}{
		"wrong node":  {podList(), []string{`none on node "gpu-node-1"`, "Kubernetes' name"}},
		"other kind":  {object{"items": []object{}}, []string{`kind ""`, "want PodList"}},
		"login page":  {refuse(http.StatusOK, "<html>log in</html>"), []string{"not a JSON object", "log in"}},
		"no end":      {object{"kind": "PodList", "metadata": object{"continue": "abc"}}, []string{"part of the list", `continue "abc" was already used`}},
		"no UID":      {podList(kubePod("train-0", "", "Running")), []string{"items[0]", "team-a/train-0", "UID must not be empty"}},
		"wrong type":  {object{"kind": "PodList", "items": "none"}, []string{"decode PodList", "got none, want ["}},
		"wrong field": {object{"kind": "PodList", "items": []object{kubePod("a", "u", "Running"), {"metadata": 7}}}, []string{"decode PodList: items[1]", "number"}},
		"bad UTF-8":   {podListText(`{"metadata":{"name":"a` + "\xff" + `","namespace":"n","uid":"u"}}`), []string{"items[0]", "a\ufffd", "must be valid UTF-8"}},
		"cut off":     {refuse(http.StatusOK, `{"kind":"PodList","items":[{"metadata":`), []string{"decode PodList: items[0]", "unexpected EOF"}},
		"cut between": {refuse(http.StatusOK, `{"kind":"PodList","items":[]`), []string{"decode PodList", "unexpected EOF"}},
		"two answers": {refuse(http.StatusOK, `{"kind":"PodList","items":[]}{}`), []string{"data after the answer"}},
		"no object":   {refuse(http.StatusOK, `["PodList"]`), []string{"not a JSON object", `PodList`}},
		"redirect":    {func(w http.ResponseWriter) { w.Header().Set("Location", "/"); w.WriteHeader(http.StatusFound) }, []string{"status 302"}},
		"bad request": {refuse(http.StatusUnauthorized, "Unauthorized"), []string{"status 401", "token_file"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, kube := newPodRig(t)
			kube.set(podsPath, c.answer)
			r.fails(t, c.words...)
		})
	}
}

func podListText(items string) func(http.ResponseWriter) {
	return refuse(http.StatusOK, `{"items":[`+items+`],"metadata":{},"kind":"PodList"}`)
}

// While a pod of a name still ends, the next one may be listed beside it.
func TestTwoPodsOfOneName(t *testing.T) {
	stamp := func(p object, key, at string) object {
		p["metadata"].(object)[key] = at
		return p
	}
	finished := kubePod("train-0", "uid-9", "Failed")
	old := kubePod("train-0", "uid-3", "Running")
	ending := stamp(stamp(kubePod("train-0", "uid-5", "Running"), "creationTimestamp", "2026-11-09T00:00:00Z"), "deletionTimestamp", "2026-11-09T01:00:00Z")
	young := stamp(kubePod("train-0", "uid-1", "Running"), "creationTimestamp", "2026-11-02T00:00:00Z")
	for _, pods := range [][]object{{finished, old, ending, young}, {young, ending, old, finished}} {
		r, kube := newPodRig(t)
		kube.set(podsPath, podList(pods...))
		wantHoldings(t, r.read(t), whole(gpuA, "train-0", "c", "uid-1"))
	}
}

func TestPodsFromKubelet(t *testing.T) {
	kube := newFakeKube(t)
	r := newRig(t, func(c *Config) { c.Pods, c.Kubelet = FromKubelet, kube.endpoint() })
	static := kubePod("train-0", "uid-1", "Running")
	static["metadata"].(object)["creationTimestamp"] = nil // as the kubelet shows static pods
	kube.set("/pods", podList(static))
	r.kubelet.set(pod("train-0", container("c", "nvidia.com/gpu", gpuA)))
	wantHoldings(t, r.read(t), whole(gpuA, "train-0", "c", "uid-1"))

	// Kubernetes renews tokens in place.
	writeFile(t, kube.token, "second")
	r.clock.Advance(10 * time.Second)
	r.read(t)
	if want := "Bearer second"; kube.auth[1] != want {
		t.Errorf("authorization after renewal: got %q, want %q", kube.auth[1], want)
	}
}

func TestLabels(t *testing.T) {
	const path = "/api/v1/namespaces/team-a"
	labelled := func(c *Config) {
		c.Namespaces, c.TenantLabels, c.ProjectLabels = FromAPI, []string{"billing/tenant", "team"}, []string{"project"}
	}
	train := kubePod("train-0", "uid-1", "Running")
	train["metadata"].(object)["labels"] = object{"billing/tenant": "someone-else", "project": "mine"}
	with := func(tenant, project string) []attribution.Holding {
		h := whole(gpuA, "train-0", "c", "uid-1")
		h.Owner.Tenant, h.Owner.Project = tenant, project
		return []attribution.Holding{h}
	}

	t.Run("namespace only", func(t *testing.T) {
		r, kube := newPodRig(t, labelled)
		kube.set(podsPath, podList(train))
		kube.set(path, namespace(object{"team": "a"}))
		wantHoldings(t, r.read(t), with("a", "")...)
		r.clock.Advance(59 * time.Second)
		r.read(t)
		if got := kube.count(path); got != 1 {
			t.Errorf("asked for the namespace %d times in a minute, want once", got)
		}
		kube.set(path, namespace(object{"team": "a", "billing/tenant": "A"}))
		r.clock.Advance(time.Second)
		wantHoldings(t, r.read(t), with("A", "")...)
	})
	t.Run("pods trusted after namespaces", func(t *testing.T) {
		r, kube := newPodRig(t, labelled, func(c *Config) { c.TrustPodLabels = true })
		kube.set(podsPath, podList(train))
		kube.set(path, namespace(object{"team": "a"}))
		wantHoldings(t, r.read(t), with("a", "mine")...)
	})
	t.Run("server away", func(t *testing.T) {
		r, kube := newPodRig(t, labelled)
		kube.set(path, refuse(http.StatusForbidden, "no"))
		r.fails(t, "look up tenant of pod team-a/train-0", "/api/v1/namespaces/team-a", "status 403")
		kube.set(path, namespace(object{"team": "a"}))
		r.read(t)
		kube.set(path, refuse(http.StatusInternalServerError, "no"))
		r.clock.Advance(10 * time.Minute)
		wantHoldings(t, r.read(t), with("a", "")...)
		wantMetric(t, r.metrics.stale.WithLabelValues(queryNamespace), 1)
		r.clock.Advance(time.Minute)
		r.fails(t, "last answer is 11m0s old")
		// Deleted under its pods, a namespace keeps its labels.
		kube.set(path, nil)
		wantHoldings(t, r.read(t), with("a", "")...)
	})
	t.Run("namespaces of the past are forgotten", func(t *testing.T) {
		r, kube := newPodRig(t, labelled)
		kube.set(path, namespace(object{"team": "a", "billing/plan": "gold"}))
		r.read(t)
		want := map[string]string{"team": "a"}
		if diff := cmp.Diff(want, r.namespaces["team-a"].labels); diff != "" {
			t.Errorf("labels kept (-want +got):\n%s", diff)
		}
		r.clock.Advance(30 * time.Second)
		r.read(t)
		r.kubelet.set()
		for _, step := range []struct {
			pass time.Duration
			want int
		}{{10 * time.Minute, 1}, {time.Second, 0}} {
			r.clock.Advance(step.pass)
			r.read(t)
			if got := len(r.namespaces); got != step.want {
				t.Errorf("%s after its last pod: %d namespaces known, want %d", step.pass, got, step.want)
			}
		}
	})
}
