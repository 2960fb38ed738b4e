package decisions

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

var start = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)

func at(hours int) time.Time { return start.Add(time.Duration(hours) * time.Hour) }

// wireMessage is a message as it lies in the topic.
type wireMessage struct{ key, value []byte }

// recordOf is a record of a kind under a key, by a person, with a request of its
// body's hash.
func recordOf(tb testing.TB, kind Kind, key, who string, b any) Record {
	tb.Helper()
	text, err := json.Marshal(b)
	if err != nil {
		tb.Fatal(err)
	}
	return Record{Format: Format, Kind: kind, ID: "id-" + key, Key: key, Request: Digest(text), Who: who, At: start, Body: text}
}

func messageOf(tb testing.TB, r Record) wireMessage {
	tb.Helper()
	value, err := json.Marshal(&r)
	if err != nil {
		tb.Fatal(err)
	}
	return wireMessage{[]byte(r.Kind), value}
}

func partOf(data string) wireMessage {
	return wireMessage{[]byte(Digest([]byte(data))), []byte(data)}
}

// documentOf is a document of one part.
func documentOf(data string) Document {
	return Document{SHA256: Digest([]byte(data)), Bytes: int64(len(data)), Parts: []string{Digest([]byte(data))}}
}

const bookText = "currency: EUR\n"

func bookOf(text string) PriceBook {
	return PriceBook{SHA256: Digest([]byte(text)), Name: "prices.yaml", Text: text}
}

func freezeOf(from, to int) Freeze {
	return Freeze{From: at(from), To: at(to), PriceBook: Digest([]byte(bookText)), Copy: documentOf("frozen")}
}

// invoiceOf is the invoice of October; documents "content" and "usage".
func invoiceOf(tenant string) Invoice {
	return Invoice{
		Number: Number("2026-10", tenant, 0), Kind: InvoiceKind, Tenant: tenant, Period: "2026-10",
		TimeZone: "Europe/Berlin", From: at(0), To: at(744), Currency: "EUR", Total: "120.50", GPUHours: "12.5",
		PriceBook: Digest([]byte(bookText)), Content: documentOf("content"), Usage: documentOf("usage"), Epoch: 1, Inputs: 7,
	}
}

// noteOf is the next note on an invoice or note.
func noteOf(before Invoice, total string) Invoice {
	n := before
	n.Revision++
	n.Number, n.Kind, n.Total = Number(n.Period, n.Tenant, n.Revision), CreditNoteKind, total
	n.Corrects, n.Before, n.BilledIn, n.Reason = before.Number, before.Content.SHA256, "2026-11", "late batches"
	n.Content = documentOf(fmt.Sprintf("content of revision %d", n.Revision))
	return n
}

// folded is a state, and the messages it came from.
type folded struct {
	tb    testing.TB
	state *State
	msgs  []wireMessage
}

// appendedAt is when the broker took the message of an offset.
func appendedAt(offset int64) time.Time { return at(744).Add(time.Duration(offset) * time.Second) }

func (f *folded) apply(m wireMessage) Outcome {
	f.msgs = append(f.msgs, m)
	n := f.state.Next()
	return f.state.Apply(n, appendedAt(n), m.key, m.value)
}

// record applies a record whose key is its kind and offset.
func (f *folded) record(kind Kind, who string, b any) Outcome {
	f.tb.Helper()
	return f.apply(messageOf(f.tb, recordOf(f.tb, kind, fmt.Sprintf("%s-%d", kind, f.state.Next()), who, b)))
}

func (f *folded) must(out Outcome) Outcome {
	f.tb.Helper()
	if !out.Accepted {
		f.tb.Fatalf("offset %d was refused: %s", out.Offset, out.Reason)
	}
	return out
}

// prepared has a book, parts, and October frozen.
func prepared(tb testing.TB) *folded {
	f := &folded{tb: tb, state: NewState()}
	f.must(f.record(KindPriceBook, "alice", bookOf(bookText)))
	for _, data := range []string{"frozen", "content", "usage", "content of revision 1", "content of revision 2", "content of revision 3"} {
		f.must(f.apply(partOf(data)))
	}
	f.must(f.record(KindFreeze, "billing", freezeOf(0, 500)))
	f.must(f.record(KindFreeze, "billing", freezeOf(500, 744)))
	return f
}
