package podresources

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// unknownAfter is how many lists of pods, begun after the kubelet listed a pod,
// must lack it before it counts as one that nobody knows.
const unknownAfter = 2

// podState is what the last list of pods says of a pod that the kubelet lists.
type podState int

const (
	stateListed   podState = iota // it has not finished
	stateFinished                 // it holds nothing any more (R4)
	stateUnknown                  // the list does not have it
)

// podFacts is what Kubernetes knows of a pod, or knew last where its state is
// unknown; it may then have no UID.
type podFacts struct {
	uid    string
	labels map[string]string // the configured ones
	state  podState
}

// podBook knows the pods that the kubelet lists with devices.
type podBook struct {
	listed  map[podKey]*listedPod
	known   map[podKey]podFacts
	asOf    time.Time // of known
	next    time.Time // when to ask again, if nothing makes it urgent
	listing *listing  // begun and not finished
	page    int       // pods to ask for at a time
}

// listedPod is a pod as the kubelet lists it, without a break and with the same
// devices.
type listedPod struct {
	print  string // its devices
	since  time.Time
	misses int // lists of pods that began since and do not have it
}

// podsOf answers for every holder. A pod that is new in the kubelet's list or whose
// devices changed may be another one of the same name, so it is asked about afresh.
func (r *Reader) podsOf(ctx context.Context, holders []holder) (map[podKey]podFacts, error) {
	b := &r.pods
	now := r.deps.Clock.Now()
	b.forget(holders, now)
	if len(holders) == 0 || (b.waiting(holders) == nil && now.Before(b.next)) {
		return b.known, nil
	}
	answer, err := r.listPods(ctx, now)
	if err == nil {
		b.take(answer)
		b.next = now.Add(r.cfg.PodsEvery)
	}
	if waiting := b.waiting(holders); waiting != nil {
		if err == nil {
			// The first few, as everywhere: tenants name them.
			err = fmt.Errorf("not in the list of pods: %s", strings.Join(waiting[:min(len(waiting), 8)], ", "))
		}
		return nil, fmt.Errorf("identify %d of %d pods: %w", len(waiting), len(holders), err)
	}
	if err == nil {
		return b.known, nil
	}
	if age := now.Sub(b.asOf); age > r.cfg.PodsStaleAfter {
		return nil, fmt.Errorf("identify pods: last answer is %s old: %w", age, err)
	}
	b.next = now.Add(r.cfg.PodsEvery)
	if errors.Is(err, errUnfinished) {
		b.next = now
	}
	r.useLast(queryPods, err)
	return b.known, nil
}

// waiting names the holders of whom nothing is known yet; nil: there are none.
func (b *podBook) waiting(holders []holder) (names []string) {
	for _, h := range holders {
		if _, ok := b.known[h.pod]; !ok {
			names = append(names, h.pod.String())
		}
	}
	return names
}

// forget drops what is known of pods that left the list or whose devices changed.
func (b *podBook) forget(holders []holder, now time.Time) {
	before := b.listed
	b.listed = make(map[podKey]*listedPod, len(holders))
	for _, h := range holders {
		one := &listedPod{print: h.fingerprint(), since: now}
		if old, ok := before[h.pod]; ok && old.print == one.print {
			one = old
		}
		b.listed[h.pod] = one
	}
	for pod := range b.known {
		if one, ok := b.listed[pod]; !ok || one != before[pod] {
			delete(b.known, pod)
		}
	}
}

// take keeps what a list says of the pods that the kubelet listed before it. One
// that it lacks stays what it was: the kubelet says that it has its devices, and
// only its end makes them free.
func (b *podBook) take(answer *listing) {
	if b.known == nil {
		b.known = map[podKey]podFacts{}
	}
	b.asOf = answer.began
	for pod, one := range b.listed {
		if one.since.After(answer.began) {
			continue
		}
		if p, ok := answer.pods[pod]; ok {
			b.known[pod], one.misses = p.facts(), 0
			continue
		}
		one.misses++
		facts, ok := b.known[pod]
		if facts.state != stateFinished && (ok || one.misses >= unknownAfter) {
			facts.state = stateUnknown
			b.known[pod] = facts
		}
	}
}
