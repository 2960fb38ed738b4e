package grafana

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
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
	board, err := build()
	if err != nil {
		return nil, fmt.Errorf("build dashboard: %w", err)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false) // queries stay readable in a diff
	if err := encoder.Encode(board); err != nil {
		return nil, fmt.Errorf("encode dashboard: %w", err)
	}
	return out.Bytes(), nil
}

func build() (dashboard.Dashboard, error) {
	b := dashboard.NewDashboardBuilder("GPU ledger: who used what").
		Uid("gputally").
		Description("Every GPU-hour in exactly one bucket: who held it, whether it worked, and what nobody could use.").
		Tags([]string{"gpu", "gputally"}).
		Timezone("utc"). // the ledger's hours are UTC hours
		Time("now-7d", "now").
		Refresh("5m").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Editable()
	for _, v := range variables() {
		b.WithVariable(v)
	}
	id := uint32(1)
	for _, r := range rows() {
		b.WithRow(dashboard.NewRowBuilder(r.title).Id(id))
		id++
		for _, s := range r.panels {
			b.WithPanel(panel(s, id))
			id++
		}
	}
	return b.Build()
}

func variables() []cog.Builder[dashboard.VariableModel] {
	return []cog.Builder[dashboard.VariableModel]{
		dashboard.NewDatasourceVariableBuilder("clickhouse").Label("ClickHouse").Type(clickhouseType),
		dashboard.NewDatasourceVariableBuilder("prometheus").Label("Prometheus").Type(prometheusType),
		listVariable("cluster", clusterVariableSQL).Multi(true).IncludeAll(true).Current(all()),
		listVariable("tenant", tenantVariableSQL).Multi(true).IncludeAll(true).Current(all()),
		listVariable("gpu", gpuVariableSQL),
	}
}

func listVariable(name, sql string) *dashboard.QueryVariableBuilder {
	sql = strings.TrimSpace(sql)
	return dashboard.NewQueryVariableBuilder(name).
		Datasource(clickhouse).
		Query(dashboard.StringOrMap{String: &sql}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc)
}

// all chooses every value, in the form Grafana saves it.
func all() dashboard.VariableOption {
	return dashboard.VariableOption{
		Text:  dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
		Value: dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
	}
}
