package imports

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/wire"
)

// maxLineBytes bounds one line: a node of 16 GPUs with 7 instances each takes some 50
// kB.
const maxLineBytes = 16 << 20

// BadLine is a line that can't be imported, with the reason.
type BadLine struct {
	Line   int    `json:"line"`
	Reason string `json:"reason"`
}

// Batches is the content of a file.
type Batches struct {
	Lines   int
	Encoded [][]byte // ascending by slot
	Bad     []BadLine
	Runs    []decisions.Run // runs under which they may be sent, by cluster and origin
}

type numbered struct {
	line  int
	batch *wire.Batch
}

// Read reads JSON lines. slotMS are the slot lengths of the existing clusters. A slot
// that begins after the horizon is a bad line. It returns an error only if reading
// fails; problems of single lines are listed in Bad.
func Read(r io.Reader, slotMS map[string]int64, horizon Horizon) (*Batches, error) {
	out := &Batches{}
	var all []numbered
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLineBytes)
	for lines.Scan() {
		out.Lines++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		b, err := wire.ParseJSONLine(text)
		if err != nil {
			out.bad(out.Lines, err)
			continue
		}
		if err := horizon.check("slot", b.SlotStartMs); err != nil {
			out.bad(out.Lines, err)
			continue
		}
		b.Origin = horizon.origin(b.SlotStartMs)
		all = append(all, numbered{out.Lines, b})
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return nil, fmt.Errorf("line %d is longer than %d bytes", out.Lines+1, maxLineBytes)
		}
		return nil, fmt.Errorf("read line %d: %w", out.Lines+1, err)
	}
	if err := out.encode(all, slotMS); err != nil {
		return nil, err
	}
	slices.SortFunc(out.Bad, func(a, b BadLine) int { return a.Line - b.Line })
	return out, nil
}

func (o *Batches) bad(line int, err error) {
	o.Bad = append(o.Bad, BadLine{Line: line, Reason: err.Error()})
}

// encode sets each cluster's slot length and window in its batches, and encodes them.
func (o *Batches) encode(all []numbered, slotMS map[string]int64) error {
	slices.SortStableFunc(all, func(a, b numbered) int {
		return cmp.Or(cmp.Compare(a.batch.SlotStartMs, b.batch.SlotStartMs), cmp.Compare(a.batch.SlotMs, b.batch.SlotMs))
	})
	length := map[string]int64{}
	for cluster, ms := range slotMS {
		length[cluster] = ms
	}
	window := map[string][2]int64{}
	good := all[:0]
	for _, n := range all {
		b := n.batch
		if length[b.Cluster] == 0 {
			length[b.Cluster] = b.SlotMs
		}
		if want := length[b.Cluster]; b.SlotMs != want {
			o.bad(n.line, fmt.Errorf("slot_ms %d: must be %d, the slot length of cluster %q", b.SlotMs, want, b.Cluster))
			continue
		}
		w, ok := window[b.Cluster]
		if !ok {
			w[0] = b.SlotStartMs
		}
		window[b.Cluster] = [2]int64{w[0], b.SlotStartMs + b.SlotMs}
		good = append(good, n)
	}
	for _, n := range good {
		b := n.batch
		b.WindowFromMs, b.WindowToMs = window[b.Cluster][0], window[b.Cluster][1]
		b.ClusterSlotMs = length[b.Cluster]
		o.run(b)
		data, err := wire.Encode(b)
		if err != nil {
			return fmt.Errorf("line %d: %w", n.line, err)
		}
		o.Encoded = append(o.Encoded, data)
	}
	return nil
}

// run records the run under which the batch is sent; a file may hold batches of many
// collectors.
func (o *Batches) run(b *wire.Batch) {
	if !slices.ContainsFunc(o.Runs, func(r decisions.Run) bool {
		return r.Cluster == b.Cluster &&
			r.Sends == wire.Sends(b)
	}) {
		o.Runs = append(o.Runs,
			runOf(b.Cluster, decisions.AnyCollector, wire.Sends(b), b.SlotMs, b.WindowFromMs, b.WindowToMs))
	}
}

// runOf is a run for the slots in [fromMS, toMS), Unix ms.
func runOf(cluster, collector, sends string, slotMS, fromMS, toMS int64) decisions.Run {
	return decisions.Run{
		Cluster: cluster, Collector: collector, Sends: sends, SlotMS: slotMS, From: time.UnixMilli(fromMS).UTC(),
		To: time.UnixMilli(toMS).UTC(),
	}
}
