package grafana

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// FileName is the dashboard's name on disk.
const FileName = "gputally.json"

// Data sources are chosen by variables, so that the dashboard can be imported
// anywhere.
const (
	clickhouseType = "grafana-clickhouse-datasource"
	prometheusType = "prometheus"
)

var (
	clickhouse = source(clickhouseType, "${clickhouse}")
	promSource = source(prometheusType, "${prometheus}")
)

func source(kind, uid string) common.DataSourceRef {
	return common.DataSourceRef{Type: &kind, Uid: &uid}
}

// JSON is the dashboard in Grafana's JSON model, indented, with a newline at
// its end.
func JSON() ([]byte, error) {
	model, err := build()
	if err != nil {
		return nil, fmt.Errorf("build dashboard: %w", err)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false) // queries stay readable in a diff
	if err := encoder.Encode(model); err != nil {
		return nil, fmt.Errorf("encode dashboard: %w", err)
	}
	return out.Bytes(), nil
}

func build() (dashboard.Dashboard, error) {
	l, err := readLayout()
	if err != nil {
		return dashboard.Dashboard{}, err
	}
	b := dashboard.NewDashboardBuilder("GPU ledger: who used what").
		Uid("gputally").
		Description("Every GPU-hour in exactly one bucket: who held it, whether it worked, and what nobody could use.").
		Tags([]string{"gpu", "gputally"}).
		Timezone("utc"). // the ledger's hours are UTC hours
		Time("now-7d", "now").
		Refresh("5m").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Editable()
	b.WithVariable(dashboard.NewDatasourceVariableBuilder("clickhouse").Label("ClickHouse").Type(clickhouseType))
	b.WithVariable(dashboard.NewDatasourceVariableBuilder("prometheus").Label("Prometheus").Type(prometheusType))
	for _, v := range l.Variables {
		b.WithVariable(v.builder())
	}
	id := uint32(1)
	for _, r := range l.Rows {
		b.WithRow(dashboard.NewRowBuilder(r.Title).Id(id))
		id++
		for _, s := range r.Panels {
			b.WithPanel(panel(s, id))
			id++
		}
	}
	return b.Build()
}

func (v variable) builder() *dashboard.QueryVariableBuilder {
	b := dashboard.NewQueryVariableBuilder(v.Name).
		Datasource(clickhouse).
		Query(dashboard.StringOrMap{String: &v.SQL}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc)
	if v.Several {
		b.Multi(true).IncludeAll(true).Current(all())
	}
	return b
}

// all chooses every value, in the form Grafana saves it.
func all() dashboard.VariableOption {
	return dashboard.VariableOption{
		Text:  dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
		Value: dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
	}
}
