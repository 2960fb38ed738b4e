package imports

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

// Options configure how the records of a source are applied to a cluster.
type Options struct {
	Cluster, Source string
	// Pool names the pool of GPUs whose records have no node.
	Pool string
	// Model is the model of GPUs whose records have none.
	Model string
	// Capacity is the size of each pool in milli-GPUs, by model; one without a model
	// applies to all; none: unknown.
	Capacity map[string]uint32
	// WindowFromMS and WindowToMS are the hours that the records describe completely,
	// Unix ms; 0: the hours that the file covers.
	WindowFromMS, WindowToMS int64
	// Partial states that some rows of the file could not be read: a missing record
	// may be one of those, and is kept.
	Partial bool
	// NowMS is the start of the run; it becomes the boot of its batches.
	NowMS int64
}

// CollectorPrefix begins the collector name in batches made from allocations.
const CollectorPrefix = "import/"

func (o *Options) collector() string { return CollectorPrefix + o.Cluster + "/" + o.Source }

// Validate returns an error that names the option.
func (o *Options) Validate() error {
	for _, f := range []struct{ name, value string }{{"cluster", o.Cluster}, {"source", o.Source}, {"pool", o.Pool}} {
		if f.value == "" {
			return fmt.Errorf("%s: must not be empty", f.name)
		}
		if err := checkName(f.name, f.value); err != nil {
			return err
		}
	}
	if err := cmp.Or(checkName("model", o.Model), checkName("collector", o.collector())); err != nil {
		return err
	}
	if strings.Contains(o.Source, "/") {
		return fmt.Errorf("source %q: must not contain a slash", o.Source)
	}
	for model, milli := range o.Capacity {
		if milli == 0 || milli > maxGPUs*1000 {
			return fmt.Errorf("capacity of %q: must be more than 0 and at most %d GPUs", model, maxGPUs)
		}
	}
	if o.WindowFromMS%meter.HourMS != 0 || o.WindowToMS%meter.HourMS != 0 {
		return fmt.Errorf("window from %s to %s: must begin and end at full UTC hours", rfc3339(o.WindowFromMS),
			rfc3339(o.WindowToMS))
	}
	if o.windowed() && o.WindowFromMS >= o.WindowToMS {
		return fmt.Errorf("window from %s to %s: must end after it begins", rfc3339(o.WindowFromMS), rfc3339(o.WindowToMS))
	}
	return nil
}

// ParseCapacity reads a number of GPUs, or several by model: "a100=512,h100=64".
func ParseCapacity(text string) (map[string]uint32, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	out := map[string]uint32{}
	for part := range strings.SplitSeq(text, ",") {
		model, number, named := strings.Cut(part, "=")
		if !named {
			model, number = "", part
		}
		model = strings.TrimSpace(model)
		milli, err := parseMilliGPUs(strings.TrimSpace(number))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		if _, twice := out[model]; twice || named && model == "" {
			return nil, fmt.Errorf("%q: must be a number of GPUs, or one per model as in a100=512,h100=64", text)
		}
		out[model] = milli
	}
	return out, nil
}

func (o *Options) windowed() bool { return o.WindowToMS > 0 }

// Plan is what an import run changes: the records, and the batches published for them.
type Plan struct {
	New, Changed, Deleted, Unchanged int
	// Missed are records that would be deleted if the file had no bad rows.
	Missed int
	Bad    []BadLine // records beyond a pool's capacity, and time that can't be filled
	// Skipped is the time of records that a collector reported, Filled the time that
	// none reported; both only in a cluster with collectors.
	Skipped []BadLine
	Filled  Filled
	// Units are the pools and GPUs of the source, Open those that are pools of unknown
	// capacity.
	Units, Open int

	o         *Options
	state     *State
	live      *live // nil: there is no other sender
	bootMS    int64
	current   []Record
	rows      []Record // to be written
	gone      []Record // parts of records to be deleted
	units     []*unit
	fills     map[string][]fill // by node; only in a cluster with collectors
	hours     []int64           // Unix ms, ascending: hours to publish where they differ
	published []publishedHour
}

// NewPlan compares a file's records with the stored ones (R18). A record of the file
// replaces the stored one with its key. If a window was given, a stored record that
// starts in it and isn't in the file is deleted.
func NewPlan(o *Options, state *State, records []Record) (*Plan, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	p := &Plan{o: o, state: state, live: state.live, bootMS: max(o.NowMS, int64(state.revision)+1)}
	if p.live != nil {
		if !slices.ContainsFunc(records, func(r Record) bool { return len(r.Devices) > 0 && r.Node != "" }) &&
			len(state.Records) == 0 {
			return nil, &RefusedError{o.Cluster, p.live.why}
		}
		named := p.named(records)
		o.Partial = o.Partial || len(named) < len(records)
		records = named
	}
	touched := p.merge(group(records))
	if err := p.place(); err != nil {
		return nil, err
	}
	p.admit()
	p.span(records, touched)
	return p, nil
}

// Live reports whether the plan fills what collectors of the cluster missed.
func (p *Plan) Live() bool { return p.live != nil }

// Hours is the number of hours that the run covers.
func (p *Plan) Hours() int { return len(p.hours) }

// Runs are the runs under which the plan's batches are sent; none if there are no
// batches.
func (p *Plan) Runs() []decisions.Run {
	if len(p.hours) == 0 {
		return nil
	}
	from, to := p.hours[0], p.hours[len(p.hours)-1]+meter.HourMS
	if p.live != nil {
		return []decisions.Run{runOf(p.o.Cluster, p.o.collector(), wire.SendsFill, p.live.slotMS, from, to)}
	}
	runs := []decisions.Run{runOf(p.o.Cluster, p.o.collector(), wire.SendsImport, meter.HourMS, from, to)}
	if to-meter.HourMS > p.o.NowMS {
		runs = append(runs, runOf(p.o.Cluster, p.o.collector(), wire.SendsSimulated, meter.HourMS, from, to))
	}
	return runs
}

// group collects the rows of each record, and numbers them.
func group(records []Record) map[key][]Record {
	out := make(map[key][]Record, len(records))
	for _, r := range records {
		out[r.key()] = append(out[r.key()], r)
	}
	for _, parts := range out {
		slices.SortStableFunc(parts, func(a, b Record) int {
			return cmp.Or(cmp.Compare(a.place(), b.place()), cmp.Compare(a.EndMS, b.EndMS),
				cmp.Compare(a.MilliGPUs, b.MilliGPUs))
		})
		for i := range parts {
			parts[i].Part = uint32(i)
		}
	}
	return out
}

// interval is [from, to), Unix ms.
type interval struct{ from, to int64 }

func (r *Record) interval() interval { return interval{r.StartMS, r.EndMS} }

// merge determines the records from now on, what must be written, and the times that
// changed.
func (p *Plan) merge(file map[key][]Record) (touched []interval) {
	standing := group(p.state.Records)
	for k, parts := range file {
		old := standing[k]
		touched = append(touched, p.replace(k, old, parts)...)
		p.current = append(p.current, parts...)
	}
	for k, old := range standing {
		if _, again := file[k]; again {
			continue
		}
		missing := p.o.windowed() && k.startMS >= p.o.WindowFromMS && k.startMS < p.o.WindowToMS
		if missing && p.o.Partial {
			p.Missed++
		} else if missing {
			p.Deleted++
			p.gone = append(p.gone, old...)
			for i := range old {
				touched = append(touched, old[i].interval())
			}
			continue
		}
		p.current = append(p.current, old...)
	}
	slices.SortFunc(p.current, func(a, b Record) int { return byAdmission(&a, &b) })
	return touched
}

// replace substitutes a record's new rows for its old ones.
func (p *Plan) replace(k key, old, parts []Record) (touched []interval) {
	changed := len(old) != len(parts)
	for i := range parts {
		if i < len(old) && old[i].content() == parts[i].content() {
			continue
		}
		changed = true
		p.rows = append(p.rows, parts[i])
		touched = append(touched, parts[i].interval())
		if i < len(old) {
			touched = append(touched, old[i].interval())
		}
	}
	for i := len(parts); i < len(old); i++ {
		p.gone = append(p.gone, old[i])
		touched = append(touched, old[i].interval())
	}
	switch {
	case len(old) == 0:
		p.New++
	case changed:
		p.Changed++
	default:
		p.Unchanged++
	}
	return touched
}

// span chooses the hours to publish: those of the window or the file, and those
// published before in which a record changed.
func (p *Plan) span(records []Record, touched []interval) {
	w := interval{p.o.WindowFromMS, p.o.WindowToMS}
	if !p.o.windowed() {
		for i, r := range records {
			if i == 0 {
				w = r.interval()
			}
			w = interval{min(w.from, r.StartMS), max(w.to, r.EndMS)}
		}
	}
	hours := map[int64]bool{}
	for h := w.from - w.from%meter.HourMS; h < w.to; h += meter.HourMS {
		hours[h] = true
	}
	for _, t := range touched {
		for h := t.from - t.from%meter.HourMS; h < t.to; h += meter.HourMS {
			if p.state.publishedHours[h] {
				hours[h] = true
			}
		}
	}
	p.hours = slices.Sorted(maps.Keys(hours))
}
