package decisions

import (
	"fmt"
	"time"

	"github.com/gputally/gputally/internal/fault"
)

// What a day may bring of a kind. The log keeps everything for ever, and every
// start reads all of it: a quota bounds what a client that runs wild, or means
// harm, can leave. The fold doesn't ask for it: append times are no part of what
// the chain covers, and a restored log has others (doc.go), so that a fold by time
// would come to another state. Whoever writes to the topic with other programs is
// seen by gputally_decisions_bytes.
const (
	quotaSpan = 24 * time.Hour
	// dailyBooks of up to 1 MiB.
	dailyBooks = 10
	// dailyPolicies is more than people change their minds.
	dailyPolicies = 20
	// dailyInvoices, and notes and approvals, is a month's end of a fleet of some
	// thousand tenants.
	dailyInvoices = 20_000
	// dailyOthers is of each other kind.
	dailyOthers = 2_000
)

// QuotaError is a decision that must wait.
type QuotaError struct {
	Kind  Kind
	Limit int
	Next  time.Time // when the next one is possible
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("%d of kind %s were decided within 24 hours, as many as are allowed: the next is possible at %s",
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

// and forgets what no quota asks for.
func (r recent) and(at time.Time) recent {
	for len(r) > 0 && at.Sub(r[0]) >= quotaSpan || len(r) >= dailyInvoices {
		r = r[1:]
	}
	return append(r, at)
}

// mayAppend fails with a *QuotaError where a kind's quota is used up, but for a
// request that was decided: its outcome is there.
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
