package api_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gputally/gputally/billing/invoice/invoicetest"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

// race is two processes with the API on one ledger and one broker.
type race struct {
	tenants  int
	register *invoicetest.Register
	start    func() *child
	client   *http.Client
}

func newRace(t *testing.T, tenants int) *race {
	t.Helper()
	db := storetest.Open(t)
	usagetest.Insert(t, db, manyTenants(tenants)...)
	b := invoicetest.Broker(t)
	r := &race{
		tenants: tenants, register: invoicetest.Open(t, db, prices.Default(), b),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
	}
	r.start = func() *child { return startChild(t, b.Addr(), storetest.Socket(t), db.Database()) }
	return r
}

func manyTenants(n int) (hours []usagetest.GPUHour) {
	for i := range n {
		hours = append(hours, gpuHour(fmt.Sprintf("tenant-%03d", i), uint64(1_000_000+i*48_000)))
	}
	return hours
}

// answer is what a finalise call came to.
type answer struct {
	status   int
	body     string
	replayed bool
}

// finalise sends one request; its error is that of a process that is gone.
func (r *race) finalise(ctx context.Context, to *child, tenant int) (answer, error) {
	body := fmt.Sprintf(`{"period":"2026-03","tenant":"tenant-%03d","who":"finance"}`, tenant)
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, to.url+"/api/v1/invoices", strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Idempotency-Key", fmt.Sprintf("march/%d", tenant))
	w, err := r.client.Do(q)
	if err != nil {
		return answer{}, err
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	return answer{w.StatusCode, string(text), w.Header.Get("Idempotency-Replayed") == "true"}, err
}

// everyTenant calls ask for each tenant in a random order, some at a time.
func (r *race) everyTenant(atOnce int, ask func(tenant int)) {
	order := rand.New(rand.NewPCG(1, 2)).Perm(r.tenants)
	var group sync.WaitGroup
	next := make(chan int)
	for range atOnce {
		group.Go(func() {
			for tenant := range next {
				ask(tenant)
			}
		})
	}
	for _, tenant := range order {
		next <- tenant
	}
	close(next)
	group.Wait()
}

// effects are the invoices that stand, by tenant, and how many records of kind
// invoice were accepted.
func (r *race) effects(t *testing.T) (standing map[string]decisions.Invoice, accepted int) {
	t.Helper()
	if err := r.register.Decisions.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	standing = map[string]decisions.Invoice{}
	r.register.Decisions.View(func(state *decisions.State) {
		for _, i := range state.Invoices() {
			standing[i.Body.Tenant] = i.Body
		}
		for offset := range state.Next() {
			if outcome, _ := state.Outcome(offset); outcome.Kind == decisions.KindInvoice && outcome.Accepted {
				accepted++
			}
		}
	})
	return standing, accepted
}

// whole verifies that an invoice follows from its own copy of usage, to the byte.
func (r *race) whole(t *testing.T, number string) {
	t.Helper()
	verdict, err := r.register.Verify(t.Context(), number)
	if err != nil || !verdict.Same {
		t.Errorf("%s is not whole: %+v, %v", number, verdict, err)
	}
}

// 500 finalise calls (20 in a short run), each sent 20 times in parallel with the
// same key, half to one process, half to another: 500 effects, and all 20 get the
// same answer.
func TestR6FinaliseCallsSentTwentyTimesHaveOneEffectEach(t *testing.T) {
	const copies, atOnce = 20, 4
	tenants := 500
	if testing.Short() {
		tenants = 20
	}
	r := newRace(t, tenants)
	processes := []*child{r.start(), r.start()}
	var asked, created, replayed, wrong atomic.Int64
	began := time.Now()
	r.everyTenant(atOnce, func(tenant int) {
		answers := make([]answer, copies)
		var group sync.WaitGroup
		for i := range answers {
			group.Go(func() {
				var err error
				if answers[i], err = r.finalise(t.Context(), processes[i%2], tenant); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		want := fmt.Sprintf(`{"number":"2026-03-tenant-%03d-r0",`, tenant)
		for _, a := range answers {
			asked.Add(1)
			switch {
			case a.body != answers[0].body || !strings.HasPrefix(a.body, want):
				wrong.Add(1)
				t.Errorf("tenant %d: %d %s, another was told %s", tenant, a.status, a.body, answers[0].body)
			case a.status == http.StatusCreated && !a.replayed:
				created.Add(1)
			case a.status == http.StatusOK && a.replayed:
				replayed.Add(1)
			default:
				wrong.Add(1)
				t.Errorf("tenant %d: status %d, replayed %v", tenant, a.status, a.replayed)
			}
		}
	})
	standing, accepted := r.effects(t)
	t.Logf("%d requests to 2 processes in %s: %d created, %d replayed; %d decisions of kind invoice, %d invoices",
		asked.Load(), time.Since(began).Round(time.Millisecond), created.Load(), replayed.Load(), accepted, len(standing))
	if asked.Load() != int64(tenants*copies) || created.Load() != int64(tenants) || replayed.Load() != int64(tenants*(copies-1)) || wrong.Load() != 0 {
		t.Errorf("asked %d, created %d, replayed %d, wrong %d", asked.Load(), created.Load(), replayed.Load(), wrong.Load())
	}
	if accepted != tenants || len(standing) != tenants {
		t.Errorf("%d decisions and %d invoices, want %d of each", accepted, len(standing), tenants)
	}
	for tenant := 0; tenant < tenants; tenant += tenants / 10 {
		r.whole(t, decisions.Number("2026-03", fmt.Sprintf("tenant-%03d", tenant), 0))
	}
}

// A process that is killed in the midst of finalising leaves each tenant's
// invoice whole or not there, and asking again completes the month.
func TestR6AKilledProcessLeavesWholeInvoicesOrNone(t *testing.T) {
	const tenants, killAfter = 60, 20
	r := newRace(t, tenants)
	processes := []*child{r.start(), r.start()}
	var told, lost atomic.Int64
	r.everyTenant(4, func(tenant int) {
		if _, err := r.finalise(t.Context(), processes[tenant%2], tenant); err != nil {
			lost.Add(1)
			return
		}
		if told.Add(1) == killAfter {
			processes[1].kill(t)
		}
	})
	before, accepted := r.effects(t)
	if lost.Load() == 0 || len(before) == 0 || len(before) == tenants || accepted != len(before) {
		t.Fatalf("told %d, lost %d, %d invoices, %d decisions: nobody was interrupted", told.Load(), lost.Load(), len(before), accepted)
	}
	for _, i := range before {
		r.whole(t, i.Number)
	}
	processes[1] = r.start()
	r.everyTenant(4, func(tenant int) {
		a, err := r.finalise(t.Context(), processes[tenant%2], tenant)
		stood, ok := before[fmt.Sprintf("tenant-%03d", tenant)]
		if err != nil || a.status >= 300 || ok && !strings.Contains(a.body, stood.Content.SHA256) || ok != (a.status == http.StatusOK) {
			t.Errorf("tenant %d again: %d %s, %v; it stood: %v", tenant, a.status, a.body, err, ok)
		}
	})
	after, accepted := r.effects(t)
	t.Logf("killed after %d answers: %d invoices stood, whole; again: %d", killAfter, len(before), len(after))
	if len(after) != tenants || accepted != tenants {
		t.Errorf("%d invoices and %d decisions, want %d of each", len(after), accepted, tenants)
	}
	for _, i := range after {
		r.whole(t, i.Number)
	}
}
