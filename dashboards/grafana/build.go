package grafana

import (
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// bucketPaint is the same on every panel.
var bucketPaint = []struct{ bucket, paint string }{
	{"active", "green"},
	{"idle", "orange"},
	{"unproven", "yellow"},
	{"free", "blue"},
	{"stranded", "purple"},
	{"unhealthy", "red"},
	{"unobserved", "gray"},
}

// minInterval keeps intervals of hourly rows at an hour or more; a shorter one
// would leave empty intervals between the hours.
const minInterval = "1h"

func panel(s spec, id uint32) cog.Builder[dashboard.Panel] {
	switch s.View {
	case viewTable:
		return tablePanel(s, id)
	case viewBars:
		return barsPanel(s, id)
	case viewStat:
		return statPanel(s, id)
	default:
		return timePanel(s, id)
	}
}

// clickhouseQuery is a query as the data source's plugin (v4) saves it; the SDK
// has no type for it.
type clickhouseQuery struct{ variants.UnknownDataquery }

// Build implements cog.Builder.
func (q clickhouseQuery) Build() (variants.Dataquery, error) { return q.UnknownDataquery, nil }

func targets(s spec) []cog.Builder[variants.Dataquery] {
	var list []cog.Builder[variants.Dataquery]
	for i, q := range s.Prom {
		list = append(list, prometheus.NewDataqueryBuilder().Expr(q.Expr).LegendFormat(q.Legend).
			Range().RefId(string(rune('A'+i))).Datasource(promSource))
	}
	if s.SQL == "" {
		return list
	}
	kind, format := "table", 1
	if overTime(s) {
		kind, format = "timeseries", 0
	}
	return append(list, clickhouseQuery{variants.UnknownDataquery{
		"refId": "A", "datasource": clickhouse, "editorType": "sql", "pluginVersion": "4.0.0",
		"queryType": kind, "format": format, "rawSql": s.SQL,
	}})
}

func overTime(s spec) bool { return s.View == viewStacked || s.View == viewLines }

func dataSource(s spec) common.DataSourceRef {
	if s.SQL == "" {
		return promSource
	}
	return clickhouse
}

func timePanel(s spec, id uint32) cog.Builder[dashboard.Panel] {
	b := timeseries.NewPanelBuilder().Id(id).Title(s.Title).Description(s.Text).Datasource(dataSource(s)).
		Span(s.Width).Height(s.Height).Unit(s.Unit).Targets(targets(s)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)).
		Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeList).Placement(
			common.LegendPlacementBottom).ShowLegend(true))
	if s.View == viewStacked {
		b.Min(0).FillOpacity(60).LineWidth(0).LineInterpolation(common.LineInterpolationStepAfter).
			Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal).Group("A"))
		for _, c := range bucketPaint {
			b.OverrideByName(c.bucket, []dashboard.DynamicConfigValue{
				{Id: "color", Value: map[string]string{"mode": "fixed", "fixedColor": c.paint}}, //nolint:misspell // Grafana's name
			})
		}
	}
	if strings.Contains(s.SQL, "$__timeInterval(hour)") {
		b.Interval(minInterval)
	}
	for _, column := range s.Columns {
		if unit, own := s.Units[column]; own {
			b.OverrideByName(column,
				append(unitOverride(unit), dashboard.DynamicConfigValue{Id: "custom.axisPlacement", Value: "right"}))
		}
	}
	return b
}

func unitOverride(unit string) []dashboard.DynamicConfigValue {
	return []dashboard.DynamicConfigValue{{Id: "unit", Value: unit}}
}

func tablePanel(s spec, id uint32) cog.Builder[dashboard.Panel] {
	b := table.NewPanelBuilder().Id(id).Title(s.Title).Description(s.Text).Datasource(dataSource(s)).
		Span(s.Width).Height(s.Height).Unit(s.Unit).Decimals(2).Filterable(true).Targets(targets(s))
	for _, column := range s.Columns {
		if unit, own := s.Units[column]; own {
			b.OverrideByName(column, unitOverride(unit))
		}
	}
	return b
}

// barsPanel shows each row as a bar: values are not reduced to one.
func barsPanel(s spec, id uint32) cog.Builder[dashboard.Panel] {
	return bargauge.NewPanelBuilder().Id(id).Title(s.Title).Description(s.Text).Datasource(dataSource(s)).
		Span(s.Width).Height(s.Height).Unit(s.Unit).Decimals(1).Min(0).Targets(targets(s)).
		Orientation(common.VizOrientationHorizontal).DisplayMode(common.BarGaugeDisplayModeBasic).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Values(true).Calcs([]string{}))
}

func statPanel(s spec, id uint32) cog.Builder[dashboard.Panel] {
	field := "/^" + s.Field + "$/"
	return stat.NewPanelBuilder().Id(id).Title(s.Title).Description(s.Text).Datasource(dataSource(s)).
		Span(s.Width).Height(s.Height).Unit(s.Unit).Targets(targets(s)).
		GraphMode(common.BigValueGraphModeNone).ColorMode(common.BigValueColorModeValue).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Values(true).Calcs([]string{}).Fields(field))
}
