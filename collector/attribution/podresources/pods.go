package podresources

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// unknownAfter is how many lists of pods, begun after the kubelet listed a pod, must lack the pod before it counts as
// unknown.
const unknownAfter = 2

// podState is the state, in the last list of pods, of a pod that the kubelet lists.
type podState int

const (
	stateListed   podState = iota // it has not finished
	stateFinished                 // it holds nothing any more (R4)
	stateUnknown                  // missing in the list
)

// podFacts are Kubernetes' facts about a pod, or the last known facts if its state is unknown; they may lack the UID.
type podFacts struct {
	uid    string
	labels map[string]string // the configured ones
	state  podState
}

// podBook stores the pods that the kubelet lists with devices.
type podBook struct {
	listed  map[podKey]*listedPod
	known   map[podKey]podFacts
	asOf    time.Time // of known
	next    time.Time // time of the next query, if no pod requires an earlier one
	listing *listing  // in progress; nil: none
	page    int       // page size
}

// listedPod is a pod that the kubelet has listed without a break and with the same devices.
type listedPod struct {
	print  string // its devices
	since  time.Time
	misses int // lists of pods begun since then that lack it
}

// podsOf returns the facts about every holder. A pod that is new in the kubelet's list or whose devices changed may
// be another one with the same name, so it is queried again.
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
			// Only the first few, since tenants choose the names.
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

// waiting returns the holders without facts; nil: none.
func (b *podBook) waiting(holders []holder) (names []string) {
	for _, h := range holders {
		if _, ok := b.known[h.pod]; !ok {
			names = append(names, h.pod.String())
		}
	}
	return names
}

// forget removes the facts about pods that left the list or whose devices changed.
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

// take stores a list's facts about the pods that the kubelet listed before it. If the list lacks a pod, its facts
// stay: the kubelet says that it has its devices, and only its end frees them.
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
