package podresources

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gputally/gputally/collector/attribution"
	"github.com/gputally/gputally/internal/clock"
)

var errNoAPI = errors.New("the API server's address is unknown: set api.url, or run as a pod")

// Deps are a Reader's dependencies.
type Deps struct {
	Clock    clock.Clock
	Log      *slog.Logger
	Registry prometheus.Registerer
	Node     string              // the collector's name of the node
	Getenv   func(string) string // os.Getenv: a pod's environment has the API server's address
}

// Reader reads one node's kubelet. It implements attribution.Reader.
type Reader struct {
	cfg         Config
	deps        Deps
	node        string
	metrics     *metrics
	kubelet     *conn
	kubeletHTTP *client
	api         *client // nil: unknown

	pods       podBook
	namespaces map[string]namespaceFacts
	replicas   replicas
	dra        draBook
	unexpected map[podKey]podState // finished and unknown pods of the last poll
	ignored    map[string]int      // devices by resource name, in the last poll
}

var _ attribution.Reader = (*Reader)(nil)

// New returns a Reader; nothing is queried before the first Read. It returns an error for each invalid value, and for
// a missing API server or node name.
func New(cfg Config, deps Deps) (*Reader, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure kubelet attribution: %w", err)
	}
	node := cfg.Node
	if node == "" {
		node = deps.Node
	}
	if node == "" && (cfg.Pods != FromNowhere || len(cfg.DRADrivers) > 0) {
		return nil, errors.New("configure kubelet attribution: node is empty")
	}
	api, err := newAPIClient(cfg.API, deps.Getenv)
	if err != nil && (cfg.Pods == FromAPI || cfg.needsNamespaces()) {
		return nil, fmt.Errorf("configure kubelet attribution: pods %s, namespaces %s: %w", cfg.Pods, cfg.Namespaces, err)
	}
	return &Reader{
		cfg: cfg, deps: deps, node: node, metrics: newMetrics(deps.Registry),
		kubelet: &conn{socket: cfg.Socket}, kubeletHTTP: newKubeletClient(cfg.Kubelet, node), api: api,
		pods:       podBook{page: podsPageMax},
		namespaces: map[string]namespaceFacts{},
	}, nil
}

// Name is "kubelet".
func (r *Reader) Name() string { return "kubelet" }

// Close closes the connections. It must not run concurrently with Read.
func (r *Reader) Close() error {
	r.kubelet.close()
	r.kubeletHTTP.close()
	if r.api != nil {
		r.api.close()
	}
	return nil
}

// Read returns the current holdings. Errors name the query that failed, or every pod, container, resource and device
// id that can't be parsed.
func (r *Reader) Read(ctx context.Context) (attribution.Snapshot, error) {
	list, err := r.list(ctx)
	if err != nil {
		return attribution.Snapshot{}, err
	}
	holders, ignored, err := r.cfg.holders(list)
	if err != nil {
		return attribution.Snapshot{}, fmt.Errorf("read pod resources: %w", err)
	}
	r.noteIgnored(ignored)
	var facts map[podKey]podFacts
	if r.cfg.Pods != FromNowhere {
		if facts, err = r.podsOf(ctx, holders); err != nil {
			return attribution.Snapshot{}, err
		}
		holders = r.present(holders, facts)
	}
	return r.snapshot(ctx, holders, facts)
}

func (r *Reader) list(ctx context.Context) (*podresourcesv1.ListPodResourcesResponse, error) {
	type response = *podresourcesv1.ListPodResourcesResponse
	list, err := queryKubelet(ctx, r, queryList, func(ctx context.Context, c kubelet) (response, error) {
		return c.List(ctx, &podresourcesv1.ListPodResourcesRequest{})
	})
	if err != nil {
		return nil, fmt.Errorf("query kubelet for pod resources: %w", err)
	}
	return list, nil
}

// present removes finished pods. Finished and unknown pods are logged once each.
func (r *Reader) present(holders []holder, facts map[podKey]podFacts) []holder {
	unexpected := map[podKey]podState{}
	unknown := 0
	var out []holder
	for _, h := range holders {
		known := facts[h.pod]
		if known.state != stateListed {
			unexpected[h.pod] = known.state
		}
		if r.unexpected[h.pod] != known.state {
			r.logState(h.pod, known)
		}
		if known.state == stateUnknown {
			unknown++
		}
		if known.state != stateFinished {
			out = append(out, h)
		}
	}
	r.metrics.unknown.Set(float64(unknown))
	r.unexpected = unexpected
	return out
}

func (r *Reader) logState(pod podKey, known podFacts) {
	switch known.state {
	case stateFinished:
		r.metrics.finished.Inc()
		r.deps.Log.Info("finished pod holds nothing, although the kubelet lists its devices", "pod", pod.String(), "uid",
			known.uid)
	case stateUnknown:
		r.deps.Log.Warn("pod with devices is missing in the list of pods: it holds them under its last known facts", "pod",
			pod.String(), "uid", known.uid)
	case stateListed:
		r.deps.Log.Info("pod is in the list of pods again", "pod", pod.String(), "uid", known.uid)
	}
}

func (r *Reader) snapshot(ctx context.Context, holders []holder, facts map[podKey]podFacts) (attribution.Snapshot,
	error,
) {
	dra, err := r.identify(ctx, holders)
	if err != nil {
		return attribution.Snapshot{}, fmt.Errorf("read pod resources: %w", err)
	}
	var snap attribution.Snapshot
	var plugin []deviceID
	var errs []error
	for _, h := range holders {
		owner, err := r.owner(ctx, h.pod, facts[h.pod])
		if err != nil {
			return attribution.Snapshot{}, err
		}
		got, ids, err := h.holdings(owner, dra)
		errs = append(errs, err)
		snap.Holdings = append(snap.Holdings, got...)
		plugin = append(plugin, ids...)
	}
	if err := joined(errs); err != nil {
		return attribution.Snapshot{}, fmt.Errorf("read pod resources: %w", err)
	}
	if snap.Shared, err = r.count(ctx, plugin); err != nil {
		return attribution.Snapshot{}, err
	}
	r.forgetNamespaces()
	return snap, nil
}

// query bounds the duration of a query, and measures it.
func (r *Reader) query(ctx context.Context, question string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	start := r.deps.Clock.Now()
	err := f(ctx)
	r.metrics.duration.WithLabelValues(question).Observe(r.deps.Clock.Since(start).Seconds())
	result := "ok"
	if err != nil {
		result = "error"
	}
	r.metrics.questions.WithLabelValues(question, result).Inc()
	return err
}

// useLast counts and logs that an earlier answer is used because a query failed.
func (r *Reader) useLast(question string, err error) {
	r.metrics.stale.WithLabelValues(question).Inc()
	r.deps.Log.Warn("query failed, using its last answer", "question", question, "error", err)
}

// noteIgnored counts and logs held NVIDIA devices of resources that aren't configured: their holders seem to hold
// nothing.
func (r *Reader) noteIgnored(ignored map[string]int) {
	total := 0
	for _, resource := range slices.Sorted(maps.Keys(ignored)) {
		total += ignored[resource]
		if r.ignored[resource] == 0 {
			r.deps.Log.Warn("pods hold devices of a resource that is not configured; they are not attributed",
				"resource", resource, "devices", ignored[resource])
		}
	}
	r.metrics.ignored.Set(float64(total))
	r.ignored = ignored
}
