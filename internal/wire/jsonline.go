package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

type jsonBatch struct {
	Cluster     string     `json:"cluster"`
	Node        string     `json:"node"`
	Slot        string     `json:"slot"`
	SlotMS      *int64     `json:"slot_ms"`
	Collector   string     `json:"collector"`
	BootMS      *int64     `json:"boot_ms"`
	Seq         *uint64    `json:"seq"`
	Attribution string     `json:"attribution"`
	Enumeration string     `json:"enumeration"`
	Observed    *[][]int64 `json:"observed"`
	GPUs        []jsonGPU  `json:"gpus"`
}

type jsonGPU struct {
	UUID         string     `json:"uuid"`
	Model        string     `json:"model"`
	Slices       uint32     `json:"slices"`
	MIG          bool       `json:"mig"`
	Pool         bool       `json:"pool"`
	Unknown      bool       `json:"unknown_capacity"`
	Lost         bool       `json:"lost"`
	Unhealthy    bool       `json:"unhealthy"`
	PowerWatts   *float64   `json:"power_watts"`
	IdleWatts    *float64   `json:"idle_watts"`
	EnergyMJ     *int64     `json:"energy_mj"`
	EnergySpanMS *int64     `json:"energy_span_ms"`
	EnergyReset  bool       `json:"energy_reset"`
	Leaves       []jsonLeaf `json:"leaves"`
	Holds        []jsonHold `json:"holds"`
}

type jsonLeaf struct {
	ID             string   `json:"id"`
	Slices         uint32   `json:"slices"`
	Profile        string   `json:"profile"`
	GI             *uint32  `json:"gi"`
	CI             *uint32  `json:"ci"`
	MIGUUID        string   `json:"mig_uuid"`
	From           *int64   `json:"from"`
	To             *int64   `json:"to"`
	Unhealthy      bool     `json:"unhealthy"`
	SMActive       *float64 `json:"sm_active"`
	GREngineActive *float64 `json:"gr_engine_active"`
	GPUUtil        *float64 `json:"gpu_util"`
	Replicas       uint32   `json:"replicas"`
}

type jsonHold struct {
	Leaf  string     `json:"leaf"`
	From  *int64     `json:"from"`
	To    *int64     `json:"to"`
	Owner *jsonOwner `json:"owner"`
}

type jsonOwner struct {
	Tenant    string `json:"tenant"`
	Project   string `json:"project"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	UID       string `json:"uid"`
	Container string `json:"container"`
	Job       string `json:"job"`
	User      string `json:"user"`
	Account   string `json:"account"`
}

// ParseJSONLine reads one JSON object of the import format into a batch of
// origin IMPORT and validates it. Metrics that the contract doesn't name are
// ignored: they never decide money.
func ParseJSONLine(line []byte) (*Batch, error) {
	var j jsonBatch
	if err := json.Unmarshal(line, &j); err != nil {
		return nil, jsonError(err)
	}
	b, err := j.batch()
	if err != nil {
		return nil, err
	}
	if err := Validate(b); err != nil {
		return nil, err
	}
	return b, nil
}

// jsonError says in the file's own terms what the decoder disliked.
func jsonError(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field == "" {
		return fmt.Errorf("not a JSON object: a %s", wrong.Value)
	}
	if errors.As(err, &wrong) {
		return fmt.Errorf("%s: a %s stands where a %s belongs", wrong.Field, wrong.Value, wrong.Type)
	}
	return fmt.Errorf("not a JSON object: %w", err)
}

func (j *jsonBatch) batch() (*Batch, error) {
	slot, err := time.Parse(time.RFC3339, j.Slot)
	if err != nil {
		return nil, fmt.Errorf("slot %q: must be RFC 3339", j.Slot)
	}
	if slot.Nanosecond() != 0 {
		return nil, fmt.Errorf("slot %q: must be whole seconds", j.Slot)
	}
	switch {
	case j.SlotMS == nil:
		return nil, errors.New("slot_ms is missing")
	case j.BootMS == nil:
		return nil, errors.New("boot_ms is missing")
	case j.Seq == nil:
		return nil, errors.New("seq is missing")
	}
	b := &Batch{
		Format: Format, Cluster: j.Cluster, Node: j.Node, SlotStartMs: slot.UnixMilli(), SlotMs: *j.SlotMS,
		Collector: j.Collector, BootMs: *j.BootMS, Seq: *j.Seq, Origin: Origin_ORIGIN_IMPORT,
	}
	switch j.Attribution {
	case "", "ok":
		b.Attribution = Attribution_ATTRIBUTION_OK
	case "failed":
		b.Attribution = Attribution_ATTRIBUTION_FAILED
	default:
		return nil, fmt.Errorf("attribution %q: must be ok or failed", j.Attribution)
	}
	switch j.Enumeration {
	case "", "complete":
		b.Enumeration = Enumeration_ENUMERATION_COMPLETE
	case "partial":
		b.Enumeration = Enumeration_ENUMERATION_PARTIAL
	default:
		return nil, fmt.Errorf("enumeration %q: must be complete or partial", j.Enumeration)
	}
	if err := j.observed(b); err != nil {
		return nil, err
	}
	for i := range j.GPUs {
		b.Gpus = append(b.Gpus, j.GPUs[i].gpu())
	}
	return b, nil
}

// observed sorts and joins the list: people write parts in any order.
func (j *jsonBatch) observed(b *Batch) error {
	if j.Observed == nil {
		return nil
	}
	parts := make([]*Interval, 0, len(*j.Observed))
	for i, p := range *j.Observed {
		if len(p) != 2 || p[0] > p[1] || p[0] < 0 || p[1] > b.SlotMs {
			return fmt.Errorf("observed[%d] %v: must be [from_ms, to_ms) within the slot of %d ms", i, p, b.SlotMs)
		}
		if p[0] < p[1] {
			parts = append(parts, &Interval{FromMs: p[0], ToMs: p[1]})
		}
	}
	slices.SortFunc(parts, func(x, y *Interval) int { return int(x.FromMs - y.FromMs) })
	for _, p := range parts {
		if n := len(b.Observed); n > 0 && p.FromMs <= b.Observed[n-1].ToMs {
			b.Observed[n-1].ToMs = max(b.Observed[n-1].ToMs, p.ToMs)
			continue
		}
		b.Observed = append(b.Observed, p)
	}
	b.Unobserved = len(b.Observed) == 0
	return nil
}

func (j *jsonGPU) gpu() *Gpu {
	g := &Gpu{
		Uuid: j.UUID, Model: j.Model, Slices: j.Slices, Mig: j.MIG, Pool: j.Pool, UnknownCapacity: j.Unknown, Lost: j.Lost, Unhealthy: j.Unhealthy,
		PowerWatts: j.PowerWatts, IdleWatts: j.IdleWatts,
		EnergyMj: j.EnergyMJ, EnergySpanMs: j.EnergySpanMS, EnergyReset: j.EnergyReset,
	}
	for _, l := range j.Leaves {
		g.Leaves = append(g.Leaves, &Leaf{
			Id: l.ID, Slices: l.Slices, Profile: l.Profile, Gi: l.GI, Ci: l.CI, MigUuid: l.MIGUUID,
			FromMs: l.From, ToMs: l.To, Unhealthy: l.Unhealthy,
			SmActive: l.SMActive, GrEngineActive: l.GREngineActive, GpuUtil: l.GPUUtil, Replicas: l.Replicas,
		})
	}
	for _, h := range j.Holds {
		hold := &Hold{Leaf: h.Leaf, FromMs: h.From, ToMs: h.To}
		if o := h.Owner; o != nil {
			hold.Owner = &Owner{
				Tenant: o.Tenant, Project: o.Project, Namespace: o.Namespace, Pod: o.Pod, Uid: o.UID,
				Container: o.Container, Job: o.Job, User: o.User, Account: o.Account,
			}
		}
		g.Holds = append(g.Holds, hold)
	}
	return g
}
