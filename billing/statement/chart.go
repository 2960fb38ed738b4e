package statement

import (
	"fmt"
	"strings"

	"github.com/shopspring/decimal"
)

// Sizes of a chart in its own units; its text is sized by the style sheet.
const (
	chartWidth  = 720
	chartHeight = 220
	plotTop     = 12
	plotBottom  = 190
	plotRight   = 716
	ticks       = 4
	// perDigit is the width of a character of the axis on a small screen, where text is largest.
	perDigit = 11
	widest   = 64 // of a bar
)

// column is one bar of a chart: a day or a month.
type column struct {
	label string // below the bar
	long  string // in the table and the tooltip
	minor bool   // its label is dropped if there is no space
	hours hours
}

// chart is stacked bars with their table.
type chart struct {
	ID, Title, Desc       string
	Width, Height         int
	Left, Right, Baseline int
	Bars                  []chartBar
	Ticks                 []chartTick
	Labels                []chartLabel
	Legend                []bucket
	Head                  []string
	Rows                  [][]string
}

type chartBar struct{ X, Y, Width, Height, Class, Tip string }

type chartTick struct{ Y, TextY, Label string }

type chartLabel struct {
	X, Label string
	Minor    bool
}

// newChart stacks the columns' buckets, the first one lowest.
func newChart(id, title, first string, buckets []bucket, columns []column) *chart {
	c := &chart{
		ID: id, Title: title, Width: chartWidth, Height: chartHeight,
		Right: plotRight, Baseline: plotBottom, Legend: buckets, Head: []string{first},
	}
	top := decimal.Zero
	for _, col := range columns {
		top = decimal.Max(top, col.hours.sum(buckets))
	}
	top = axisTop(top)
	c.addTicks(top)
	for i, col := range columns {
		c.addColumn(i, len(columns), col, buckets, top)
	}
	for _, b := range buckets {
		c.Head = append(c.Head, b.Title)
	}
	c.Head = append(c.Head, "Total")
	c.Desc = describe(first, buckets, columns)
	return c
}

// axisTop is the next of 1, 2, 4, 6, 8 and 10 times a power of ten, so that its quarters are short numbers.
func axisTop(greatest decimal.Decimal) decimal.Decimal {
	if !greatest.IsPositive() {
		return decimal.NewFromInt(1)
	}
	exponent := int32(greatest.NumDigits()) + greatest.Exponent() - 1
	for _, factor := range []int64{1, 2, 4, 6, 8} {
		if top := decimal.New(factor, exponent); !top.LessThan(greatest) {
			return top
		}
	}
	return decimal.New(1, exponent+1)
}

func (c *chart) addTicks(top decimal.Decimal) {
	for i := range int64(ticks + 1) {
		value := top.Mul(decimal.NewFromInt(i)).DivRound(decimal.NewFromInt(ticks), 9)
		y := plotBottom - int64(plotBottom-plotTop)*i/ticks
		label := trimmed(value, 0)
		c.Left = max(c.Left, 10+perDigit*len(label))
		c.Ticks = append(c.Ticks, chartTick{Y: fmt.Sprint(y), TextY: fmt.Sprint(y + 4), Label: label})
	}
}

func (c *chart) addColumn(at, count int, col column, buckets []bucket, top decimal.Decimal) {
	step := decimal.NewFromInt(int64(plotRight-c.Left)).DivRound(decimal.NewFromInt(int64(count)), 4)
	left := decimal.NewFromInt(int64(c.Left)).Add(step.Mul(decimal.NewFromInt(int64(at))))
	gap := decimal.Max(step.Mul(decimal.New(2, -1)), step.Sub(decimal.NewFromInt(widest))) // total of both sides
	y := decimal.NewFromInt(plotBottom)
	row := []string{col.long}
	for _, b := range buckets {
		value := col.hours.Of(b.Name)
		row = append(row, gpuHours(value))
		height := value.Mul(decimal.NewFromInt(plotBottom-plotTop)).DivRound(top, 2)
		if !height.IsPositive() {
			continue
		}
		y = y.Sub(height)
		c.Bars = append(c.Bars, chartBar{
			X: left.Add(gap.Div(decimal.NewFromInt(2))).StringFixed(2), Width: step.Sub(gap).StringFixed(2),
			Y: y.StringFixed(2), Height: height.StringFixed(2), Class: b.Name,
			Tip: fmt.Sprintf("%s: %s, %s GPU-hours", col.long, strings.ToLower(b.Title), gpuHours(value)),
		})
	}
	c.Rows = append(c.Rows, append(row, gpuHours(col.hours.sum(buckets))))
	c.Labels = append(c.Labels, chartLabel{
		X: left.Add(step.Div(decimal.NewFromInt(2))).StringFixed(2), Label: col.label, Minor: col.minor,
	})
}

// describe describes the chart in words: its range, its total, and its maximum.
func describe(unit string, buckets []bucket, columns []column) string {
	if len(columns) == 0 {
		return "There is no data."
	}
	total, most := decimal.Zero, columns[0]
	for _, col := range columns {
		total = total.Add(col.hours.sum(buckets))
		if col.hours.sum(buckets).GreaterThan(most.hours.sum(buckets)) {
			most = col
		}
	}
	text := fmt.Sprintf("Stacked bars by %s from %s to %s, %s GPU-hours in total.",
		strings.ToLower(unit), columns[0].long, columns[len(columns)-1].long, gpuHours(total))
	if !total.IsPositive() {
		return text
	}
	return text + fmt.Sprintf(" The maximum is on %s: %s.", most.long, gpuHours(most.hours.sum(buckets)))
}

// splitWidth is the length of a bar in its own units.
const splitWidth = 1000

// part is a segment of a horizontal bar and a row of its legend.
type part struct {
	bucket
	Hours, Share, Value string // Value is the list value, if known
	X, Width            string
}

// split is one bar, divided by bucket; its legend is its table.
type split struct {
	ID, Title, Desc, Total string
	Parts                  []part
	Valued                 bool
}

// newSplit divides a whole into its buckets; values may be nil.
func newSplit(id, title string, buckets []bucket, h hours, values map[string]string) *split {
	whole := h.sum(buckets)
	s := &split{ID: id, Title: title, Total: gpuHours(whole), Valued: values != nil}
	var words []string
	x := decimal.Zero
	for _, b := range buckets {
		p := part{bucket: b, Hours: gpuHours(h.Of(b.Name)), Share: percent(h.Of(b.Name), whole), Value: values[b.Name]}
		width := barWidth(h.Of(b.Name), whole)
		p.X, p.Width = x.StringFixed(2), width.StringFixed(2)
		x = x.Add(width)
		s.Parts = append(s.Parts, p)
		words = append(words, strings.ToLower(b.Title)+" "+p.Share)
	}
	s.Desc = "Of " + s.Total + " GPU-hours: " + strings.Join(words, ", ") + "."
	return s
}

func barWidth(value, whole decimal.Decimal) decimal.Decimal {
	if !whole.IsPositive() {
		return decimal.Zero
	}
	return value.Mul(decimal.NewFromInt(splitWidth)).DivRound(whole, 2)
}

// rowBar is a small bar in a table's cell, as long as the row's share of the greatest row; the other cells have its
// figures.
func rowBar(buckets []bucket, h hours, greatest decimal.Decimal) []part {
	var parts []part
	x := decimal.Zero
	for _, b := range buckets {
		if width := barWidth(h.Of(b.Name), greatest); width.IsPositive() {
			parts = append(parts, part{bucket: b, X: x.StringFixed(2), Width: width.StringFixed(2)})
			x = x.Add(width)
		}
	}
	return parts
}
