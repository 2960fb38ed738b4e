package device

import (
	"cmp"
	"slices"
	"time"

	"github.com/gputally/gputally/analyzer/episode"
)

// The causes of a GPU's errors, the worst first.
const (
	Fatal       = "fatal"       // the GPU needs a reset
	Device      = "device"      // another error that no user's program can cause
	Application = "application" // only errors of users' programs
)

// symptoms are the errors that a user's program causes, or that follow from another one: 13 (graphics engine
// exception), 31 (memory page fault), 43 (reset channel), 45 (channels ended, such as by a kill), 94 (contained ECC
// error).
var symptoms = []int64{13, 31, 43, 45, 94}

// ErrorHour are the errors of one code that a GPU reported in a UTC hour.
type ErrorHour struct {
	Cluster, Node, GPU string
	Hour               time.Time
	Code               int64
	Count              uint64 // copies, and errors less than a minute after another of the code, count once
}

// State is a GPU's hour in the ledger.
type State struct {
	Cluster, GPU, Model string
	Hour                time.Time
	UnhealthyMilliMS    uint64   // GPU-ms × 1000
	Workloads           []string // what held it, by names that tell workloads apart
}

// quiet is the time without an error and without unhealthy time that ends a run of errors.
const quiet = 24 * time.Hour

// run are the errors of a GPU that follow each other.
type run struct {
	cluster, gpu, node string
	from, to           time.Time
	counts             map[int64]uint64
	fatal, device      time.Time // the end of the first hour with such an error; zero: none
	unhealthy          []State
	holders            map[time.Time][]string // workloads by hour with errors
	within             []*run                 // the other GPUs that have only symptoms of it
}

// Errors returns an episode for each GPU and run of errors. A run of symptoms alone is a part of the run of another GPU
// of the cluster whose errors are worse, or began earlier, if one workload held both GPUs when it began.
func Errors(config Config, errors []ErrorHour, states []State, newest Newest, rates episode.Rates) []episode.Episode {
	runs := config.runs(errors, states)
	slices.SortFunc(runs, func(a, b *run) int {
		return cmp.Or(cmp.Compare(b.rank(), a.rank()), a.from.Compare(b.from), cmp.Compare(a.cluster, b.cluster),
			cmp.Compare(a.gpu, b.gpu))
	})
	var found []episode.Episode
	for _, r := range fold(runs) {
		found = append(found, r.episode(newest, rates))
	}
	episode.Sort(found)
	return found
}

// place is where errors occur.
type place struct{ cluster, gpu string }

// runs joins the errors of each GPU. Unhealthy time prolongs a run.
func (c Config) runs(errors []ErrorHour, states []State) (all []*run) {
	of := map[place]map[time.Time]*State{}
	for i := range states {
		s := &states[i]
		p := place{s.Cluster, s.GPU}
		if of[p] == nil {
			of[p] = map[time.Time]*State{}
		}
		of[p][s.Hour.UTC()] = s
	}
	sick := map[place][]time.Time{} // unhealthy hours
	for p, hours := range of {
		for hour, s := range hours {
			if s.UnhealthyMilliMS > 0 {
				sick[p] = append(sick[p], hour)
			}
		}
		slices.SortFunc(sick[p], time.Time.Compare)
	}
	errors = slices.Clone(errors)
	slices.SortFunc(errors, func(a, b ErrorHour) int {
		return cmp.Or(a.Hour.Compare(b.Hour), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Node, b.Node))
	})
	newest := map[place]*run{}
	for i := range errors {
		e := &errors[i]
		p, hour := place{e.Cluster, e.GPU}, e.Hour.UTC()
		r := newest[p]
		if r != nil {
			sick[p] = r.prolong(sick[p], hour, of[p])
		}
		if r == nil || hour.Sub(r.to) >= quiet {
			r = &run{cluster: e.Cluster, gpu: e.GPU, from: hour, counts: map[int64]uint64{}, holders: map[time.Time][]string{}}
			newest[p], all = r, append(all, r)
			sick[p] = slices.DeleteFunc(sick[p], hour.After) // not of these errors
		}
		r.add(c, e, of[p][hour])
	}
	for _, r := range all {
		if p := (place{r.cluster, r.gpu}); newest[p] == r {
			r.prolong(sick[p], r.to.AddDate(100, 0, 0), of[p])
		}
	}
	return all
}

// prolong takes the unhealthy hours up to a time that follow the run, and returns the others.
func (r *run) prolong(sick []time.Time, until time.Time, states map[time.Time]*State) []time.Time {
	for len(sick) > 0 && sick[0].Before(until) && sick[0].Sub(r.to) < quiet {
		r.unhealthy = append(r.unhealthy, *states[sick[0]])
		r.to = latest(r.to, sick[0].Add(time.Hour))
		sick = sick[1:]
	}
	return sick
}

// add adds an hour's errors of a code.
func (r *run) add(c Config, e *ErrorHour, s *State) {
	hour := e.Hour.UTC()
	end := hour.Add(time.Hour)
	r.node, r.to = e.Node, latest(r.to, end)
	r.counts[e.Code] += e.Count
	if s != nil {
		r.holders[hour] = s.Workloads
	}
	if slices.Contains(symptoms, e.Code) {
		return
	}
	if r.device.IsZero() {
		r.device = end
	}
	if r.fatal.IsZero() && slices.Contains(c.FatalXIDs, e.Code) {
		r.fatal = end
	}
}

// fold puts runs of symptoms into those of the GPU that they follow from; the worst come first.
func fold(runs []*run) (top []*run) {
	type key struct {
		cluster, workload string
		hour              time.Time
	}
	of := map[key]*run{}
	for _, r := range runs {
		root := r
		if r.device.IsZero() {
			for _, w := range slices.Sorted(slices.Values(r.holders[r.from])) {
				if known := of[key{r.cluster, w, r.from}]; known != nil {
					root = known
					break
				}
			}
		}
		if root == r {
			top = append(top, r)
		} else {
			root.within = append(root.within, r)
			root.to = latest(root.to, r.to)
		}
		for hour, workloads := range r.holders {
			for _, w := range workloads {
				if k := (key{r.cluster, w, hour}); w != "" && of[k] == nil {
					of[k] = root
				}
			}
		}
	}
	return top
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
