package month

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/analyzer/forecast"
	"github.com/gputally/gputally/internal/fault"
)

// end is the newest hour's: ten days of May are over.
var end = time.Date(2026, 5, 11, 0, 0, 0, 0, time.UTC)

// rates: an H100 costs 2 until 21 May, then 4; a B200 10 until then, and nothing is known of
// it later.
type rates struct{}

func (rates) GPUHour(u *episode.Use) (*big.Rat, string, bool) {
	model, late := u.Model, !u.Hour.Before(time.Date(2026, 5, 21, 0, 0, 0, 0, time.UTC))
	switch {
	case model == "H100" && late:
		return big.NewRat(4, 1), "USD", true
	case model == "H100":
		return big.NewRat(2, 1), "USD", true
	case model == "yen":
		return big.NewRat(300, 1), "JPY", true
	}
	return big.NewRat(10, 1), "USD", model == "B200" && !late
}

func newHistory(t *testing.T, first time.Time) *History {
	t.Helper()
	h, err := New(end, first)
	if err != nil {
		t.Fatal(err)
	}
	h.Rates = rates{}
	return h
}

// constant is 1 GPU-hour in each hour that is kept.
func constant(h *History, cluster, model string, keep func(i int) bool) Use {
	u := Use{Cluster: cluster, Model: model}
	for i := range h.hours() {
		if keep == nil || keep(i) {
			u.Hours, u.GPUHours = append(u.Hours, uint16(i)), append(u.GPUHours, 1)
		}
	}
	return u
}

// see has every hour of a cluster observed, but those that are lost.
func see(h *History, cluster string, lost func(i int) bool) {
	for i := range h.hours() {
		h.See(cluster, h.From.Add(time.Duration(i)*time.Hour), lost == nil || !lost(i))
	}
}

func wantAmount(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*max(want, 1) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestSpendIsPricedByTheHour(t *testing.T) {
	h := newHistory(t, time.Time{})
	see(h, "c", nil)
	m := h.Tenant("ml", []Use{constant(h, "c", "H100", nil)})
	wantAmount(t, "GPU-hours so far", m.GPUHours.Used, 240)
	wantAmount(t, "GPU-hours", m.GPUHours.Month.Expected, 744)
	wantAmount(t, "spend so far", m.Spend.Used, 480)
	wantAmount(t, "spend, a price rises on the 21st", m.Spend.Month.Expected, 480+240*2+264*4)
	wantAmount(t, "and nothing else", m.Spend.Month.High95-m.Spend.Month.Low95, 0)
	if m.Currency != "USD" || m.Spend.Why != "" || m.Spend.Method == "" {
		t.Errorf("%+v", m)
	}
}

func TestSpendWithoutAPrice(t *testing.T) {
	for name, models := range map[string][]string{
		"none known": {"TPU"}, "none ahead": {"B200"}, "of one model": {"H100", "TPU"}, "two currencies": {"H100", "yen"},
	} {
		h := newHistory(t, time.Time{})
		see(h, "c", nil)
		var uses []Use
		for _, model := range models {
			uses = append(uses, constant(h, "c", model, nil))
		}
		m := h.Tenant("ml", uses)
		if !strings.Contains(m.Spend.Why, models[len(models)-1]) || !math.IsNaN(m.Spend.Used) || m.Spend.Method != "" ||
			m.Currency != "" {
			t.Errorf("%s: spend %+v %s, want not known, and why", name, m.Spend, m.Currency)
		}
		wantAmount(t, name, m.GPUHours.Month.Expected, 744*float64(len(models)))
	}
}

// TestHoursThatNobodySaw: a tenant of two clusters lacks the hours that either of them lacks.
func TestHoursThatNobodySaw(t *testing.T) {
	h := newHistory(t, time.Time{})
	lost := func(i int) bool { return i >= 1300 && i < 1350 }
	see(h, "a", nil)
	see(h, "b", lost)
	seen := func(i int) bool { return !lost(i) }
	m := h.Tenant("ml", []Use{constant(h, "a", "H100", nil), constant(h, "b", "H100", seen)})
	wantAmount(t, "used so far", m.GPUHours.Used, 480)
	wantAmount(t, "month", m.GPUHours.Month.Expected, 2*744)

	// Without the sights the same hours are half.
	h = newHistory(t, time.Time{})
	m = h.Tenant("ml", []Use{constant(h, "a", "H100", nil), constant(h, "b", "H100", seen)})
	if got := m.GPUHours.Month.High95 - m.GPUHours.Month.Low95; got < 1 {
		t.Errorf("hours that were observed without use don't count: %+v", m.GPUHours)
	}
}

func TestClustersThatLagEndOrBegin(t *testing.T) {
	for name, c := range map[string]struct {
		from, to int // the cluster's rows
		want     float64
	}{
		"lags by a day":          {0, 1680 - 24, 2*744 - 24},
		"began three weeks ago":  {1680 - 21*24, 1680, 0},
		"ended three days ago":   {0, 1680 - 73, 0},
		"has rows in every hour": {0, 1680, 2 * 744},
	} {
		h := newHistory(t, time.Time{})
		within := func(i int) bool { return i >= c.from && i < c.to }
		see(h, "a", nil)
		for i := c.from; i < c.to; i++ {
			h.See("b", h.From.Add(time.Duration(i)*time.Hour), true)
		}
		m := h.Tenant("ml", []Use{constant(h, "a", "H100", nil), constant(h, "b", "H100", within)})
		got := m.GPUHours.Month
		if c.want > 0 {
			wantAmount(t, name, got.Expected, c.want)
		} else if got.High95-got.Low95 < 1 {
			t.Errorf("%s: %+v, want hours without the cluster to be hours without use", name, got)
		}
	}
}

func TestHistoryBeginsWithTheFirstUse(t *testing.T) {
	h := newHistory(t, time.Time{})
	see(h, "c", nil)
	for days, short := range map[int]bool{forecast.MinDays: false, forecast.MinDays - 1: true} {
		m := h.Tenant("new", []Use{constant(h, "c", "H100", func(i int) bool { return i >= 1680-days*24 })})
		if (m.GPUHours.Why != "") != short || m.GPUHours.Used != 240 {
			t.Errorf("%d days: %+v", days, m.GPUHours)
		}
		if !short {
			wantAmount(t, "month", m.GPUHours.Month.Expected, 744)
		}
	}
}

// TestMonthsBeginInTheTenantsZone: an hour belongs to the month in which it begins there.
func TestMonthsBeginInTheTenantsZone(t *testing.T) {
	for zone, want := range map[string][2]string{
		"UTC":                 {"2026-05-01T00", "2026-06-01T00"},
		"America/Los_Angeles": {"2026-05-01T07", "2026-06-01T07"},
		"Asia/Kolkata":        {"2026-04-30T19", "2026-05-31T19"},
		"Pacific/Kiritimati":  {"2026-04-30T10", "2026-05-31T10"},
	} {
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, first := range []time.Time{{}, time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)} {
			h := newHistory(t, first)
			h.Zone = func(string) *time.Location { return location }
			m := h.Tenant("ml", []Use{constant(h, "c", "H100", nil)})
			if got := [2]string{m.From.Format("2006-01-02T15"), m.To.Format("2006-01-02T15")}; got != want {
				t.Errorf("%s: %v, want %v", zone, got, want)
			}
			wantAmount(t, zone, m.GPUHours.Month.Expected, m.To.Sub(m.From).Hours())
			wantAmount(t, zone+" so far", m.GPUHours.Used, end.Sub(m.From).Hours())
		}
	}
}

func TestMonthsThatAreOverOrNotBegun(t *testing.T) {
	h := newHistory(t, time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC))
	if h.hours() != 30*24 {
		t.Errorf("February and a day on each side has %d hours", h.hours())
	}
	m := h.Tenant("ml", []Use{constant(h, "c", "H100", nil)})
	a := m.GPUHours.Month
	if m.GPUHours.Used != 672 || a.Expected != 672 || a.Low95 != 672 || a.High80 != 672 ||
		m.GPUHours.Why != "" || m.GPUHours.Method != "" {
		t.Errorf("February: %+v", m.GPUHours)
	}
	if _, err := New(end, time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)); fault.Of(err) != fault.Invalid {
		t.Errorf("June: error %v", err)
	}
	// In Los Angeles May begins seven hours later than the month that is asked for.
	first := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	h, err := New(first, first)
	if err != nil {
		t.Fatal(err)
	}
	h.Rates, h.Zone = rates{}, func(string) *time.Location { return time.FixedZone("", -7*3600) }
	if m := h.Tenant("ml", []Use{constant(h, "c", "H100", nil)}); m.GPUHours.Why == "" || m.GPUHours.Used != 0 {
		t.Errorf("a month that has not begun there: %+v", m.GPUHours)
	}
}

func TestBudgets(t *testing.T) {
	good := Config{Budgets: map[string]Budget{"ml": {GPUHours: 1}, "nlp": {Spend: 2.5}}}
	if err := errors.Join(good.Validate(), Config{}.Validate()); err != nil {
		t.Error(err)
	}
	for name, b := range map[string]Budget{
		"empty": {}, "negative": {GPUHours: -1}, "not a number": {Spend: math.NaN()}, "infinite": {Spend: math.Inf(1)},
	} {
		err := Config{Budgets: map[string]Budget{"team": b}}.Validate()
		if err == nil || !strings.Contains(err.Error(), "team") {
			t.Errorf("%s: error %v, want one that names the tenant", name, err)
		}
	}
}
