package ask

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/gputally/gputally/analyzer"
	"github.com/gputally/gputally/analyzer/forecast"
	"github.com/gputally/gputally/analyzer/month"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/usage"
)

// Forecast prints what each tenant, or one, will have used by the end of a month; empty: of
// the month of the ledger's newest hours.
func Forecast(ctx context.Context, s *cli.Session, of cli.Month, tenant string) error {
	asked := analyzer.Outlooks{Tenant: tenant}
	if of.Text != "" {
		var err error
		if asked.Month, err = time.Parse("2006-01", of.Text); err != nil {
			return cli.UsageError(err)
		}
	}
	return app.WithStore(ctx, s, func(a *app.Access) error {
		book, err := a.Book(ctx)
		if err != nil {
			return err
		}
		rates := app.ListRates{InForce: func() *prices.Book { return book }}
		asked.Rates, asked.Zone = rates, rates.Zone
		var lines []outlook
		end, err := asked.Forecast(ctx, a.DB, func(t month.Tenant) {
			b := a.Config.Analyzer.Forecast.Budgets[t.Name]
			lines = append(lines, outlook{t.GPUHours, &t, "gpu_hours", b.GPUHours}, outlook{t.Spend, &t, "spend", b.Spend})
		})
		if err != nil {
			return err
		}
		return printForecast(ctx, s, a, lines, end)
	})
}

// outlook is a line: a tenant's GPU-hours, or its spend.
type outlook struct {
	month.Outlook
	tenant  *month.Tenant
	measure string
	budget  float64 // 0: none
}

func printForecast(ctx context.Context, s *cli.Session, a *app.Access, lines []outlook, end time.Time) error {
	if s.Format != cli.AsTable {
		return s.Print(forecastExact(lines, end))
	}
	if len(lines) > 0 {
		if err := s.Writef("from the ledger up to %s; spend at list price\n", end.Format(time.RFC3339)); err != nil {
			return err
		}
	}
	if err := s.Print(forecastShown(lines)); err != nil || len(lines) > 0 {
		return err
	}
	return app.SayNothing(ctx, s, a, "")
}

func forecastExact(lines []outlook, end time.Time) cli.Table {
	t := cli.Table{Columns: cli.Columns("tenant", "from", "to", "known_to", "measure", "currency", "used number",
		"expected number", "low80 number", "high80 number", "low95 number", "high95 number", "budget number", "method",
		"weight number", "origins number", "error_1_day number", "error_7_days number", "inside80 number", "judged number",
		"note")}
	for _, o := range lines {
		currency := ""
		if o.measure == "spend" {
			currency = o.tenant.Currency
		}
		m, back := amountOf(o.Outlook), o.Back
		row := []string{o.tenant.Name}
		for _, at := range []time.Time{o.tenant.From, o.tenant.To, end} {
			row = append(row, cli.RFC3339(at))
		}
		row = append(row, o.measure, currency)
		for _, v := range []float64{o.Used, m.Expected, m.Low80, m.High80, m.Low95, m.High95, someOf(o.budget)} {
			row = append(row, figure(v, 3))
		}
		t.Rows = append(t.Rows, append(row, o.Method, figure(someOf(o.Weight), 3), figure(someOf(float64(back.Origins)), 0),
			figure(back.Error1, 3), figure(back.Error7, 3), figure(back.Inside80, 3), figure(someOf(float64(back.Judged)), 0),
			o.Why))
	}
	return t
}

// forecastShown leaves out what a line of a terminal has no room for.
func forecastShown(lines []outlook) cli.Table {
	t := cli.Table{Columns: cli.Columns("tenant", "until", "of", "used number", "expected number", "80_% number",
		"95_% number", "budget number", "error_1_day number", "error_7_days number", "days_inside_80_% number",
		"method wide")}
	for _, o := range lines {
		of, method := "GPU-hours", o.Why
		if o.measure == "spend" {
			of = o.tenant.Currency
		}
		if o.Method != "" {
			method = fmt.Sprintf("%s (weight %.0f %%)", o.Method, 100*o.Weight)
		}
		m := amountOf(o.Outlook)
		t.Rows = append(t.Rows, []string{
			ShownTenant(usage.KindOwner, o.tenant.Name), o.tenant.To.Format("2006-01-02 15:04"), of, shownFigure(o.Used, 1),
			shownFigure(m.Expected, 1), shownRange(m.Low80, m.High80), shownRange(m.Low95, m.High95),
			shownFigure(someOf(o.budget), 0), shownFigure(o.Back.Error1, 2), shownFigure(o.Back.Error7, 2),
			shownInside(o.Back), method,
		})
	}
	return t
}

// amountOf is the month; NaN if it can't be forecast.
func amountOf(o month.Outlook) forecast.Amount {
	if o.Why != "" {
		nan := math.NaN()
		return forecast.Amount{Expected: nan, Low80: nan, High80: nan, Low95: nan, High95: nan}
	}
	return o.Month
}

// someOf is NaN for 0, which stands for none.
func someOf(v float64) float64 {
	if v == 0 {
		return math.NaN()
	}
	return v
}

// figure has a number of places; empty: not known.
func figure(v float64, places int) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'f', places, 64)
}

func shownFigure(v float64, places int) string {
	if math.IsNaN(v) {
		return "–"
	}
	return cli.Grouped(figure(v, places))
}

// shownInside has the number of days, for a share of a few says little.
func shownInside(b forecast.Backtest) string {
	if b.Judged == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f of %d", b.Inside80*float64(b.Judged), b.Judged)
}

func shownRange(low, high float64) string {
	if math.IsNaN(low) {
		return "–"
	}
	return shownFigure(low, 0) + "–" + shownFigure(high, 0)
}
