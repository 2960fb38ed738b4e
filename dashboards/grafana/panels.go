package grafana

import (
	_ "embed"
	"regexp"
	"strings"

	"github.com/gputally/gputally/internal/config"
)

//go:embed panels.yaml
var panelsYAML []byte

// layout is what panels.yaml describes.
type layout struct {
	Variables []variable
	Rows      []row
}

// variable is a choice at the dashboard's top. SQL returns its values and their labels.
type variable struct {
	Name    string
	Several bool // any number of values can be chosen, or all
	SQL     string
}

type row struct {
	Title  string
	Panels []spec
}

// spec describes a panel. It has SQL with the columns that it returns, or QueryOf, the title of an earlier panel with
// the same query, or Prom.
type spec struct {
	Title   string
	Text    string
	View    string
	Unit    string
	Width   uint32
	Height  uint32
	SQL     string
	Columns []string
	QueryOf string
	Field   string
	Units   map[string]string
	Prom    []promQuery
}

type promQuery struct {
	Expr   string
	Legend string
}

// The views of panels.
const (
	viewStacked = "stacked"
	viewLines   = "lines"
	viewBars    = "bars"
	viewTable   = "table"
	viewStat    = "stat"
)

func readLayout() (*layout, error) {
	var l layout
	if err := config.Decode("panels.yaml", panelsYAML, &l); err != nil {
		return nil, err
	}
	for i := range l.Variables {
		l.Variables[i].SQL = written(l.Variables[i].SQL)
	}
	earlier := map[string]spec{}
	for _, r := range l.Rows {
		for i := range r.Panels {
			s := &r.Panels[i]
			s.SQL = written(s.SQL)
			if s.QueryOf != "" {
				s.SQL, s.Columns = earlier[s.QueryOf].SQL, earlier[s.QueryOf].Columns
			}
			earlier[s.Title] = *s
		}
	}
	return &l, nil
}

var chosen = regexp.MustCompile(`CHOSEN\((\w+)\)`)

// written is a query with our own words written out.
//
// Names come from whoever can name a tenant, and a variable's value also from
// a page's address. No formatter of Grafana's quotes for ClickHouse:
// singlequote leaves the backslash alone. So a variable holds hexadecimal
// digits (of its query, the data source takes the first column for the value
// and the second for the text), and is written percent-encoded, in which there
// is neither quote nor backslash: several values as %7BA%2CB%7D for {A,B}.
func written(sql string) string {
	sql = chosen.ReplaceAllString(sql,
		`arrayMap(v -> unhex(v), splitByChar(',', trim(BOTH '{}' FROM decodeURLComponent('$${$1:percentencode}'))))`)
	return strings.ReplaceAll(sql, "GPU_HOUR", "(greatest(gpu_slices, 1) * 3600000.)")
}
