package podresources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// podsPageMax is the number of pods per page requested from the API server: most nodes have one or two pages.
const podsPageMax = 100

// errUnfinished means that a request's time was not enough for all pages.
var errUnfinished = errors.New("listing the pods took too long: the rest is requested at the next poll")

// podItem has the needed fields of a v1.Pod.
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

func (p podItem) facts() podFacts {
	f := podFacts{uid: p.Metadata.UID, labels: p.Metadata.Labels}
	if p.finished() {
		f.state = stateFinished
	}
	return f
}

func (p podItem) check() error {
	m := p.Metadata
	switch {
	case m.Name == "" || m.Namespace == "" || m.UID == "":
		return fmt.Errorf("pod %s with UID %q: name, namespace and UID must not be empty", p.key(), m.UID)
	case strings.ContainsRune(m.Name+m.Namespace+m.UID, utf8.RuneError):
		// Decoding replaces invalid UTF-8 by this character.
		return fmt.Errorf("pod %q with UID %q: name, namespace and UID must be valid UTF-8", p.key(), m.UID)
	}
	return nil
}

// replaces orders pods with one name: the running one, else the one that isn't being deleted, else the youngest.
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

// listing is a list of pods in progress: all its pages show the state at its start, whenever they are requested.
type listing struct {
	began time.Time
	token string // of the next page
	count int    // pods so far
	pods  map[podKey]podItem
}

// add adds a pod; of two with one name, the one that replaces the other.
func (l *listing) add(p podItem) error {
	if err := p.check(); err != nil {
		return fmt.Errorf("items[%d]: %w", l.count, err)
	}
	l.count++
	if other, ok := l.pods[p.key()]; !ok || p.replaces(other) {
		l.pods[p.key()] = p
	}
	return nil
}

// listPods lists all pods of the node, including finished ones. A list that takes longer than one request may
// continues at the next poll: tenants, whose pods can be 1.5 MB each, can delay it but can't make it fail.
func (r *Reader) listPods(ctx context.Context, now time.Time) (*listing, error) {
	b := &r.pods
	l := b.listing
	resumed := l != nil && now.Sub(l.began) <= r.cfg.PodsStaleAfter
	if !resumed {
		l = &listing{began: now, pods: map[podKey]podItem{}}
	}
	b.listing = nil
	before := l.count
	err := r.query(ctx, queryPods, func(ctx context.Context) error { return r.listPages(ctx, l) })
	switch {
	case err == nil && l.count == 0:
		return nil, fmt.Errorf("list pods: none on node %q, although the kubelet lists some with devices: is "+
			"this Kubernetes' name of the node?", r.node)
	case err == nil:
		if !resumed {
			b.page = min(2*b.page, podsPageMax)
		}
		return l, nil
	case !errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("list pods: %w", err)
	case l.count > before:
		b.listing = l
		return nil, fmt.Errorf("list pods: %w: %d so far: %w", errUnfinished, l.count, err)
	}
	// Not one page arrived: request smaller ones.
	b.page = max(1, b.page/2)
	if l.token != "" {
		b.listing = l
	}
	return nil, fmt.Errorf("list pods: %w", err)
}

// listPages adds one page after the other to a listing. The kubelet has only one.
func (r *Reader) listPages(ctx context.Context, l *listing) error {
	server, path := r.api, "/api/v1/pods"
	if r.cfg.Pods == FromKubelet {
		server, path = r.kubeletHTTP, "/pods"
	}
	for {
		var query url.Values
		if r.cfg.Pods == FromAPI {
			query = url.Values{"fieldSelector": {"spec.nodeName=" + r.node}, "limit": {strconv.Itoa(r.pods.page)}}
			if l.token != "" {
				query.Set("continue", l.token)
			}
		}
		var page podPage
		err := server.stream(ctx, path, query, func(answer io.Reader) (err error) {
			page, err = r.cfg.decodePods(answer)
			return err
		})
		if err != nil {
			return err
		}
		for _, p := range page.items {
			if err := l.add(p); err != nil {
				return err
			}
		}
		switch {
		case page.next == "":
			return nil
		case r.cfg.Pods == FromKubelet || page.next == l.token:
			return fmt.Errorf("query %s: answer is only part of the list, and continue %q was already used", server.name,
				page.next)
		}
		l.token = page.next
	}
}
