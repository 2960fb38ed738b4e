package explain

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/store"
)

const selectSamples = `
SELECT node, slot, device, batch, present, sm_active, gr_engine_active, gpu_util, power_dw, idle_dw
FROM samples FINAL
WHERE cluster = {cluster:String} AND node IN {nodes:Array(String)} AND gpu = {gpu:String}
  AND toStartOfHour(slot) >= toStartOfHour({from:DateTime('UTC')}) AND slot >= {from:DateTime('UTC')}
    AND slot < {to:DateTime('UTC')}`

// Events of the GPU and of its nodes.
const selectEvents = `
SELECT node, gpu, leaf, at, kind, code, detail, batch FROM events FINAL
WHERE cluster = {cluster:String} AND node IN {nodes:Array(String)} AND gpu IN ('', {gpu:String})
  AND at >= {from:DateTime('UTC')} AND at < {to:DateTime('UTC')}
ORDER BY at, node, leaf, kind, code`

// sample is the stored evidence of a device in a slot.
type sample struct {
	Node    string    `ch:"node"`
	Slot    time.Time `ch:"slot"`
	Device  string    `ch:"device"`
	Batch   uint64    `ch:"batch"`
	Present uint32    `ch:"present"`
	SM      uint16    `ch:"sm_active"`        // 1e-4
	GR      uint16    `ch:"gr_engine_active"` // 1e-4
	Util    uint8     `ch:"gpu_util"`         // percent
	Power   uint16    `ch:"power_dw"`         // 0.1 W
	Idle    uint16    `ch:"idle_dw"`          // 0.1 W
}

// Bits of column present, in the order of the metric columns of table samples.
const (
	bitSM    = 1 << 0
	bitGR    = 1 << 1
	bitUtil  = 1 << 4
	bitPower = 1 << 5
)

type event struct {
	Node   string    `ch:"node"`
	GPU    string    `ch:"gpu"`
	Leaf   string    `ch:"leaf"`
	At     time.Time `ch:"at"`
	Kind   string    `ch:"kind"`
	Code   int64     `ch:"code"`
	Detail string    `ch:"detail"`
	Batch  uint64    `ch:"batch"`
}

func (b *builder) args() []any {
	return []any{
		store.Named("cluster", b.Cluster), store.Named("gpu", b.GPU),
		store.Named("nodes", append([]string{}, b.recomputed.Nodes...)),
		store.Named("from", b.Hour), store.Named("to", b.Hour.Add(time.Hour)),
	}
}

// readEvidence reads the samples and events of the batches that count.
func (b *builder) readEvidence(ctx context.Context, db Store) error {
	var samples []sample
	if err := db.Select(ctx, &samples, selectSamples, b.args()...); err != nil {
		return fmt.Errorf("read samples of GPU %s: %w", b.GPU, err)
	}
	b.samples = map[slotKey]map[string]sample{}
	for _, s := range samples {
		key := slotKey{s.Node, s.Slot.UnixMilli()}
		if !b.recomputed.Winning[s.Batch] {
			continue
		}
		if b.samples[key] == nil {
			b.samples[key] = map[string]sample{}
		}
		b.samples[key][s.Device] = s
	}
	if err := db.Select(ctx, &b.events, selectEvents, b.args()...); err != nil {
		return fmt.Errorf("read events of GPU %s: %w", b.GPU, err)
	}
	for _, e := range b.events {
		if b.recomputed.Winning[e.Batch] {
			b.Events = append(b.Events,
				Event{At: e.At.UTC(), Node: e.Node, Leaf: e.Leaf, Kind: e.Kind, Code: e.Code, Detail: e.Detail})
		}
	}
	return nil
}

// byEvidence reports whether signals decided the bucket.
func byEvidence(w meter.Why) bool {
	return w >= meter.WhyActivity && w <= meter.WhyMIGAlone || w == meter.WhyUnownedWork
}

// signals is the evidence behind a piece; nil: none decided, or none is stored.
func (b *builder) signals(p *meter.Part) *Signals {
	slot := b.samples[slotKey{p.Node, p.StartMS}]
	if !byEvidence(p.Why) || slot == nil {
		return nil
	}
	board, device := slot[""], slot[""]
	mig := len(slot) > 1
	if mig {
		device = slot[b.recomputed.Leaf(p.Leaf).ID]
	}
	var s Signals
	var ok bool
	var a float64
	if s.Source, a, ok = device.activity(); ok {
		s.Activity = &Span{a, a}
	}
	if device.Present&bitUtil != 0 && device.Util <= 100 && !mig {
		s.Util = &Span{float64(device.Util), float64(device.Util)}
	}
	if board.Present&bitPower != 0 {
		s.Power = &Span{float64(board.Power) / 10, float64(board.Power) / 10}
	}
	if board.Idle > 0 {
		s.IdlePower = &Span{float64(board.Idle) / 10, float64(board.Idle) / 10}
	}
	if p.Why == meter.WhyOtherWorks {
		s.OtherWorks = otherWorks(slot, device.Device)
	}
	return &s
}

// activity is SM_ACTIVE, or GR_ENGINE_ACTIVE without it.
func (s sample) activity() (source string, a float64, ok bool) {
	switch {
	case s.Present&bitSM != 0 && s.SM <= 1e4:
		return "SM_ACTIVE", float64(s.SM) / 1e4, true
	case s.Present&bitGR != 0 && s.GR <= 1e4:
		return "GR_ENGINE_ACTIVE", float64(s.GR) / 1e4, true
	}
	return "", 0, false
}

// otherWorks returns another instance of the GPU whose activity isn't quiet.
func otherWorks(slot map[string]sample, device string) string {
	var names []string
	for name, s := range slot {
		if _, a, ok := s.activity(); ok && a >= meter.QuietBelow && name != "" && name != device {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}

func (s *Signals) join(o *Signals) {
	for _, x := range [...]struct {
		into **Span
		from *Span
	}{{&s.Activity, o.Activity}, {&s.Util, o.Util}, {&s.Power, o.Power}, {&s.IdlePower, o.IdlePower}} {
		switch {
		case x.from == nil:
		case *x.into == nil:
			*x.into = x.from
		default:
			(*x.into).Min, (*x.into).Max = min((*x.into).Min, x.from.Min), max((*x.into).Max, x.from.Max)
		}
	}
}

// text describes the evidence; nil: it isn't stored.
func (s *Signals) text() string {
	if s == nil {
		return "the samples of these slots are not stored"
	}
	var parts []string
	if s.Activity != nil {
		parts = append(parts, s.Source+" "+s.Activity.text())
	}
	if s.Util != nil {
		parts = append(parts, "GPU_UTIL "+s.Util.text()+" %")
	}
	switch {
	case s.Power != nil && s.IdlePower != nil:
		parts = append(parts, fmt.Sprintf("power %s W (idle power of the model: %s W)", s.Power.text(), s.IdlePower.text()))
	case s.Power != nil:
		parts = append(parts, "power "+s.Power.text()+" W (idle power of the model: unknown)")
	}
	if len(parts) == 0 {
		return "no signal was read"
	}
	return strings.Join(parts, ", ")
}

func (s *Span) text() string {
	low, high := strconv.FormatFloat(s.Min, 'f', -1, 64), strconv.FormatFloat(s.Max, 'f', -1, 64)
	if low == high {
		return low
	}
	return low + " to " + high
}
