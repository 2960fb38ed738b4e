package invoicetest

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions"
)

// Broker starts an embedded broker in a new folder of the test.
func Broker(t testing.TB) *broker.Embedded {
	t.Helper()
	b, err := broker.StartEmbedded(broker.EmbeddedOptions{Dir: t.TempDir(), Log: quiet()})
	if err != nil {
		t.Fatalf("start broker: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close broker: %v", err)
		}
	})
	return b
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// Decisions opens the log of decisions on a broker.
func Decisions(t testing.TB, b *broker.Embedded, c clock.Clock) *decisions.Log {
	t.Helper()
	client := broker.NewClient(broker.Config{Brokers: []string{b.Addr()}}, quiet())
	t.Cleanup(client.Close)
	log, err := decisions.Open(t.Context(), client, decisions.Options{Clock: c, PriceBooksPerDay: 10_000})
	if err != nil {
		t.Fatalf("open decisions: %v", err)
	}
	return log
}

// Register is a register under test.
type Register struct {
	*invoice.Register
	Decisions *decisions.Log
	Clock     *clock.Fake
	// ClosedUntil is the end of the closed hours.
	ClosedUntil time.Time
}

// Open opens a register on a broker. All hours are closed, and the clock is at 10
// November 2026.
func Open(t testing.TB, db invoice.DB, book *prices.Book, b *broker.Embedded) *Register {
	t.Helper()
	r := &Register{
		Clock:       clock.NewFake(time.Date(2026, 11, 10, 12, 0, 0, 0, time.UTC)),
		ClosedUntil: time.Date(2106, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	r.Decisions = Decisions(t, b, r.Clock)
	var err error
	r.Register, err = invoice.NewRegister(invoice.RegisterDeps{
		DB: db, Decisions: r.Decisions, Book: book, Closed: r.closed, Clock: r.Clock,
	})
	if err != nil {
		t.Fatalf("make register: %v", err)
	}
	return r
}

func (r *Register) closed(_ context.Context, to time.Time) error {
	if r.ClosedUntil.Before(to) {
		return &invoice.OpenHoursError{To: to, Why: "closed until " + r.ClosedUntil.Format(time.RFC3339)}
	}
	return nil
}
