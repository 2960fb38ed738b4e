package datadir

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/strangertest"
)

func attachOptions(c clock.Clock) AttachOptions {
	return AttachOptions{
		Self: Holder{Command: "gputally usage"}, Clock: c, Log: slog.New(slog.DiscardHandler),
		Wait: time.Second,
	}
}

func TestAttachTakesAFreeDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	_, err := Attach(t.Context(), path, attachOptions(clock.Real()))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("attach to nothing: got %v", err)
	}
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	got, err := Attach(t.Context(), path, attachOptions(clock.Real()))
	if err != nil || got.Own == nil {
		t.Fatalf("attach to a free directory: got %+v, %v", got, err)
	}
	if err := got.Own.Close(); err != nil {
		t.Error(err)
	}
}

func TestAttachUsesTheRunningEngine(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "data"))
	socket := filepath.Join(d.TempDir(), "engine.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := d.Publish(Run{EngineSocket: socket, BrokerAddress: "127.0.0.1:9092"}); err != nil {
		t.Fatal(err)
	}
	got, err := Attach(t.Context(), d.Path(), attachOptions(clock.Real()))
	if err != nil || got.Own != nil || got.Run.EngineSocket != socket || got.Run.BrokerAddress != "127.0.0.1:9092" {
		t.Errorf("attach to a running process: got %+v, %v", got, err)
	}
}

// A socket that another user made where run.json says gets none of what a command has.
func TestAttachHangsUpOnAnotherUser(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "data"))
	if err := d.Publish(Run{EngineSocket: strangertest.Listen(t)}); err != nil {
		t.Fatal(err)
	}
	options := attachOptions(clock.Real())
	options.Wait = 0
	if got, err := Attach(t.Context(), d.Path(), options); err == nil {
		t.Errorf("attached to %+v", got)
	}
}

// attachAfterWaiting starts Attach on a fake clock, calls change once it waits,
// and then lets the whole wait pass.
func attachAfterWaiting(t *testing.T, d *Dir, change func()) (Attachment, error) {
	t.Helper()
	fake := clock.NewFake(started)
	type answer struct {
		got Attachment
		err error
	}
	done := make(chan answer, 1)
	go func() {
		got, err := Attach(t.Context(), d.Path(), attachOptions(fake))
		done <- answer{got, err}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := fake.BlockUntil(ctx, 1); err != nil {
		t.Fatalf("attach does not wait: %v", err)
	}
	change()
	fake.Advance(time.Second)
	a := <-done
	return a.got, a.err
}

func TestAttachWaitsForTheHolderToEnd(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "data"))
	got, err := attachAfterWaiting(t, d, func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if err != nil || got.Own == nil {
		t.Fatalf("attach after the holder ended: got %+v, %v", got, err)
	}
	if err := got.Own.Close(); err != nil {
		t.Error(err)
	}
}

func TestAttachGivesUpNamingTheHolder(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "data"))
	_, err := attachAfterWaiting(t, d, func() {})
	if err == nil || !strings.Contains(err.Error(), "(gputally standalone)") || !strings.Contains(err.Error(),
		"hasn't published its addresses") {
		t.Errorf("attach to a holder that serves nothing: got %v", err)
	}
	_, err = attachAfterWaiting(t, d, func() {
		if err := d.Publish(Run{EngineSocket: filepath.Join(d.TempDir(), "dead.sock")}); err != nil {
			t.Error(err)
		}
	})
	if err == nil || !strings.Contains(err.Error(), "its engine does not answer") || !strings.Contains(err.Error(),
		"process ") {
		t.Errorf("attach to a dead engine: got %v", err)
	}
}
