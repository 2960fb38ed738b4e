package invoice_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputally/gputally/billing/invoice/invoicetest"
	"github.com/gputally/gputally/internal/costtest"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/store/storetest"
)

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
