package invoice_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/invoice/invoicetest"
	"github.com/gputally/gputally/internal/costtest"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

const registerBook = `currency: USD
versions:
- effective: 2026-01-01T00:00:00Z
  models: {H100: {gpu_hour: "2.49", tiers: [{above: "3", gpu_hour: "2.00"}]}}
  kwh: "0.28"
  idle_surcharge: "0.10"
  distribution: proportional
  tenants:
    a: {discount: "0.10", minimum: "1.00", reserved: [{model: H100, gpus: "2", unused_gpu_hour: "1.10"}]}
`

// fleet puts five hours of a month on three GPUs: a holds GPU-1, b GPU-2 (half

// of its second hour), GPU-3 is free.

func fleet(t *testing.T, db *store.DB) {
	t.Helper()
	for i := range 5 {
		hour := march.Add(time.Duration(i) * time.Hour)
		held := uint64(25_200_000)
		if i == 1 {
			held /= 2
		}
		usagetest.Insert(t, db,
			gpuHour(hour, "GPU-1", usagetest.Owner{Tenant: "a", Project: "p", Workload: "train", Active: 20_000_000, Idle: 5_200_000, EnergyMJ: 1_800_000_000}),
			gpuHour(hour, "GPU-2", usagetest.Owner{Tenant: "b", Workload: "serve", Active: held, EnergyMJ: 900_000_001}),
			gpuHour(hour, "GPU-3"),
		)
	}
}

func gpuHour(hour time.Time, gpu string, owners ...usagetest.Owner) usagetest.GPUHour {
	for i := range owners {
		owners[i].Leaf = gpu
	}
	return usagetest.GPUHour{Hour: hour, GPU: gpu, Node: "n1", Model: "H100", Slices: 7, Version: 1, Inputs: 360, Epoch: 1, Owners: owners}
}

// later is a GPU-hour as it is recomputed from more data.

func later(h usagetest.GPUHour) usagetest.GPUHour {
	h.Version, h.Inputs = h.Version+1, h.Inputs+1
	return h
}

func register(t *testing.T) (*invoicetest.Register, *store.DB) {
	t.Helper()
	db := emptyLedger(t)
	fleet(t, db)
	return invoicetest.Open(t, db, parse(t, registerBook), invoicetest.Broker(t)), db
}

func finalise(t *testing.T, r *invoicetest.Register, tenants ...string) []invoice.Decided {
	t.Helper()
	done, err := r.Finalise(t.Context(), invoice.FinaliseRequest{Period: "2026-03", Tenants: tenants, Who: "finance"})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func document(t *testing.T, r *invoicetest.Register, number string) []byte {
	t.Helper()
	content, err := r.Document(t.Context(), number)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// R20: a finalised invoice is the draft as it stood, and follows from its own

// copy of usage; finalising again changes nothing.

// R3: only closed hours can be finalised.

// A month of which nothing would come is refused before anything is decided for

// it: frozen as empty, it would stay so when its history is imported later.

// R17: late data after finalising leaves the invoice as it is; a note brings the

// difference, by the original's prices, distribution and supplied hours.

// R15: a tenant remapped retroactively gives one credit and one debit of equal

// list value.

// R17: what an hour's platform time was shared as is frozen by the first

// invoice: a tenant finalised later gets its part, whatever came meanwhile.

// R6: of many who finalise at once, from two registers on one topic, exactly one

// decides each invoice, and all of them are told the same.

// R6, R20: where approvals are wanted, somebody else must have seen these bytes.

// R19: a published book counts for drafts from then on; what was finalised

// keeps its own, and so do its notes.

func TestR19PublishedBooksLeaveFinalisedInvoicesAlone(t *testing.T) {
	r, db := register(t)
	finalise(t, r, "a")
	original := document(t, r, "2026-03-a-r0")
	dearer := parse(t, strings.ReplaceAll(registerBook, `"2.49"`, `"9.99"`))
	for _, want := range []bool{true, false} {
		published, err := r.Publish(t.Context(), dearer, "finance", "")
		if err != nil || published != want {
			t.Fatalf("Publish = %v, %v, want %v", published, err, want)
		}
	}
	month, err := r.List(t.Context(), "2026-03")
	if err != nil {
		t.Fatal(err)
	}
	if month.Invoices[1].PriceHash != dearer.Hash || month.Invoices[0].PriceHash == dearer.Hash {
		t.Errorf("price books %s and %s", month.Invoices[0].PriceHash, month.Invoices[1].PriceHash)
	}
	if !bytes.Equal(original, document(t, r, "2026-03-a-r0")) {
		t.Error("the finalised invoice changed")
	}
	usagetest.Insert(t, db, later(gpuHour(march, "GPU-1")))
	found, err := r.Adjustments(t.Context(), "2026-03")
	if err != nil || len(found) != 1 || found[0].Note.PriceHash == dearer.Hash || found[0].Note.Effects.List.String() != "-2.49" {
		t.Errorf("adjustments %+v, %v, want the old price", found, err)
	}
}

// A line goes back to GPU-hours and to the batches that say so, and hours that

// moved since are named.

// C7d: every tenant's hour with usage is in one invoice, in none, or pending.

// Bills of a month are its invoices and the notes billed in it; their charges

// sum to their totals.

// R6: an approval asked for again with its key is the same one, though the draft

// has changed since; the key is nobody else's.

// R17, R19: a book that would change the currency of the fleet, or the zone of a

// tenant with a finalised invoice, is refused by name.

func TestR19BooksThatDontFitWhatStandsAreRefused(t *testing.T) {
	r, _ := register(t)
	finalise(t, r, "a")
	for text, want := range map[string]string{
		strings.Replace(registerBook, "USD", "EUR", 1):                                            "currency is EUR, the finalised invoice 2026-03-a-r0 is in USD",
		registerBook + "tenants: {a: {time_zone: Asia/Tokyo}}\n":                                  `time zone of tenant "a" is Asia/Tokyo`,
		strings.Replace(registerBook, "currency: USD", "currency: USD\ntime_zone: Asia/Tokyo", 1): `its finalised invoice 2026-03-a-r0 is in UTC`,
	} {
		_, err := r.Publish(t.Context(), parse(t, text), "finance", "")
		var conflict *invoice.ConflictError
		if !errors.As(err, &conflict) || !strings.Contains(err.Error(), want) {
			t.Errorf("Publish = %v, want %q", err, want)
		}
	}
	if _, err := r.Publish(t.Context(), parse(t, registerBook+"tenants: {b: {time_zone: Asia/Tokyo}}\n"), "finance", ""); err != nil {
		t.Errorf("a zone of a tenant without invoices: %v", err)
	}
}

// An adjustment that the invoice's own book can't price is shown with what is

// missing, beside the others, and can't be decided.

// R6: a book published again with a key that published it once is not in force
// again; who sends it is told.
func TestR6APublishedBooksKeyIsUsedUp(t *testing.T) {
	r, _ := register(t)
	for _, p := range []struct{ key, text string }{{"k1", registerBook}, {"k2", twoPrices}} {
		if published, err := r.Publish(t.Context(), parse(t, p.text), "x", p.key); err != nil || !published {
			t.Fatalf("Publish = %v, %v", published, err)
		}
	}
	published, err := r.Publish(t.Context(), parse(t, registerBook), "x", "k1")
	var conflict *invoice.ConflictError
	if published || !errors.As(err, &conflict) {
		t.Errorf("Publish = %v, %v, want to be told that another book is in force", published, err)
	}
	if b, err := r.Book(t.Context()); err != nil || b.Hash != parse(t, twoPrices).Hash {
		t.Errorf("in force is %v, %v", b, err)
	}
}

// TestH7APublishedBookWithAliases: one from before they were refused is refused
// with a sentence, the decisions are read on, and another one can be published.
func TestH7APublishedBookWithAliases(t *testing.T) {
	db, broker := storetest.Open(t), invoicetest.Broker(t)
	configured := parse(t, registerBook)
	r := invoicetest.Open(t, db, configured, broker)
	text := "currency: &c USD\nversions: []\n# *c\n"
	sum := sha256.Sum256([]byte(text))
	body := &decisions.PriceBook{SHA256: hex.EncodeToString(sum[:]), Name: "old.yaml", Text: text}
	if _, err := r.Decisions.Append(t.Context(), decisions.KindPriceBook, "old", body.SHA256, "ann", body); err != nil {
		t.Fatal(err)
	}
	r = invoicetest.Open(t, db, configured, broker)
	if _, err := r.Book(t.Context()); err == nil || !strings.Contains(err.Error(), "old.yaml:1: anchors and aliases are not supported") {
		t.Errorf("book in force: %v, want the alias named", err)
	}
	if r.Known() != configured {
		t.Error("the configured book doesn't count where the published one can't be read")
	}
	next := parse(t, strings.Replace(registerBook, "2.49", "2.50", 1))
	if published, err := r.Publish(t.Context(), next, "ann", ""); err != nil || !published {
		t.Fatalf("publish: %t, %v", published, err)
	}
	if book, err := r.Book(t.Context()); err != nil || book.Hash != next.Hash {
		t.Errorf("book in force: %v, want the new one", err)
	}
}

// TestH7BooksAreParsedOnce: whoever asks, also many at once.
func TestH7BooksAreParsedOnce(t *testing.T) {
	r := invoicetest.Open(t, storetest.Open(t), parse(t, registerBook), invoicetest.Broker(t))
	var skus strings.Builder
	for i := range 15_000 {
		fmt.Fprintf(&skus, "s%[1]d: {profile: p%[1]d},", i)
	}
	large := parse(t, registerBook+"skus: {"+skus.String()+"}\n")
	if _, err := r.Publish(t.Context(), large, "ann", ""); err != nil {
		t.Fatal(err)
	}
	first, err := r.Book(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	costtest.Within(t, time.Minute, 64<<20, func() {
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if book, err := r.Book(t.Context()); err != nil || book != first {
					t.Errorf("another book, or %v", err)
				}
			})
		}
		all.Wait()
	})
}
