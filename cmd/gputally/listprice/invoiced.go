package listprice

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/ingest/explain"
	"github.com/gputally/gputally/internal/plural"
)

// Invoiced is a line as its document has it, and what changed since the document was decided: the explanation is of
// the ledger's usage now, its price is by the document's price book.
type Invoiced struct {
	Invoice   string `json:"invoice"`
	Line      int    `json:"line"`
	Quantity  string `json:"quantity"`
	Unit      string `json:"unit"`
	UnitPrice string `json:"unit_price"`
	Amount    string `json:"amount"`
	Currency  string `json:"currency"`
	PriceBook string `json:"price_book_sha256"`
	// InForce is the SHA-256 of the price book in force, if it is another one.
	InForce string `json:"price_book_in_force_sha256,omitempty"`
	// Moved are the line's UTC hours with other usage in the ledger than in the document; ThisHour: the explained hour
	// is one of them.
	Moved    []string `json:"changed_hours"`
	ThisHour bool     `json:"this_hour_changed"`
	// Notes are the later notes on the document.
	Notes []string `json:"notes"`
}

// InvoicedOf describes the line of an evidence; hour is the explained one, as the evidence writes it.
func InvoicedOf(e *invoice.Evidence, inForce *prices.Book, hour string) *Invoiced {
	i := &Invoiced{
		Invoice: e.Number, Line: e.LineNumber, Quantity: e.Line.Quantity.String(), Unit: e.Line.Unit,
		UnitPrice: e.Line.UnitPrice.String(), Amount: e.Line.Amount.String(), Currency: e.Book.Currency,
		PriceBook: e.Book.Hash, Moved: e.Moved, ThisHour: slices.Contains(e.Moved, hour),
		Notes: append([]string{}, e.Notes...),
	}
	if inForce.Hash != e.Book.Hash {
		i.InForce = inForce.Hash
	}
	return i
}

// Text is a paragraph for a terminal.
func (i *Invoiced) Text() string {
	text := fmt.Sprintf("invoiced: line %d of %s, %s %s × %s = %s %s, by the price book %s, which the price below "+
		"follows, too", i.Line, i.Invoice, i.Quantity, i.Unit, i.UnitPrice, i.Amount, i.Currency, i.PriceBook)
	if i.InForce != "" {
		text += "; the price book in force is another one now, " + i.InForce
	}
	if len(i.Moved) > 0 {
		hour := "not in this one"
		if i.ThisHour {
			hour = "this one too"
		}
		text += fmt.Sprintf("; the usage changed since in %s of the line, %s: below is the usage of now",
			plural.Of(len(i.Moved), "hour"), hour)
	}
	if len(i.Notes) > 0 {
		text += "; later notes on the invoice: " + strings.Join(i.Notes, ", ")
	}
	return explain.Wrap(text+".", 0) + "\n"
}
