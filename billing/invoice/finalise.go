package invoice

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/decisions"
)

// FinaliseRequest requests that a month's invoices are finalised.
type FinaliseRequest struct {
	Period string
	// Tenants whose invoices are finalised; none: all of the month.
	Tenants []string
	// Who decides, for display.
	Who string
	// Key is the idempotency key of a request for one tenant; empty: the invoice's number.
	Key string
	// Expect, of a request for one tenant, is the SHA-256 in hex, or 16 digits of it or more, of the only document
	// that may be decided; empty: any.
	Expect string
	// Approved requires that somebody else has approved each document.
	Approved bool
	// WithoutUsage also finalises months of which the ledger has no hour.
	WithoutUsage bool
	// WithoutUnpriced also finalises months with usage of models without a rate: nothing of those hours is
	// distributed, and their tenants are not finalised.
	WithoutUnpriced bool
	// Progress, which may be nil, is called after each tenant.
	Progress func(done, total int)
}

// Decided is the outcome of a request.
type Decided struct {
	Number string
	Tenant string
	Kind   string
	// Total is in Currency.
	Total    string
	Currency string
	// Content is the document's SHA-256, in hex.
	Content string
	// Already: the document was decided before this request.
	Already bool
}

// Finalise decides invoices, each completely or not at all: after a crash some tenants may have an invoice, and the
// same request decides the rest. Invoices decided before are returned as such.
//
// All conditions are checked before anything is appended, on a plan in memory. A condition of the month refuses all
// of it: *OpenHoursError, ErrNoUsage, no rate, ErrNotFound for a tenant without usage or terms, *ViolationError. A
// condition of one tenant refuses only that tenant: *MovedError, *ConflictError, ErrNoUsage in its own zone; the
// others' invoices and the error are both returned. A price book is published, and hours are frozen, only if an
// invoice follows that needs them.
func (r *Register) Finalise(ctx context.Context, q FinaliseRequest) ([]Decided, error) {
	if (q.Key != "" || q.Expect != "") && len(q.Tenants) != 1 {
		return nil, errors.New("finalise invoices: a key and an expected content are for one tenant")
	}
	period, err := rating.ParsePeriod(q.Period)
	if err != nil {
		return nil, err
	}
	r.deciding.Lock()
	defer r.deciding.Unlock()
	if err := r.decidable(ctx); err != nil {
		return nil, err
	}
	if number, used := r.used(q.Key); used {
		record, ok := r.invoice(number)
		if !ok || record.Period != q.Period || record.Tenant != q.Tenants[0] || record.Revision != 0 {
			return nil, keyUsed()
		}
	}
	if done, all := r.alreadyDecided(q); all {
		if err := expected(done[0], q.Expect); err != nil {
			return nil, err
		}
		return done, nil
	}
	for range planAttempts {
		done, again, err := r.finaliseOnce(ctx, q, period)
		if err != nil && len(done) == 0 {
			err = fmt.Errorf("finalise invoices of %s: %w", q.Period, err)
		}
		if !again {
			return done, err
		}
		if err := r.refresh(ctx); err != nil {
			return nil, err
		}
	}
	return nil, conflict(ReasonRace, "finalise invoices of %s: other processes changed its price book or hours repeatedly",
		q.Period)
}

// planAttempts is how often other processes may change the basis of a plan.
const planAttempts = 5

// finaliseOnce plans, and decides what nothing refuses; again: what it planned
// with is no longer so.
func (r *Register) finaliseOnce(ctx context.Context, q FinaliseRequest, period rating.Period) (
	done []Decided, again bool, err error,
) {
	p, err := r.plan(ctx, q, period)
	if err != nil {
		return nil, false, err
	}
	accepted, done, refused := r.judge(ctx, q, p)
	if len(accepted) == 0 {
		return done, false, refused
	}
	ready, err := r.prepare(ctx, q.Who, p, accepted)
	if err != nil || !ready {
		return nil, err == nil, err
	}
	for n, i := range accepted {
		one, err := r.decidePlanned(ctx, p, i)
		if err != nil {
			refused = errors.Join(refused, fmt.Errorf("finalise invoice %s: %w", i.record.Number, err))
			if general(err) {
				break
			}
			continue // other tenants are not affected
		}
		if done = append(done, one); q.Progress != nil {
			q.Progress(n+1, len(accepted))
		}
	}
	slices.SortFunc(done, func(a, b Decided) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return done, false, refused
}

func keyUsed() error {
	return conflict(ReasonKey, "the key was used for another request")
}

// alreadyDecided answers a request whose tenants all have their invoice.
func (r *Register) alreadyDecided(q FinaliseRequest) (done []Decided, all bool) {
	for _, tenant := range q.Tenants {
		chain := r.chain(tenant, q.Period)
		if len(chain) == 0 {
			return nil, false
		}
		done = append(done, decided(chain[0], true))
	}
	return done, len(done) > 0
}

func decided(record decisions.Invoice, already bool) Decided {
	return Decided{
		Number: record.Number, Tenant: record.Tenant, Kind: record.Kind, Total: record.Total, Currency: record.Currency,
		Content: record.Content.SHA256, Already: already,
	}
}

// intent is a document to be decided.
type intent struct {
	kind     decisions.Kind
	key, who string
	record   decisions.Invoice
	content  []byte
}

// of sets a document and the usage copy from which it follows.
func (i *intent) of(document *Invoice, usage []byte) (*decisions.Invoice, error) {
	var err error
	if i.content, err = Canonical(document); err != nil {
		return nil, err
	}
	i.record, err = recordOf(document, i.content, usage)
	return &i.record, err
}

// request identifies the request for the idempotency key.
func (i *intent) request() string {
	return request(string(i.kind), i.record.Tenant, i.record.Period, i.record.Corrects)
}

// refuse returns why a document can't be decided, before anything is appended for it: its content, its tenant's name,
// a missing approval, or an error of the decisions' check of its record.
func (r *Register) refuse(i *intent, expect string, approved bool) error {
	if err := expected(decided(i.record, false), expect); err != nil {
		return err
	}
	if n := len(i.record.Tenant); n > decisions.MaxTenantBytes {
		return conflict(ReasonName, "the tenant's name has %d bytes, an invoice's at most %d: map it to a shorter one",
			n, decisions.MaxTenantBytes)
	}
	if approved || r.deps.Approvals || r.needsApproval() {
		var err error
		if i.record.Approval, err = r.approvedBy(i.who, i.record.Content.SHA256, i.record.Number); err != nil {
			return err
		}
	}
	return r.check(i.kind, i.key, i.request(), i.who, &i.record)
}

// decide appends an invoice or a note, and returns the document that was decided.
func (r *Register) decide(ctx context.Context, i *intent, usage []byte) (Decided, error) {
	for _, text := range [][]byte{usage, i.content} {
		if _, err := r.deps.Decisions.Put(ctx, text); err != nil {
			return Decided{}, fmt.Errorf("store %s and its usage copy: %w", i.record.Number, err)
		}
	}
	outcome, err := r.deps.Decisions.Append(ctx, i.kind, i.key, i.request(), i.who, &i.record)
	if err != nil {
		return Decided{}, err
	}
	if outcome.Accepted && outcome.Repeats < 0 {
		return decided(i.record, false), nil
	}
	stands, ok := r.invoice(i.record.Number)
	switch {
	case !ok:
		return Decided{}, conflict(ReasonRace, "%s was refused: %s", i.record.Number, outcome.Reason)
	case stands.Content.SHA256 != i.record.Content.SHA256:
		return Decided{}, conflict(ReasonRace, "%s was decided meanwhile with another content, %s instead of %s",
			i.record.Number, stands.Content.SHA256, i.record.Content.SHA256)
	}
	return decided(stands, true), nil
}

// request is the SHA-256 of a request: the same key with another request is refused.
func request(parts ...string) string {
	text, _ := json.Marshal(parts) // encoding strings can't fail
	return decisions.Digest(text)
}
