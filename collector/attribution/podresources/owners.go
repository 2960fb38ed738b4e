package podresources

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"time"

	"github.com/gputally/gputally/internal/wire"
)

// namespaceFacts are a namespace's labels as of a moment.
type namespaceFacts struct {
	labels map[string]string // the configured ones
	asOf   time.Time
	next   time.Time
	named  time.Time // when a pod of it last had devices
}

// owner makes the facts about one pod that holds something.
func (r *Reader) owner(ctx context.Context, pod podKey, facts podFacts) (*wire.Owner, error) {
	o := &wire.Owner{Namespace: pod.namespace, Pod: pod.name, Uid: facts.uid}
	var labels []map[string]string
	if r.cfg.needsNamespaces() {
		ns, err := r.namespaceLabels(ctx, pod.namespace)
		if err != nil {
			return nil, fmt.Errorf("look up tenant of pod %s: %w", pod, err)
		}
		labels = append(labels, ns)
	}
	if r.cfg.TrustPodLabels {
		labels = append(labels, facts.labels)
	}
	o.Tenant = firstLabel(r.cfg.TenantLabels, labels)
	o.Project = firstLabel(r.cfg.ProjectLabels, labels)
	return o, nil
}

// firstLabel looks each key up in the first set before the next set.
func firstLabel(keys []string, sets []map[string]string) string {
	for _, labels := range sets {
		for _, key := range keys {
			if v := labels[key]; v != "" {
				return v
			}
		}
	}
	return ""
}

// namespaceLabels are at most namespaces_every old, or ten times that while the
// API server does not answer. A namespace that has been deleted under its pods
// keeps the labels it had, none if it was never asked for.
func (r *Reader) namespaceLabels(ctx context.Context, name string) (map[string]string, error) {
	known, ok := r.namespaces[name]
	now := r.deps.Clock.Now()
	if ok && now.Before(known.next) {
		known.named = now
		r.namespaces[name] = known
		return known.labels, nil
	}
	var item struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
	}
	err := r.query(ctx, queryNamespace, func(ctx context.Context) error {
		return r.api.get(ctx, "/api/v1/namespaces/"+url.PathEscape(name), nil, "Namespace", &item)
	})
	switch {
	case err == nil:
		known = namespaceFacts{labels: r.cfg.configured(item.Metadata.Labels), asOf: now}
	case isNotFound(err):
		known.asOf = now
	case !ok:
		return nil, err
	case now.Sub(known.asOf) > namespacesStale*r.cfg.NamespacesEvery:
		return nil, fmt.Errorf("last answer is %s old: %w", now.Sub(known.asOf), err)
	default:
		r.useLast(queryNamespace, err)
	}
	known.next, known.named = now.Add(r.cfg.NamespacesEvery), now
	r.namespaces[name] = known
	return known.labels, nil
}

// forgetNamespaces drops those that no pod with devices has been of for so long
// that their labels could not stand in any more.
func (r *Reader) forgetNamespaces() {
	now := r.deps.Clock.Now()
	maps.DeleteFunc(r.namespaces, func(_ string, known namespaceFacts) bool {
		return now.Sub(known.named) > namespacesStale*r.cfg.NamespacesEvery
	})
}
