package invoice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/billing/prices"
	"github.com/gpuledger/gpuledger/billing/rating"
	"github.com/gpuledger/gpuledger/internal/decisions"
)

// FinaliseRequest asks for a month's invoices to stand for ever.
type FinaliseRequest struct {
	Period string
	// Tenants whose invoice it is; none: all of the month.
	Tenants []string
	// Who decides, for people.
	Who string
	// Key is the idempotency key of a request for one tenant; empty: the
	// invoice's number is.
	Key string
	// Approved wants each document to have been approved by somebody else.
	Approved bool
	// Progress, which may be nil, is told after each tenant.
	Progress func(done, total int)
}

// Decided is what a request came to.
type Decided struct {
	Number string
	Tenant string
	Kind   string
	// Total is in Currency.
	Total    string
	Currency string
	// Content is the document's SHA-256, in hex.
	Content string
	// Already says that the document stood before this request.
	Already bool
}

// Finalise decides invoices, all or nothing of each: a crash leaves tenants
// with an invoice and tenants without. What is decided already is told as
// such. One that a *ConflictError stands against keeps no other from being
// decided: both are returned. Errors: *OpenHoursError, *ConflictError where another decision stands
// against one, ErrNotFound for a tenant without usage or terms, and as in
// Drafts.List.
func (r *Register) Finalise(ctx context.Context, q FinaliseRequest) ([]Decided, error) {
	if q.Key != "" && len(q.Tenants) != 1 {
		return nil, errors.New("finalise invoices: a key is for one tenant")
	}
	period, err := rating.ParsePeriod(q.Period)
	if err != nil {
		return nil, err
	}
	r.deciding.Lock()
	defer r.deciding.Unlock()
	state, err := r.decidable(ctx)
	if err != nil {
		return nil, err
	}
	if number, used := state.used(q.Key); used {
		record, ok := state.invoice(number)
		if !ok || record.Period != q.Period || record.Tenant != q.Tenants[0] || record.Revision != 0 {
			return nil, &ConflictError{fmt.Sprintf("the key %q was used for another request", q.Key)}
		}
	}
	if done, all := alreadyDecided(state, q); all {
		return done, nil
	}
	if state, err = r.prepare(ctx, state, q, period); err != nil {
		return nil, fmt.Errorf("finalise invoices of %s: %w", q.Period, err)
	}
	return r.finaliseMonth(ctx, state, q, period)
}

// alreadyDecided answers a request whose tenants all have their invoice.
func alreadyDecided(state decidedState, q FinaliseRequest) (done []Decided, all bool) {
	for _, tenant := range q.Tenants {
		chain := state.chain(tenant, q.Period)
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

// prepare refuses what can't be finalised; then it publishes the book where
// none is, notes the mapping that the month's usage is named by, and freezes
// what the month needs.
func (r *Register) prepare(ctx context.Context, state decidedState, q FinaliseRequest, period rating.Period) (decidedState, error) {
	inForce, err := r.bookInForce(state)
	if err != nil {
		return state, err
	}
	from, to := span(inForce, period, q.Tenants)
	if err := r.deps.Closed(ctx, to); err != nil {
		return state, err
	}
	if err := r.billable(ctx, state, inForce, q, period, from, to); err != nil {
		return state, err
	}
	if _, ok := state.bookInForce(); !ok {
		if _, err := r.publish(ctx, state, r.deps.Book, q.Who, ""); err != nil {
			return state, err
		}
		if inForce, err = r.bookInForce(state); err != nil { // another process may have published before
			return state, err
		}
	}
	if _, err := r.noteMappings(ctx, state); err != nil {
		return state, err
	}
	return r.freeze(ctx, state, inForce, from, to, q.Who)
}

// span is where the tenants' months begin and end; without tenants, those of
// all zones in the book.
func span(b *prices.Book, period rating.Period, tenants []string) (from, to time.Time) {
	if len(tenants) == 0 {
		tenants = []string{""}
		for tenant := range b.TenantZones {
			tenants = append(tenants, tenant)
		}
	}
	for i, tenant := range tenants {
		begin, end := bounds(period, b.Location(tenant))
		if i == 0 || begin.Before(from) {
			from = begin
		}
		if i == 0 || end.After(to) {
			to = end
		}
	}
	return from, to
}

func (r *Register) finaliseMonth(ctx context.Context, state decidedState, q FinaliseRequest, period rating.Period) ([]Decided, error) {
	inForce, err := r.bookInForce(state)
	if err != nil {
		return nil, err
	}
	from, to := period.Range()
	frozen, err := r.frozen(ctx, state, from, to)
	if err != nil {
		return nil, err
	}
	kept, err := newCopies()
	if err != nil {
		return nil, err
	}
	run := newRun(inForce, period, rating.Options{Frozen: frozen, Copy: func(tenant string) io.Writer {
		if len(q.Tenants) > 0 && !slices.Contains(q.Tenants, tenant) || len(state.chain(tenant, q.Period)) > 0 {
			return nil // its hash is all that is wanted
		}
		return kept.tenant(tenant)
	}})
	if err := readHours(ctx, r.deps.DB, from, to, run.add); err != nil {
		return nil, fmt.Errorf("finalise invoices of %s: %w", q.Period, err)
	}
	month, err := run.finish()
	if err != nil {
		return nil, fmt.Errorf("finalise invoices of %s: %w", q.Period, err)
	}
	documents, err := wanted(month, q)
	if err != nil {
		return nil, err
	}
	var all []Decided
	var errs []error
	bases := ledgerBases{db: r.deps.DB, of: map[[2]string]ledgerBasis{}}
	for i := range documents {
		one, err := r.finaliseOne(ctx, state, q, &documents[i], kept, &bases)
		if err != nil {
			errs = append(errs, fmt.Errorf("finalise invoice %s: %w", documents[i].Number, err))
			var conflict *ConflictError
			if !errors.As(err, &conflict) {
				break
			}
			continue // one tenant's trouble is none of the others'
		}
		all = append(all, one)
		if q.Progress != nil {
			q.Progress(i+1, len(documents))
		}
	}
	return all, errors.Join(errs...)
}

// wanted are the documents asked for, as they will stand.
func wanted(month *Month, q FinaliseRequest) ([]Invoice, error) {
	documents := slices.Clone(month.Invoices)
	for _, tenant := range q.Tenants {
		if !slices.ContainsFunc(documents, func(i Invoice) bool { return i.Tenant == tenant }) {
			return nil, fmt.Errorf("finalise invoice of tenant %q in %s: %w", tenant, q.Period, ErrNotFound)
		}
	}
	if len(q.Tenants) > 0 {
		documents = slices.DeleteFunc(documents, func(i Invoice) bool { return !slices.Contains(q.Tenants, i.Tenant) })
	}
	for i := range documents {
		documents[i].Status = StatusFinalised
	}
	return documents, nil
}

func (r *Register) finaliseOne(ctx context.Context, state decidedState, q FinaliseRequest, document *Invoice, kept *copies, bases *ledgerBases) (Decided, error) {
	if chain := state.chain(document.Tenant, document.Period); len(chain) > 0 {
		return decided(chain[0], true), nil
	}
	if n := len(document.Tenant); n > decisions.MaxTenantBytes {
		return Decided{}, &ConflictError{fmt.Sprintf("the tenant's name has %d bytes, an invoice's at most %d: map it to a shorter one", n, decisions.MaxTenantBytes)}
	}
	usage, err := kept.take(document.Tenant)
	if err != nil {
		return Decided{}, err
	}
	record, err := r.record(ctx, document, usage)
	if err != nil {
		return Decided{}, err
	}
	basis, err := bases.at(ctx, document)
	if err != nil {
		return Decided{}, err
	}
	record.Epoch, record.Inputs = basis.epoch, basis.inputs
	key := q.Key
	if key == "" {
		key = "invoice/" + request(document.Number) // names may have what a key may not
	}
	return r.decide(ctx, state, decisions.KindInvoice, key, q.Who, q.Approved, record)
}

// decide appends an invoice or a note, and tells who won.
func (r *Register) decide(ctx context.Context, state decidedState, kind decisions.Kind, key, who string, approved bool, record decisions.Invoice) (Decided, error) {
	if approved || r.deps.Approvals || state.policy().Approvals {
		approval, err := findApproval(state, record, who)
		if err != nil {
			return Decided{}, err
		}
		record.Approval = approval
	}
	outcome, err := r.deps.Decisions.Append(ctx, kind, key, request(string(kind), record.Tenant, record.Period, record.Corrects), who, &record)
	if err != nil {
		return Decided{}, err
	}
	if outcome.Accepted && outcome.Repeats < 0 {
		return decided(record, false), nil
	}
	stands, ok := state.invoice(record.Number)
	switch {
	case !ok:
		return Decided{}, &ConflictError{fmt.Sprintf("%s was refused: %s", record.Number, outcome.Reason)}
	case stands.Content.SHA256 != record.Content.SHA256:
		return Decided{}, &ConflictError{fmt.Sprintf("%s was decided meanwhile with another content, %s instead of %s",
			record.Number, stands.Content.SHA256, record.Content.SHA256)}
	}
	return decided(stands, true), nil
}

// request is the SHA-256 of what was asked: the same key with another request
// is refused.
func request(parts ...string) string {
	text, _ := json.Marshal(parts) // strings always encode
	return decisions.Digest(text)
}
