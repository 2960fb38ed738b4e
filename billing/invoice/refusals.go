package invoice

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/fault"
)

// Reason is why a request to decide something was refused. Whatever the reason,
// nothing was appended for the request.
type Reason = rating.Reason

// The reasons.
const (
	ReasonOpen        Reason = "open_hours"     // *OpenHoursError
	ReasonNoRate      Reason = "no_rate"        // the price book lacks a model or begins later
	ReasonUnequal     Reason = "not_conserved"  // *ViolationError
	ReasonNoUsage     Reason = "no_usage"       // ErrNoUsage
	ReasonNothing     Reason = "no_invoice"     // ErrNotFound
	ReasonUnmoved     Reason = "nothing_to_do"  // ErrNothingToAdjust
	ReasonMoved       Reason = "moved"          // *MovedError
	ReasonDeleted     Reason = "decisions_lost" // decisions.ErrDeleted
	ReasonQuarantined Reason = "quarantined"    // of a *ConflictError: an hour of the tenant can't be billed
	ReasonQuota       Reason = "quota"          // *decisions.QuotaError: a later day may decide it
	ReasonKey         Reason = "key"            // of a *ConflictError, as all below: another request's key
	ReasonExpected    Reason = "expected"       // no content hash, or none that is one
	ReasonName        Reason = "tenant_name"
	ReasonApproval    Reason = "approval"
	ReasonRecord      Reason = "record" // a field of the record, or an earlier document, is against it
	ReasonLost        Reason = "hours_lost"
	ReasonBook        Reason = "price_book" // its currency or a tenant's zone is not that of the invoices
	ReasonRace        Reason = "race"       // another process was first, again and again
)

// ReasonOf says why an error refuses a request; false: it is a failure, after
// which a decision may have been made.
func ReasonOf(err error) (Reason, bool) {
	if conflict, ok := errors.AsType[*ConflictError](err); ok {
		return conflict.Reason, true
	}
	for _, r := range []struct {
		is     bool
		reason Reason
	}{
		{is[*decisions.QuotaError](err), ReasonQuota},
		{is[*MovedError](err), ReasonMoved},
		{is[*OpenHoursError](err), ReasonOpen},
		{is[*ViolationError](err), ReasonUnequal},
		{rating.NoRate(err), ReasonNoRate},
		{errors.Is(err, ErrNoUsage), ReasonNoUsage},
		{errors.Is(err, ErrNothingToAdjust), ReasonUnmoved},
		{errors.Is(err, ErrNotFound), ReasonNothing},
		{errors.Is(err, decisions.ErrDeleted), ReasonDeleted},
	} {
		if r.is {
			return r.reason, true
		}
	}
	return "", false
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// general says that what stands against one document stands against all that
// would follow it: a failure, or a quota.
func general(err error) bool {
	reason, refused := ReasonOf(err)
	return !refused || reason == ReasonQuota
}

// ErrNotFound is a tenant without an invoice in the month.
var ErrNotFound = fault.New(fault.NotFound, "no invoice")

// ErrNoUsage is a month of which the ledger has no hour. Nothing is frozen of
// it: its history may yet be imported. FinaliseRequest.WithoutUsage means it.
var ErrNoUsage = fmt.Errorf("%w: the ledger has no hour of the month", ErrNotFound)

// ErrNothingToAdjust is a correction of an invoice whose usage is what it was.
var ErrNothingToAdjust = fault.New(fault.Conflict, "nothing to adjust")

// ViolationError is a month in which a part of C7 doesn't hold; it has no
// documents.
type ViolationError struct{ err error }

func (e *ViolationError) Error() string { return e.err.Error() }

func (e *ViolationError) Unwrap() error { return e.err }

// OpenHoursError is a month that can't be finalised yet.
type OpenHoursError struct {
	// To is the end of the hours that have to be closed, Why what is missing.
	To  time.Time
	Why string
}

// Class is fault.Conflict.
func (*OpenHoursError) Class() fault.Class { return fault.Conflict }

// Error says since when, or for want of what.
func (e *OpenHoursError) Error() string {
	return fmt.Sprintf("the hours before %s are not closed yet: %s", e.To.UTC().Format(time.RFC3339), e.Why)
}

// ConflictError is a decision that something stands against.
type ConflictError struct {
	Reason Reason
	Why    string
}

func (e *ConflictError) Error() string { return e.Why }

// Class is fault.Conflict.
func (*ConflictError) Class() fault.Class { return fault.Conflict }

func conflict(reason Reason, format string, args ...any) error {
	return &ConflictError{Reason: reason, Why: fmt.Sprintf(format, args...)}
}

// MovedError is a document that is not, or no longer, the one that was expected.
type MovedError struct {
	Number string
	// Expected and Content are SHA-256s, in hex; Expected may be its beginning.
	Expected, Content string
	// Total, in Currency, is the present document's.
	Total, Currency string
}

// Class is fault.Changed.
func (*MovedError) Class() fault.Class { return fault.Changed }

// Error names both contents and the present total.
func (e *MovedError) Error() string {
	return fmt.Sprintf("%s has the content %s over %s %s, expected was %s: look at it again",
		e.Number, e.Content, e.Total, e.Currency, e.Expected)
}

// minExpected is how many hex digits of a SHA-256 name a content: 64 bits, which
// nobody meets by chance.
const minExpected = 16

// expected fails unless a document is the one that was expected; whoever expects
// nothing takes any.
func expected(d Decided, expect string) error {
	switch {
	case expect == "":
		return nil
	case len(expect) < minExpected || len(expect) > len(d.Content) || strings.Trim(expect, "0123456789abcdef") != "":
		return conflict(ReasonExpected,
			"the expected content is %.80q: want the document's SHA-256, or %d hex digits of it or more",
			expect, minExpected)
	case !strings.HasPrefix(d.Content, expect):
		return &MovedError{Number: d.Number, Expected: expect, Content: d.Content, Total: d.Total, Currency: d.Currency}
	}
	return nil
}
