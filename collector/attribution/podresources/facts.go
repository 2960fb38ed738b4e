package podresources

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"time"

	"github.com/gputally/gputally/internal/wire"
)

// namespaceFacts are a namespace's labels at an instant.
type namespaceFacts struct {
	labels map[string]string // the configured ones
	asOf   time.Time
	next   time.Time
	named  time.Time // when a pod of the namespace last had devices
}

// owner returns the facts about a pod that holds something.
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

// firstLabel searches all keys in the first set before the next set.
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

// namespaceLabels returns labels that are at most namespaces_every old, or ten times that while the API server does
// not answer. A namespace that was deleted before its pods keeps its labels; none if it was never queried.
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

// forgetNamespaces removes namespaces that have had no pod with devices for so long that their labels would be too
// old.
func (r *Reader) forgetNamespaces() {
	now := r.deps.Clock.Now()
	maps.DeleteFunc(r.namespaces, func(_ string, known namespaceFacts) bool {
		return now.Sub(known.named) > namespacesStale*r.cfg.NamespacesEvery
	})
}
