package broker

import (
	"context"
	"log/slog"
	"testing"
	"time"
)

// TestEmbeddedBrokerWantsItsPassword: without it the broker tells and takes nothing.
func TestEmbeddedBrokerWantsItsPassword(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // as it is started again, too
		testPassword(t, dir)
	}
}

func testPassword(t *testing.T, dir string) {
	t.Helper()
	embedded, err := StartEmbedded(EmbeddedOptions{Dir: dir, Protected: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := embedded.Close(); err != nil {
			t.Error(err)
		}
	}()
	try := func(password string) error {
		cfg := DefaultConfig()
		cfg.Brokers, cfg.SASL = []string{embedded.Addr()}, EmbeddedSASL(password)
		client := NewClient(cfg, slog.New(slog.DiscardHandler))
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		return client.EnsureTopics(ctx)
	}
	for _, wrong := range []string{"", "wrong"} {
		if err := try(wrong); err == nil {
			t.Errorf("a client with the password %q was let in", wrong)
		}
	}
	if err := try(embedded.Password()); err != nil {
		t.Error(err)
	}
}
