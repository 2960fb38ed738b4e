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

// Reason is why a request to decide something was refused. In every case nothing was appended for the request.
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
	ReasonQuota       Reason = "quota"          // *decisions.QuotaError: retry on a later day
	ReasonKey         Reason = "key"            // of a *ConflictError, like all below: used for another request
	ReasonExpected    Reason = "expected"       // the content hash is missing or invalid
	ReasonName        Reason = "tenant_name"
	ReasonApproval    Reason = "approval"
	ReasonRecord      Reason = "record" // a field of the record, or an earlier document, contradicts it
	ReasonLost        Reason = "hours_lost"
	ReasonBook        Reason = "price_book" // its currency or a tenant's zone differs from that of the invoices
	ReasonRace        Reason = "race"       // another process was first, repeatedly
)

// ReasonOf returns why an error refuses a request; false: it is a failure, after which a decision may have been made.
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

// general returns whether an error of one document would also occur for all following ones: a failure, or a quota.
func general(err error) bool {
	reason, refused := ReasonOf(err)
	return !refused || reason == ReasonQuota
}

// ErrNotFound means that a tenant has no invoice in the month.
var ErrNotFound = fault.New(fault.NotFound, "no invoice")

// ErrNoUsage means that the ledger has no hour of a month. Nothing of it is frozen, since its history may still be
// imported, unless FinaliseRequest.WithoutUsage is set.
var ErrNoUsage = fmt.Errorf("%w: the ledger has no hour of the month", ErrNotFound)

// ErrNothingToAdjust is the error of a correction of an invoice whose usage has not changed.
var ErrNothingToAdjust = fault.New(fault.Conflict, "nothing to adjust")

// ViolationError means that a part of C7 doesn't hold in a month; it has no documents.
type ViolationError struct{ err error }

func (e *ViolationError) Error() string { return e.err.Error() }

func (e *ViolationError) Unwrap() error { return e.err }

// OpenHoursError means that a month can't be finalised yet.
type OpenHoursError struct {
	// To is the end of the hours that have to be closed, Why what is missing.
	To  time.Time
	Why string
}

// Class is fault.Conflict.
func (*OpenHoursError) Class() fault.Class { return fault.Conflict }

// Error contains since when, or what is missing.
func (e *OpenHoursError) Error() string {
	return fmt.Sprintf("the hours before %s are not closed yet: %s", e.To.UTC().Format(time.RFC3339), e.Why)
}

// ConflictError means that something contradicts a decision.
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

// MovedError means that a document is not, or no longer, the expected one.
type MovedError struct {
	Number string
	// Expected and Content are SHA-256s, in hex; Expected may be a prefix.
	Expected, Content string
	// Total, in Currency, is the current document's.
	Total, Currency string
}

// Class is fault.Changed.
func (*MovedError) Class() fault.Class { return fault.Changed }

// Error contains both hashes and the current total.
func (e *MovedError) Error() string {
	return fmt.Sprintf("%s has content %s over %s %s, expected was %s: review it again",
		e.Number, e.Content, e.Total, e.Currency, e.Expected)
}

// minExpected is how many hex digits of a SHA-256 identify a content: 64 bits can't match by chance.
const minExpected = 16

// expected returns an error unless a document is the expected one; an empty expect matches any.
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
