package invoice_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/invoice/invoicetest"
	"github.com/gputally/gputally/internal/decisions"
)

// decided copies what makes a number stand from one log to another, changed.
func decided(t *testing.T, from, to *decisions.Log, number string, change func(*decisions.Invoice)) {
	t.Helper()
	put := func(document decisions.Document) {
		content, err := from.Read(t.Context(), document)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := to.Put(t.Context(), content); err != nil {
			t.Fatal(err)
		}
	}
	err := from.Walk(t.Context(), 0, func(e decisions.Entry) error {
		switch body := e.Body.(type) {
		case *decisions.Freeze:
			put(body.Copy)
		case *decisions.Invoice:
			if body.Number != number {
				return nil
			}
			put(body.Content)
			put(body.Usage)
			change(body)
		case nil:
			return nil
		}
		outcome, err := to.Append(t.Context(), e.Record.Kind, e.Record.Key, e.Record.Request, e.Record.Who, e.Body)
		if err == nil && !outcome.Accepted {
			t.Errorf("%s was refused: %s", e.Record.Kind, outcome.Reason)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// C8: verify holds every figure of the decision against the document, which
// exports and coverage read it by.
func TestC8VerifySeesADecisionThatItsDocumentContradicts(t *testing.T) {
	r, db := register(t)
	finalise(t, r)
	for want, change := range map[string]func(*decisions.Invoice){
		"":                          func(*decisions.Invoice) {},
		"total 0.01":                func(i *decisions.Invoice) { i.Total = "0.01" },
		"gpu_hours 1":               func(i *decisions.Invoice) { i.GPUHours = "1" },
		"currency EUR":              func(i *decisions.Invoice) { i.Currency = "EUR" },
		"time_zone Asia/Tokyo":      func(i *decisions.Invoice) { i.TimeZone = "Asia/Tokyo" },
		"from 2026-03-01T01:00:00Z": func(i *decisions.Invoice) { i.From = i.From.Add(time.Hour) },
		"to 2026-03-31T23:00:00Z":   func(i *decisions.Invoice) { i.To = i.To.Add(-time.Hour) },
		"usage copy":                func(i *decisions.Invoice) { i.Usage = i.Content },
	} {
		other := invoicetest.Open(t, db, parse(t, registerBook), invoicetest.Broker(t))
		decided(t, r.Decisions, other.Decisions, "2026-03-a-r0", change)
		err := other.VerifyAll(t.Context(), func(v *invoice.Verdict) error {
			if v.Same != (want == "") || !strings.Contains(v.Wrong, want) {
				t.Errorf("verdict %+v, want %q", v, want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
