package exporter

import (
	"slices"
	"strings"

	"github.com/gputally/gputally/internal/wire"
)

// Labels of a row over the versions of dcgm-exporter; the first present counts.
var (
	labelsUUID    = []string{"UUID", "uuid", "gpu_uuid"}
	labelsIndex   = []string{"gpu"}
	labelsModel   = []string{"modelName", "model_name"}
	labelsNode    = []string{"Hostname", "hostname", "exported_hostname"}
	labelsGI      = []string{"GPU_I_ID"}
	labelsProfile = []string{"GPU_I_PROFILE"}
	labelsMIGMode = []string{"DCGM_FI_DEV_MIG_MODE"}
)

// otherDevices are labels of rows that are about a link, a switch or a CPU,
// though some carry a GPU's labels too.
var otherDevices = []string{"nvlink", "nvswitch", "cpu", "cpucore"}

func first(labels map[string]string, names []string) string {
	for _, n := range names {
		if v := labels[n]; v != "" {
			return v
		}
	}
	return ""
}

func hasAny(labels map[string]string, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return labels[n] != "" })
}

// RenamedLabels are the names that a Prometheus gives to the exporter's own
// labels where the plain ones are the exporter's pod (honor_labels: false).
var RenamedLabels = []string{"exported_namespace", "exported_pod", "exported_container"}

// ownerReader turns a row's labels into an owner.
type ownerReader struct {
	labels    OwnerLabels
	notOwners []string
	// exported says that the exposition came through a Prometheus that renamed
	// the exporter's labels: the plain ones are then the exporter's own pod.
	exported bool
}

// newOwnerReader looks over a whole exposition for exported_ labels: a GPU that
// nobody holds has none itself, only the plain labels of the exporter's pod.
func newOwnerReader(cfg *Config, r *reading) ownerReader {
	return ownerReader{
		labels: cfg.OwnerLabels, notOwners: cfg.NotOwners,
		exported: r.renamed || slices.ContainsFunc(r.samples, func(s Sample) bool { return hasAny(s.Labels, RenamedLabels) }),
	}
}

// owner is nil where the labels name none. vgpu tells the replicas of a shared
// GPU apart.
func (r ownerReader) owner(labels map[string]string) (o *wire.Owner, vgpu string) {
	o = &wire.Owner{
		Namespace: r.fact(labels, r.labels.Namespace),
		Pod:       r.fact(labels, r.labels.Pod),
		Container: r.fact(labels, r.labels.Container),
		Uid:       r.fact(labels, r.labels.UID),
		Job:       r.fact(labels, r.labels.Job),
		User:      r.fact(labels, r.labels.User),
		Account:   r.fact(labels, r.labels.Account),
		Tenant:    r.fact(labels, r.labels.Tenant),
		Project:   r.fact(labels, r.labels.Project),
	}
	if slices.Contains(r.notOwners, o.Container) {
		o.Namespace, o.Pod, o.Container, o.Uid = "", "", "", ""
	}
	if ownerKey(o, "") == ownerKey(&wire.Owner{}, "") {
		return nil, ""
	}
	return o, labels["vgpu"]
}

func (r ownerReader) fact(labels map[string]string, names []string) string {
	for _, n := range names {
		v := labels[n]
		if v == "" || (r.exported && scraperLabels[n]) {
			continue
		}
		return v
	}
	return ""
}

// scraperLabels are the labels that Prometheus' Kubernetes discovery puts on
// every row, in place of the exporter's own where those were renamed.
var scraperLabels = map[string]bool{"namespace": true, "pod": true, "container": true}

// ownerKey is what makes two rows of a leaf the same hold. Containers of one
// pod are one owner; one pod on two replicas holds twice.
func ownerKey(o *wire.Owner, vgpu string) string {
	return strings.Join([]string{
		o.Namespace, o.Pod, o.Uid, o.Job, o.User, o.Account, o.Tenant, o.Project, vgpu,
	}, "\x00")
}
