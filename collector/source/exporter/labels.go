package exporter

import (
	"slices"
	"strings"

	"github.com/gputally/gputally/collector/source/field"
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

// otherDevices are labels of rows about a link, a switch or a CPU, though some have a GPU's labels, too.
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

// RenamedLabels are the names that a Prometheus gives to the exporter's own labels if the plain ones are the
// exporter's pod (honor_labels: false).
var RenamedLabels = []string{"exported_namespace", "exported_pod", "exported_container"}

// ownerReader converts a row's labels to an owner.
type ownerReader struct {
	labels    OwnerLabels
	notOwners []string
	// exported: the exposition came through a Prometheus that renamed the exporter's labels: the plain ones are then
	// the exporter's own pod.
	exported bool
}

// newOwnerReader searches a whole exposition for exported_ labels: the rows of a free GPU have none, only the plain
// labels of the exporter's pod.
func newOwnerReader(cfg *Config, r *reading) ownerReader {
	return ownerReader{
		labels: cfg.OwnerLabels, notOwners: cfg.NotOwners,
		exported: r.renamed || slices.ContainsFunc(r.samples, func(s Sample) bool { return hasAny(s.Labels, RenamedLabels) }),
	}
}

// owner returns a row's owner; nil: none. vgpu distinguishes the replicas of a shared GPU.
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

// scraperLabels are the labels that Prometheus' Kubernetes discovery adds to every row, in place of the exporter's
// own ones if those were renamed.
var scraperLabels = map[string]bool{"namespace": true, "pod": true, "container": true}

// ownerKey is equal for two rows of a leaf with the same hold. Containers of one pod are one owner; one pod on two
// replicas holds twice.
func ownerKey(o *wire.Owner, vgpu string) string {
	return strings.Join([]string{
		o.Namespace, o.Pod, o.Uid, o.Job, o.User, o.Account, o.Tenant, o.Project, vgpu,
	}, "\x00")
}

// Reasons for absent values, in addition to package field's.
const (
	absentMIGUtil = "mig_gpu_util"
	absentNoGPU   = "no_gpu" // the row has no GPU
	// absentUnknown: the metric looks like a needed one, but its name isn't in the table, as in an unknown version.
	absentUnknown = "unknown_name"
)

// ownField returns whether a field has a place of its own in the batch, so that it isn't repeated among the metrics.
func ownField(id uint32) bool {
	switch id {
	case field.MIGMode, field.MIGMaxSlices, field.PowerWatts, field.EnergyMJ, field.GPUUtil,
		field.GREngineActive, field.SMActive:
		return true
	}
	return false
}

// trueLabel parses a DCGM boolean that is exported as a label.
func trueLabel(s string) (on, known bool) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "1", "true", "enabled":
		return true, true
	case "0", "false", "disabled":
		return false, true
	}
	return false, false
}
