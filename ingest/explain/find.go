package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gputally/gputally/internal/store"
)

// NotFoundError says that the ledger has no such row, and what it has near it.
type NotFoundError struct {
	// What is not there, with its value.
	What string
	// Near are GPUs or hours that are there, nearest first.
	Near []string
	// Has is the range of what is there, in words; may be empty.
	Has string
}

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

// AmbiguousError says that the request names more than one thing.
type AmbiguousError struct {
	What    string
	Choices []string
}

// Error is one line, with ten choices at most.
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

// findRow finds the GPU, by its id or a unique beginning of it, and its row.
func findRow(ctx context.Context, db Store, q Request) (*usageRow, error) {
	gpu, err := findGPU(ctx, db, q)
	if err != nil {
		return nil, err
	}
	var rows []usageRow
	if err := db.Select(ctx, &rows, selectRow, store.Named("gpu", gpu), store.Named("hour", q.Hour), store.Named("cluster", q.Cluster)); err != nil {
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
	return nil, &AmbiguousError{fmt.Sprintf("GPU %q has a row of that hour in %d clusters, name one", gpu, len(rows)), names}
}

func findGPU(ctx context.Context, db Store, q Request) (string, error) {
	var rows []struct {
		GPU string `ch:"gpu"`
	}
	if err := db.Select(ctx, &rows, selectGPUs, store.Named("cluster", q.Cluster)); err != nil {
		return "", fmt.Errorf("read GPUs of the ledger: %w", err)
	}
	var all, begin []string
	for _, r := range rows {
		if r.GPU == q.GPU {
			return r.GPU, nil
		}
		all = append(all, r.GPU)
		if len(r.GPU) >= len(q.GPU) && strings.EqualFold(r.GPU[:len(q.GPU)], q.GPU) {
			begin = append(begin, r.GPU)
		}
	}
	switch {
	case len(begin) == 1:
		return begin[0], nil
	case len(begin) > 1:
		return "", &AmbiguousError{fmt.Sprintf("GPU %q: %d GPUs begin so", q.GPU, len(begin)), begin}
	case len(all) == 0 && q.Cluster != "":
		return "", &NotFoundError{What: fmt.Sprintf("GPU %q in cluster %q: the ledger has no GPU of that cluster", q.GPU, q.Cluster)}
	case len(all) == 0:
		return "", &NotFoundError{What: fmt.Sprintf("GPU %q: the ledger is empty", q.GPU)}
	}
	return "", &NotFoundError{
		What: fmt.Sprintf("GPU %q: the ledger has no GPU whose id is that or begins so", q.GPU),
		Near: similar(all, q.GPU), Has: "the ledger has " + count(int64(len(all)), "GPU"),
	}
}

// similar are the ids that share the longest beginning with the wanted one.
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
	e := &NotFoundError{What: fmt.Sprintf("hour %s: the ledger has no row of GPU %s", stamp(q.Hour), gpu)}
	for _, n := range near {
		if at := stamp(n.Hour.UTC()); !slices.Contains(e.Near, at) {
			e.Near = append(e.Near, at)
		}
	}
	e.Has = fmt.Sprintf("it has %s from %s to %s", count(int64(all[0].Hours), "hour"), stamp(all[0].First.UTC()), stamp(all[0].Last.UTC()))
	return e
}
