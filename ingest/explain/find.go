package explain

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputally/gputally/internal/fault"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/tables"
)

// NotFoundError reports that the ledger has no such row, with the nearest ones.
type NotFoundError struct {
	// What is missing, with its value.
	What string
	// Near are existing GPUs or hours, nearest first.
	Near []string
	// Has describes the range of what exists; may be empty.
	Has string
}

// Class is the class of the error: not found.
func (e *NotFoundError) Class() fault.Class { return fault.NotFound }

// Error is one line.
func (e *NotFoundError) Error() string {
	text := e.What
	if len(e.Near) > 0 {
		text += "; nearest: " + strings.Join(e.Near, ", ")
	}
	if e.Has != "" {
		text += "; " + e.Has
	}
	return text
}

// AmbiguousError reports that the request matches more than one thing.
type AmbiguousError struct {
	What    string
	Choices []string
}

// Class is the class of the error: the request must name one of the choices.
func (e *AmbiguousError) Class() fault.Class { return fault.Conflict }

// Error is one line, with at most ten choices.
func (e *AmbiguousError) Error() string {
	shown := e.Choices
	more := ""
	if len(shown) > mostChoices {
		more = fmt.Sprintf(" and %d more", len(shown)-mostChoices)
		shown = shown[:mostChoices]
	}
	return e.What + ": " + strings.Join(shown, ", ") + more
}

const mostChoices = 10

// All GPUs that have rows in the ledger.
const selectGPUs = `
SELECT DISTINCT gpu FROM usage_hourly FINAL
WHERE present_ms > 0 AND ({cluster:String} = '' OR cluster = {cluster:String}) ORDER BY gpu`

// GPUs by their node and DCGM index, in one hour.
const selectByIndex = `
SELECT DISTINCT toString(gpu) AS gpu FROM samples
WHERE ({cluster:String} = '' OR cluster = {cluster:String}) AND toStartOfHour(slot) = {hour:DateTime('UTC')}
  AND node = {node:String} AND device = '' AND gpu_index = {index:UInt16} ORDER BY gpu`

// GPUs that a pod or a job held in one hour.
//
//go:embed by_workload.sql
var selectByWorkload string

// The hours of one GPU nearest to a given one, and the whole range.
const selectNearest = `
SELECT cluster, hour FROM usage_hourly FINAL
WHERE gpu = {gpu:String} AND present_ms > 0 AND ({cluster:String} = '' OR cluster = {cluster:String})
ORDER BY abs(toInt64(toUnixTimestamp(hour)) - {at:Int64}), hour LIMIT 4`

const selectHourRange = `
SELECT min(hour) AS first, max(hour) AS last, count() AS hours FROM usage_hourly FINAL
WHERE gpu = {gpu:String} AND present_ms > 0 AND ({cluster:String} = '' OR cluster = {cluster:String})`

//go:embed row.sql
var selectRow string

// findRow finds the GPU and its row.
func findRow(ctx context.Context, db Store, q Request) (*tables.UsageHour, error) {
	gpu, err := findGPU(ctx, db, q)
	if err != nil {
		return nil, err
	}
	var rows []tables.UsageHour
	if err := db.Select(ctx, &rows, selectRow, store.Named("gpu", gpu), store.Named("hour", q.Hour),
		store.Named("cluster", q.Cluster)); err != nil {
		return nil, fmt.Errorf("read the ledger's row: %w", err)
	}
	switch len(rows) {
	case 0:
		return nil, noHour(ctx, db, q, gpu)
	case 1:
		rows[0].Hour = rows[0].Hour.UTC()
		return &rows[0], nil
	}
	names := make([]string, len(rows))
	for i := range rows {
		names[i] = rows[i].Cluster
	}
	return nil, &AmbiguousError{fmt.Sprintf("GPU %q has rows for that hour in %d clusters: name the cluster", gpu,
		len(rows)), names}
}

// findGPU finds one GPU by its id or a unique prefix of it, by node and index, or by
// the pod or job that held it in the hour.
func findGPU(ctx context.Context, db Store, q Request) (string, error) {
	if q.GPU == "" {
		what := fmt.Sprintf("job %q", q.Job)
		namespace, pod, both := strings.Cut(q.Pod, "/")
		if !both {
			namespace, pod = "", q.Pod
		}
		if q.Pod != "" {
			what, q.Job = fmt.Sprintf("pod %q", q.Pod), ""
		}
		found, err := selectStrings(ctx, db, selectByWorkload, store.Named("cluster", q.Cluster), store.Named("hour", q.Hour),
			store.Named("job", q.Job), store.Named("namespace", namespace), store.Named("pod", pod))
		return oneGPU(found, err, what, "it held no GPU in hour "+stamp(q.Hour))
	}
	all, err := selectStrings(ctx, db, selectGPUs, store.Named("cluster", q.Cluster))
	if err != nil {
		return "", err
	}
	var begin []string
	for _, gpu := range all {
		if gpu == q.GPU {
			return gpu, nil
		}
		if len(gpu) >= len(q.GPU) && strings.EqualFold(gpu[:len(q.GPU)], q.GPU) {
			begin = append(begin, gpu)
		}
	}
	if len(begin) > 0 {
		return oneGPU(begin, nil, fmt.Sprintf("GPU %q", q.GPU), "")
	}
	if at := strings.LastIndex(q.GPU, "/"); at > 0 {
		if index, err := strconv.ParseUint(q.GPU[at+1:], 10, 16); err == nil {
			found, err := selectStrings(ctx, db, selectByIndex, store.Named("cluster", q.Cluster), store.Named("hour", q.Hour),
				store.Named("node", q.GPU[:at]), store.Named("index", uint16(index)))
			return oneGPU(found, err, fmt.Sprintf("GPU %d of node %q", index, q.GPU[:at]),
				"no batch lists it in hour "+stamp(q.Hour))
		}
	}
	switch {
	case len(all) == 0 && q.Cluster != "":
		return "", &NotFoundError{What: fmt.Sprintf("GPU %q in cluster %q: the ledger has no GPUs of that cluster", q.GPU,
			q.Cluster)}
	case len(all) == 0:
		return "", &NotFoundError{What: fmt.Sprintf("GPU %q: the ledger is empty", q.GPU)}
	}
	return "", &NotFoundError{
		What: fmt.Sprintf("GPU %q: the ledger has no GPU with that id or prefix", q.GPU),
		Near: similar(all, q.GPU), Has: "the ledger has " + count(int64(len(all)), "GPU"),
	}
}

func selectStrings(ctx context.Context, db Store, sql string, args ...any) ([]string, error) {
	var rows []struct {
		GPU string `ch:"gpu"`
	}
	if err := db.Select(ctx, &rows, sql, args...); err != nil {
		return nil, fmt.Errorf("read GPUs: %w", err)
	}
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = r.GPU
	}
	return out, nil
}

// oneGPU returns the GPU found for what was asked, or an error if there is none or several.
func oneGPU(found []string, err error, what, none string) (string, error) {
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", &NotFoundError{What: what + ": " + none}
	case len(found) > 1:
		return "", &AmbiguousError{fmt.Sprintf("%s: %d GPUs match, name one by its id", what, len(found)), found}
	}
	return found[0], nil
}

// similar returns the ids that share the longest prefix with the wanted one.
func similar(all []string, want string) []string {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b string) int { return cmp.Compare(common(b, want), common(a, want)) })
	return sorted[:min(len(sorted), 5)]
}

func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && strings.EqualFold(a[n:n+1], b[n:n+1]) {
		n++
	}
	return n
}

func noHour(ctx context.Context, db Store, q Request, gpu string) error {
	var near []struct {
		Cluster string    `ch:"cluster"`
		Hour    time.Time `ch:"hour"`
	}
	args := []any{store.Named("gpu", gpu), store.Named("cluster", q.Cluster)}
	if err := db.Select(ctx, &near, selectNearest, append(args, store.Named("at", q.Hour.Unix()))...); err != nil {
		return fmt.Errorf("read hours near %s: %w", stamp(q.Hour), err)
	}
	var all []struct {
		First time.Time `ch:"first"`
		Last  time.Time `ch:"last"`
		Hours uint64    `ch:"hours"`
	}
	if err := db.Select(ctx, &all, selectHourRange, args...); err != nil {
		return fmt.Errorf("read hours of GPU %q: %w", gpu, err)
	}
	e := &NotFoundError{What: fmt.Sprintf("the ledger has no row for hour %s of GPU %s", stamp(q.Hour), gpu)}
	for _, n := range near {
		if at := stamp(n.Hour.UTC()); !slices.Contains(e.Near, at) {
			e.Near = append(e.Near, at)
		}
	}
	e.Has = fmt.Sprintf("it has %s from %s to %s", count(int64(all[0].Hours), "hour"), stamp(all[0].First.UTC()),
		stamp(all[0].Last.UTC()))
	return e
}
