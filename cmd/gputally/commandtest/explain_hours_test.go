package commandtest

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/ingest/explain"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
)

// explainHoursEnv is how many GPU-hours of a demo's month are explained, such as
// 10000; unset: 20 of one day.
const explainHoursEnv = "GPUTALLY_EXPLAIN_HOURS"

// TestExplainRandomHours explains random GPU-hours of a demo: each must be proved.
// It reports how long one takes.
func TestExplainRandomHours(t *testing.T) {
	storetest.Library(t)
	n, days := 20, "1"
	if text := os.Getenv(explainHoursEnv); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", explainHoursEnv, err)
		}
		days = "31"
	}
	data := t.TempDir() + "/data"
	programtest.MustInvoke(t, "demo", "--once", "--month", "2026-10", "--days", days, "--seed", "7", "--listen", "127.0.0.1:0", "--data", data)
	programtest.WithTables(t, data, func(db *store.DB) {
		var rows []struct {
			GPU  string    `ch:"gpu"`
			Hour time.Time `ch:"hour"`
		}
		if err := db.Select(t.Context(), &rows,
			"SELECT toString(gpu) AS gpu, hour FROM usage_hourly FINAL WHERE present_ms > 0 ORDER BY gpu, hour"); err != nil ||
			len(rows) == 0 {
			t.Fatalf("%d GPU-hours, %v", len(rows), err)
		}
		rng := rand.New(rand.NewPCG(7, uint64(n)))
		took := make([]time.Duration, n)
		for i := range n {
			r := rows[rng.IntN(len(rows))]
			began := time.Now()
			e, err := explain.Explain(context.WithoutCancel(t.Context()), db, explain.Request{GPU: r.GPU, Hour: r.Hour})
			took[i] = time.Since(began)
			if err != nil || !e.Proof.OK || e.Raw != explain.RawKept || len(e.Summary) == 0 {
				t.Fatalf("GPU %s, hour %s: got %+v, %v; want it proved", r.GPU, r.Hour, e, err)
			}
		}
		slices.Sort(took)
		t.Logf("%d of %d GPU-hours: median %v, p99 %v, longest %v", n, len(rows), took[n/2], took[n*99/100], took[n-1])
	})
}
