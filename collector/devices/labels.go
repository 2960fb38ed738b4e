package devices

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/tenants"
	"github.com/gputally/gputally/internal/wire"
)

// labels are names and values of a row. An empty value is a missing label, as in Prometheus.
type labels struct{ names, values []string }

// with returns the labels with one added; l is unchanged.
func (l labels) with(name, value string) labels {
	if value == "" {
		return l
	}
	return labels{
		append(slices.Clip(l.names), name),
		append(slices.Clip(l.values), strings.ToValidUTF8(value, "\uFFFD")),
	}
}

func (l labels) and(o labels) labels {
	return labels{append(slices.Clip(l.names), o.names...), append(slices.Clip(l.values), o.values...)}
}

// key identifies a row.
func (l labels) key() string {
	return strings.Join(l.names, "\xff") + "\xfe" + strings.Join(l.values, "\xff")
}

// boardLabels are the labels of a GPU, as in dcgm-exporter.
func boardLabels(node string, g *wire.Gpu, info source.GPUInfo) labels {
	device := ""
	if info.Minor != nil {
		device = "nvidia" + strconv.FormatUint(uint64(*info.Minor), 10)
	}
	return labels{}.
		with("gpu", strconv.FormatUint(uint64(g.Index), 10)).with("UUID", g.Uuid).with("device", device).
		with("modelName", g.Model).with("pci_bus_id", info.PCIBusID).with("Hostname", node)
}

// isWhole returns whether a leaf is the GPU itself.
func isWhole(l *wire.Leaf) bool { return l.Gi == nil && l.Ci == nil && l.Profile == "" }

// leafLabels adds an instance to its GPU's labels: by NVML's id if known, else by the leaf's own.
func leafLabels(board labels, l *wire.Leaf) labels {
	if isWhole(l) {
		return board
	}
	gi := l.Id
	if l.Gi != nil {
		gi = strconv.FormatUint(uint64(*l.Gi), 10)
	}
	out := board.with("GPU_I_ID", gi).with("GPU_I_PROFILE", l.Profile)
	if l.Ci != nil {
		out = out.with("GPU_C_I_ID", strconv.FormatUint(uint64(*l.Ci), 10))
	}
	return out
}

// holding is the holders of a leaf at the slot's end.
type holding struct {
	owners  []meter.Owner // distinct (R12)
	entries int           // replicas, or holds
	// container is the owner's only container; a pod may use the device in several.
	container string
}

func holdingOf(g *wire.Gpu, leaf string, slotMS int64) holding {
	var h holding
	for _, w := range g.Holds {
		if lo, hi := wire.Span(w.FromMs, w.ToMs, slotMS); w.Leaf != leaf || lo >= hi || hi < slotMS {
			continue
		}
		o, container := meter.OwnerOf(w.Owner).Named(), w.Owner.GetContainer()
		if h.entries > 0 && container != h.container {
			container = ""
		}
		h.container = container
		h.entries++
		h.add(o)
	}
	return h
}

func (h *holding) add(o meter.Owner) {
	if !slices.ContainsFunc(h.owners, func(x meter.Owner) bool { return x.ID() == o.ID() }) {
		h.owners = append(h.owners, o)
	}
}

// ratio is the held part of the leaf (R12): if the number of replicas is known a part for each, else all of it.
func (h holding) ratio(l *wire.Leaf) float64 {
	if n := int(l.Replicas); h.entries < n {
		return float64(h.entries) / float64(n)
	}
	return min(1, float64(h.entries))
}

// labels are those of a sole owner, or shared="true" for several.
func (h holding) labels(m *tenants.Mapping, hour time.Time) labels {
	switch len(h.owners) {
	case 0:
		return labels{}
	case 1:
		o := h.owners[0]
		tenant, project := m.At(hour, o)
		return labels{}.
			with("tenant", tenant).with("project", project).with("namespace", o.Namespace).
			with("pod", o.Pod).with("container", h.container).with("hpc_job", o.Job)
	default:
		return labels{}.with("shared", "true")
	}
}
