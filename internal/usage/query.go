package usage

import (
	_ "embed"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/gputally/gputally/internal/store"
)

// Query selects usage of whole UTC hours.
type Query struct {
	// By are the grouping columns, from Columns; none returns one row of totals.
	By []string
	// From (inclusive) and To (exclusive) are starts of UTC hours.
	From time.Time
	To   time.Time
	// Tenant, if not empty, restricts the result to what this tenant held.
	Tenant string
	// Only restricts the result, by column of Columns, to rows with the value.
	Only map[string]string
	// Limit, if positive, is the most rows Run returns; more are an error.
	Limit int
}

// column is a grouping column as SQL over the view usage, of type String.
type column struct{ name, sql string }

var columns = []column{
	{"tenant", "toString(tenant)"},
	{"project", "toString(project)"},
	{"user", "toString(`user`)"},
	{"workload", "toString(workload)"},
	{"node", "toString(node)"},
	{"gpu", "toString(gpu)"},
	{"leaf", "toString(leaf)"},
	{"model", "toString(model)"},
	{"profile", "toString(profile)"},
	{"hour", "formatDateTime(hour, '%Y-%m-%dT%H:00:00Z', 'UTC')"},
	{"day", "formatDateTime(hour, '%Y-%m-%d', 'UTC')"},
	{"month", "formatDateTime(hour, '%Y-%m', 'UTC')"},
	{"kind", "toString(kind)"},
}

// Columns are the valid names in Query.By.
func Columns() []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	return names
}

// ParseBy parses a comma-separated list of columns; an error names the invalid one.
func ParseBy(text string) ([]string, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	by := strings.Split(text, ",")
	for i := range by {
		by[i] = strings.TrimSpace(by[i])
	}
	return by, validateBy(by)
}

func validateBy(by []string) error {
	for i, name := range by {
		if !slices.ContainsFunc(columns, func(c column) bool { return c.name == name }) {
			return fmt.Errorf("group usage by %q: not one of %s", name, strings.Join(Columns(), ", "))
		}
		if slices.Contains(by[:i], name) {
			return fmt.Errorf("group usage by %q: named twice", name)
		}
	}
	return nil
}

// MinYear and MaxYear bound the times of a query to the range of ClickHouse's DateTime.
const (
	MinYear = 1970
	MaxYear = 2105
)

// InYears returns an error for a time outside MinYear and MaxYear; the caller wraps it.
func InYears(at time.Time) error {
	if year := at.UTC().Year(); year < MinYear || year > MaxYear {
		return fmt.Errorf("want a time in the years %d to %d", MinYear, MaxYear)
	}
	return nil
}

// Validate returns an error for the first invalid part of the query.
func (q Query) Validate() error {
	if err := validateBy(q.By); err != nil {
		return err
	}
	for _, bound := range []struct {
		name string
		at   time.Time
	}{{"from", q.From}, {"to", q.To}} {
		if err := InYears(bound.at); err != nil {
			return fmt.Errorf("query usage: %s %s: %w", bound.name, bound.at.Format(time.RFC3339), err)
		}
		if !bound.at.Equal(bound.at.Truncate(time.Hour)) {
			return fmt.Errorf("query usage: %s %s is not the start of a UTC hour", bound.name, bound.at.Format(time.RFC3339Nano))
		}
	}
	if !q.From.Before(q.To) {
		return fmt.Errorf("query usage: from %s is not before to %s", q.From.Format(time.RFC3339), q.To.Format(time.RFC3339))
	}
	for _, name := range slices.Sorted(maps.Keys(q.Only)) {
		if _, err := columnSQL(name); err != nil {
			return fmt.Errorf("query usage: %w", err)
		}
	}
	if q.Limit < 0 {
		return fmt.Errorf("query usage: limit %d is negative", q.Limit)
	}
	return nil
}

// usageSQL groups the view usage by columns and by a GPU's slices, which GPU-hours need. The template inserts the
// expressions of columns; values are parameters: from, to, tenant (empty: any), only_COLUMN, paged (0 or 1), after,
// after_kind. Sums have 128 bits, since the engine's 64-bit sums wrap around silently.
//
//go:embed usage.sql
var usageSQL string

var usageTemplate = template.Must(template.New("usage").Parse(usageSQL))

// columnSQL returns the expression of a column.
func columnSQL(name string) (string, error) {
	at := slices.IndexFunc(columns, func(c column) bool { return c.name == name })
	if at < 0 {
		return "", fmt.Errorf("column %q: not one of %s", name, strings.Join(Columns(), ", "))
	}
	return columns[at].sql, nil
}

// statement returns usageSQL for the columns of a valid query; if they include the tenant, rows are also grouped by
// kind, since a tenant may have any name.
func (q Query) statement() (string, error) {
	view := struct {
		By     []string
		ByKind bool
		Only   map[string]string
	}{ByKind: slices.Contains(q.By, "tenant"), Only: map[string]string{}}
	for _, name := range q.By {
		sql, _ := columnSQL(name)
		view.By = append(view.By, sql)
	}
	for name := range q.Only {
		view.Only[name], _ = columnSQL(name)
	}
	var out strings.Builder
	err := usageTemplate.Execute(&out, view)
	return out.String(), err
}

// arguments are the statement's parameters; after, if not nil, is the last row of the page before.
func (q Query) arguments(after *Row) []any {
	args := []any{store.Named("from", q.From.UTC()), store.Named("to", q.To.UTC()), store.Named("tenant", q.Tenant)}
	for _, name := range slices.Sorted(maps.Keys(q.Only)) {
		args = append(args, store.Named("only_"+name, q.Only[name]))
	}
	if after == nil {
		return append(args, store.Named("paged", 0), store.Named("after", ""), store.Named("after_kind", ""))
	}
	values := make([]string, len(after.By))
	for i, value := range after.By {
		values[i] = hex.EncodeToString([]byte(value))
	}
	return append(args, store.Named("paged", 1), store.Named("after", strings.Join(values, ",")),
		store.Named("after_kind", after.Kind))
}
