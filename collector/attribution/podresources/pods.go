package podresources

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"time"
)

// podFacts is what Kubernetes knows of a pod.
type podFacts struct {
	uid      string
	labels   map[string]string
	finished bool
}

// podBook knows the pods that the kubelet lists with devices.
type podBook struct {
	prints map[podKey]string // the devices each was last listed with
	known  map[podKey]podFacts
	asOf   time.Time // of known
	next   time.Time // when to ask again, if nothing makes it urgent
}

// podsOf answers for every holder that has not gone. A pod that is new in the
// list or whose devices changed may be another one of the same name, so it is
// asked about afresh; so is one that no answer has known yet.
func (r *Reader) podsOf(ctx context.Context, holders []holder) (map[podKey]podFacts, error) {
	b := &r.pods
	b.forget(holders)
	missing := 0
	for _, h := range holders {
		if _, ok := b.known[h.pod]; !ok {
			missing++
		}
	}
	now := r.deps.Clock.Now()
	if missing == 0 && now.Before(b.next) {
		return b.known, nil
	}
	if len(holders) == 0 {
		return nil, nil
	}
	fresh, err := r.askPods(ctx)
	if err == nil {
		b.take(holders, fresh, now)
		b.next = now.Add(r.cfg.PodsEvery)
		return b.known, nil
	}
	if missing > 0 {
		return nil, fmt.Errorf("identify %d of %d pods: %w", missing, len(holders), err)
	}
	if age := now.Sub(b.asOf); age > r.cfg.PodsStaleAfter {
		return nil, fmt.Errorf("identify pods: last answer is %s old: %w", age, err)
	}
	b.next = now.Add(r.cfg.PodsEvery)
	r.standIn(askPods, err)
	return b.known, nil
}

// forget drops what is known of pods that left the list or whose devices changed.
func (b *podBook) forget(holders []holder) {
	prints := make(map[podKey]string, len(holders))
	for _, h := range holders {
		prints[h.pod] = h.fingerprint()
	}
	for pod := range b.known {
		if now, listed := prints[pod]; !listed || b.prints[pod] != now {
			delete(b.known, pod)
		}
	}
	b.prints = prints
}

// take keeps what an answer says of the pods in the list.
func (b *podBook) take(holders []holder, fresh map[podKey]podFacts, now time.Time) {
	b.known, b.asOf = make(map[podKey]podFacts, len(holders)), now
	for _, h := range holders {
		if facts, ok := fresh[h.pod]; ok {
			b.known[h.pod] = facts
		}
	}
}

// podItem is what we read of a v1.Pod.
type podItem struct {
	Metadata struct {
		Name              string            `json:"name"`
		Namespace         string            `json:"namespace"`
		UID               string            `json:"uid"`
		Labels            map[string]string `json:"labels"`
		CreationTimestamp time.Time         `json:"creationTimestamp"`
		DeletionTimestamp *time.Time        `json:"deletionTimestamp"`
	} `json:"metadata"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

func (p podItem) key() podKey { return podKey{p.Metadata.Namespace, p.Metadata.Name} }

func (p podItem) finished() bool {
	return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed"
}

// replaces orders pods of one name: the running one, else the one that isn't
// being deleted, else the youngest.
func (p podItem) replaces(q podItem) bool {
	order := func(first, second bool) int {
		switch {
		case first == second:
			return 0
		case second:
			return 1
		}
		return -1
	}
	return cmp.Or(
		order(p.finished(), q.finished()),
		order(p.Metadata.DeletionTimestamp != nil, q.Metadata.DeletionTimestamp != nil),
		p.Metadata.CreationTimestamp.Compare(q.Metadata.CreationTimestamp),
		cmp.Compare(p.Metadata.UID, q.Metadata.UID)) > 0
}

// askPods asks for all pods of the node, finished ones included.
func (r *Reader) askPods(ctx context.Context) (map[podKey]podFacts, error) {
	var list struct {
		Items []podItem `json:"items"`
	}
	err := r.ask(ctx, askPods, func(ctx context.Context) error {
		if r.cfg.Pods == FromKubelet {
			return r.kubeletHTTP.get(ctx, "/pods", nil, "PodList", &list)
		}
		return r.api.get(ctx, "/api/v1/pods", url.Values{"fieldSelector": {"spec.nodeName=" + r.node}}, "PodList", &list)
	})
	if err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("ask for pods: there are none on node %q, although the kubelet lists some with devices: is this Kubernetes' name of the node?", r.node)
	}
	return indexPods(list.Items)
}

func indexPods(items []podItem) (map[podKey]podFacts, error) {
	chosen := map[podKey]podItem{}
	var errs []error
	for i, p := range items {
		if p.Metadata.Name == "" || p.Metadata.Namespace == "" || p.Metadata.UID == "" {
			errs = append(errs, fmt.Errorf("items[%d]: pod %s with UID %q: name, namespace and UID must not be empty", i, p.key(), p.Metadata.UID))
			continue
		}
		if other, ok := chosen[p.key()]; !ok || p.replaces(other) {
			chosen[p.key()] = p
		}
	}
	if err := joined(errs); err != nil {
		return nil, fmt.Errorf("ask for pods: %w", err)
	}
	facts := make(map[podKey]podFacts, len(chosen))
	for key, p := range chosen {
		facts[key] = podFacts{uid: p.Metadata.UID, labels: p.Metadata.Labels, finished: p.finished()}
	}
	return facts, nil
}
