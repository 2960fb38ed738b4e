package wire

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// jsonGPU has the generated message's own names, which encoding/json reads, except for the bounds of times.
type jsonGPU struct {
	*Gpu
	Leaves []jsonLeaf `json:"leaves"`
	Holds  []jsonHold `json:"holds"`

	Index        ignored `json:"index"`
	MetricFields ignored `json:"metric_fields"`
	MetricValues ignored `json:"metric_values"`
}

type jsonLeaf struct {
	*Leaf
	From *int64 `json:"from"`
	To   *int64 `json:"to"`

	MetricFields ignored `json:"metric_fields"`
	MetricValues ignored `json:"metric_values"`
}

type jsonHold struct {
	Leaf  string `json:"leaf"`
	From  *int64 `json:"from"`
	To    *int64 `json:"to"`
	Owner *Owner `json:"owner"`
}

type ignored = json.RawMessage

// ParseJSONLine parses one JSON object of the import format into a batch of origin IMPORT and validates it. Metrics
// that are not in the contract are ignored: they never affect money. Any other unknown field is an error.
func ParseJSONLine(line []byte) (*Batch, error) {
	var j jsonBatch
	if err := json.Unmarshal(line, &j); err != nil {
		return nil, jsonError(err)
	}
	if err := checkKeys(line); err != nil {
		return nil, err
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

// jsonError describes a decoder's error with the names of the file.
func jsonError(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field == "" {
		return fmt.Errorf("not a JSON object but %s", wrong.Value)
	}
	if errors.As(err, &wrong) {
		field := strings.NewReplacer(".Gpu.", ".", ".Leaf.", ".").Replace(wrong.Field) // embedded types are not in the file
		return fmt.Errorf("%s: got %s, want %s", field, wrong.Value, wrong.Type)
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

// observed sorts and joins the intervals: files list them in any order.
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
	g := cmp.Or(j.Gpu, &Gpu{})
	for _, l := range j.Leaves {
		leaf := cmp.Or(l.Leaf, &Leaf{})
		leaf.FromMs, leaf.ToMs = l.From, l.To
		g.Leaves = append(g.Leaves, leaf)
	}
	for _, h := range j.Holds {
		g.Holds = append(g.Holds, &Hold{Leaf: h.Leaf, FromMs: h.From, ToMs: h.To, Owner: h.Owner})
	}
	return g
}
