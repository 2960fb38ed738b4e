package invoice_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/invoice/invoicetest"
	"github.com/gputally/gputally/internal/decisions"
)

// smallLedger is a ledger of one GPU-hour in memory, as the register's queries
// see it.
type smallLedger struct {
	mu     sync.Mutex
	held   map[string]uint64 // slice-ms by tenant, of 7 slices and an hour
	epoch  uint32
	inputs uint64
	model  string // "": H100
	empty  bool   // it has no hour
	broken string // a tenant whose rows can't be billed: a profile of no size
	lost   uint64 // of the hour's capacity, for which there are no rows
	// due happens before the query that many queries from now; 0: none.
	due     func()
	queries int
}

// later makes something happen between the queries to come.
func (l *smallLedger) later(queries int, do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due, l.queries = do, queries
}

func (l *smallLedger) change(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do()
}

func (l *smallLedger) Query(_ context.Context, sql string, _ ...any) (driver.Rows, error) {
	l.mu.Lock()
	due := l.due
	if l.queries--; l.queries == 0 && due != nil {
		l.due = nil
		l.mu.Unlock()
		due()
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	const whole = 25_200_000
	rows := &memoryRows{}
	switch {
	case strings.Contains(sql, "AS gpu_model") && l.empty:
	case strings.Contains(sql, "AS gpu_model"):
		model := cmp.Or(l.model, "H100")
		row := func(tenant, bucket string, sliceMS uint64) {
			profile := ""
			if tenant != "" && tenant == l.broken {
				profile = "1g.10gb"
			}
			rows.rows = append(rows.rows, []any{march, tenant, "", model, profile, uint16(0), uint16(7), bucket, int64(sliceMS), int64(0)})
		}
		free := uint64(whole)
		for tenant, held := range l.held {
			row(tenant, "active", held)
			free -= held
		}
		row("", "free", free)
		row("", "capacity", whole+l.lost)
	case strings.Contains(sql, "max(epoch)"):
		rows.rows = [][]any{{l.epoch, l.inputs}}
	case strings.Contains(sql, "FROM epochs"), strings.Contains(sql, "argMax"):
	default:
		return nil, fmt.Errorf("the test's ledger doesn't know %s", sql)
	}
	return rows, nil
}

type memoryRows struct {
	driver.Rows
	rows [][]any
	at   int
}

func (r *memoryRows) Next() bool { r.at++; return r.at <= len(r.rows) }

func (r *memoryRows) Scan(to ...any) error {
	for i, value := range r.rows[r.at-1] {
		reflect.ValueOf(to[i]).Elem().Set(reflect.ValueOf(value))
	}
	return nil
}

func (r *memoryRows) Err() error { return nil }

func (r *memoryRows) Close() error { return nil }

// racer approves and finalises a new tenant each round, while something changes.
type racer struct {
	t        *testing.T
	rng      *rand.Rand
	ledger   *smallLedger
	r, other *invoicetest.Register // two processes on one topic
	stood    map[string]int        // by what changed
	refused  map[string]int
}

// change is a book, late data, or a mapping that moves usage to another tenant.
func (c *racer) change(kind string, round int) {
	switch kind {
	case "book":
		text := strings.Replace(flatBook, "2.49", fmt.Sprintf("%d.49", 3+round%7), 1)
		if _, err := c.other.Publish(c.t.Context(), parse(c.t, text), "mallory", ""); err != nil {
			c.t.Error(err)
		}
	case "late data":
		c.ledger.change(func() {
			for tenant := range c.ledger.held {
				c.ledger.held[tenant] += 3_600_000
			}
			c.ledger.inputs++
		})
	case "mapping":
		c.ledger.change(func() {
			for tenant, held := range c.ledger.held {
				c.ledger.held = map[string]uint64{tenant: held / 2, "other": held / 2}
			}
			c.ledger.epoch++
		})
	}
}

const flatBook = "currency: USD\nversions:\n- effective: 2026-01-01T00:00:00Z\n  models: {H100: {gpu_hour: \"2.49\"}}\n"

// round changes something before the approval, between it and finalising, or
// beside both.
func (c *racer) round(round int) {
	tenant := fmt.Sprintf("t%04d", round)
	c.ledger.change(func() { c.ledger.held = map[string]uint64{tenant: 7_200_000}; c.ledger.inputs++ })
	kind := changes[c.rng.IntN(len(changes))]
	order := c.rng.IntN(6)
	seen := draft(c.t, c.r, tenant)
	var wait sync.WaitGroup
	step := func(at int) {
		change := func() { c.change(kind, round) }
		switch order {
		case at:
			change()
		case at + 2:
			wait.Go(change)
		case at + 4:
			c.ledger.later(1+c.rng.IntN(4), change)
		}
	}
	step(0)
	_, approveErr := c.r.Approve(c.t.Context(), invoice.ApproveRequest{Period: "2026-03", Tenant: tenant, Who: "auditor", Expect: seen.Content})
	step(1)
	done, err := c.r.Finalise(c.t.Context(), invoice.FinaliseRequest{Period: "2026-03", Tenants: []string{tenant}, Who: "finance", Approved: true})
	wait.Wait()
	c.ledger.later(0, nil)
	c.judge(round, kind, &seen, approveErr, done, err)
}

func (c *racer) judge(round int, kind string, seen *invoice.Invoice, approveErr error, done []invoice.Decided, err error) {
	where := fmt.Sprintf("round %d, %s", round, kind)
	for _, err := range []error{approveErr, err} {
		if _, refused := invoice.ReasonOf(err); err != nil && !refused {
			c.t.Fatalf("%s: %v", where, err)
		}
	}
	var approvals []decisions.Decided[decisions.Approval]
	var stands decisions.Decided[decisions.Invoice]
	var ok bool
	c.r.Decisions.View(func(s *decisions.State) {
		approvals = s.Approvals(seen.Number)
		stands, ok = s.Invoice(seen.Number)
	})
	var moved *invoice.MovedError
	if len(approvals) > 1 || (approveErr == nil) != (len(approvals) == 1) || approveErr != nil && !errors.As(approveErr, &moved) {
		c.t.Errorf("%s: %d approvals, %v", where, len(approvals), approveErr)
	}
	for _, a := range approvals {
		if a.Body.Content != seen.Content || a.Body.Total != seen.Total.String() {
			c.t.Errorf("%s: approved %s over %s, seen was %s over %s", where, a.Body.Content, a.Body.Total, seen.Content, seen.Total)
		}
	}
	switch {
	case ok != (len(done) == 1) || ok != (err == nil) || ok && len(approvals) == 0:
		c.t.Errorf("%s: finalise said %+v, %v; %d approvals, an invoice stands: %v", where, done, err, len(approvals), ok)
	case ok && (stands.Body.Content.SHA256 != seen.Content || stands.Body.Total != seen.Total.String()):
		c.t.Errorf("%s: %s over %s stands, approved was %s over %s", where, stands.Body.Content.SHA256, stands.Body.Total, seen.Content, seen.Total)
	case ok:
		c.stood[kind]++
	default:
		c.refused[kind]++
	}
}

// changes are what races with an approval.
var changes = []string{"book", "late data", "mapping"}

// TestF4TheApprovedHashOrNothing: an approval races a changed book, mapping or
// late data, before, between and beside; what stands is what was seen, or nothing.
func TestF4TheApprovedHashOrNothing(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 50
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	ledger := &smallLedger{epoch: 1, inputs: 1}
	b := invoicetest.Broker(t)
	c := &racer{
		t: t, rng: rand.New(rand.NewPCG(seed, 4)), ledger: ledger, stood: map[string]int{}, refused: map[string]int{},
		r: invoicetest.Open(t, ledger, parse(t, flatBook), b), other: invoicetest.Open(t, ledger, parse(t, flatBook), b),
	}
	for round := 0; round < rounds || len(c.oneSided()) > 0 && round < 20*rounds; round++ {
		if c.round(round); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("stood %v, refused %v", c.stood, c.refused)
	if kinds := c.oneSided(); len(kinds) > 0 {
		t.Errorf("%v: the race was never lost or never won", kinds)
	}
}

// oneSided returns the kinds of change that have lost every race so far, or won every one.
func (c *racer) oneSided() (kinds []string) {
	for _, kind := range changes {
		if c.stood[kind] == 0 || c.refused[kind] == 0 {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
