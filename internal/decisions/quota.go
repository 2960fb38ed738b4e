package decisions

import (
	"fmt"
	"time"

	"github.com/gputally/gputally/internal/fault"
)

// Quotas bound the number of decisions of each kind in a day. The log keeps everything
// for ever, and every start reads all of it: a quota bounds the damage of a faulty or
// malicious client. The fold doesn't apply quotas: append times are not covered by the
// chain, and a restored log has others (doc.go), so a fold that depends on time would
// reach another state. Writing to the topic with other programs is visible in
// gputally_decisions_bytes.
const (
	quotaSpan = 24 * time.Hour
	// dailyBooks is for books of up to 1 MiB.
	dailyBooks = 10
	// dailyPolicies is far above any sensible use.
	dailyPolicies = 20
	// dailyInvoices, also for notes and approvals, suits the end of a month for some
	// thousand tenants.
	dailyInvoices = 20_000
	// dailyOthers is for each other kind.
	dailyOthers = 2_000
)

// QuotaError reports a decision that must wait.
type QuotaError struct {
	Kind  Kind
	Limit int
	Next  time.Time // when the next one is possible
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("the limit of %d decisions of kind %s in 24 hours is reached: the next is possible at %s",
		e.Limit, e.Kind, e.Next.UTC().Format(time.RFC3339))
}

// Class is fault.Limited.
func (*QuotaError) Class() fault.Class { return fault.Limited }

func (o *Options) quota(kind Kind) int {
	switch kind {
	case KindPriceBook:
		if o.PriceBooksPerDay > 0 {
			return o.PriceBooksPerDay
		}
		return dailyBooks
	case KindPolicy:
		return dailyPolicies
	case KindInvoice, KindNote, KindApproval:
		return dailyInvoices
	}
	return dailyOthers
}

// recent are the append times of a kind's last messages, at most dailyInvoices.
type recent []time.Time

// and adds a time, and drops those that no quota needs.
func (r recent) and(at time.Time) recent {
	for len(r) > 0 && at.Sub(r[0]) >= quotaSpan || len(r) >= dailyInvoices {
		r = r[1:]
	}
	return append(r, at)
}

// mayAppend returns a *QuotaError if a kind's quota is used up. A repeated request is
// exempt: it returns the outcome of the first.
func (l *Log) mayAppend(kind Kind, key, request string) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if first, ok := l.state.keys[key]; ok && first.kind == kind && first.request == request {
		return nil
	}
	limit, list := l.opt.quota(kind), l.state.recent[kind]
	if len(list) < limit {
		return nil
	}
	if next := list[len(list)-limit].Add(quotaSpan); l.opt.Clock.Now().Before(next) {
		return &QuotaError{kind, limit, next}
	}
	return nil
}
