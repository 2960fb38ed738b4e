package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/billing/api"
	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/store"
)

// childVar makes the test binary a process that serves the API: a broker's
// address, a store's socket and its database, with spaces between.
const childVar = "GPUTALLY_TEST_API_CHILD"

func TestMain(m *testing.M) {
	if where := os.Getenv(childVar); where != "" {
		if err := serveChild(context.Background(), strings.Fields(where)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveChild answers until its standard input closes; it prints where.
func serveChild(ctx context.Context, where []string) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	client := broker.NewClient(broker.Config{Brokers: []string{where[0]}}, log)
	db, err := store.Open(ctx, store.Options{Address: "unix://" + where[1], Database: where[2]})
	if err != nil {
		return err
	}
	decided, err := decisions.Open(ctx, client, decisions.Options{})
	if err != nil {
		return err
	}
	register, err := invoice.NewRegister(invoice.RegisterDeps{
		DB: db, Decisions: decided, Book: prices.Default(), Clock: clock.Real(),
		Closed: func(context.Context, time.Time) error { return nil },
	})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	err = api.Mount(mux, api.Deps{
		Explain: explained,
		DB:      db, Register: register, Decisions: decided, Clock: clock.Real(), Log: log, Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends when the parent does
		_ = server.Close()
	}()
	fmt.Println(listener.Addr())
	if err := server.Serve(listener); err != http.ErrServerClosed { //nolint:errorlint // as documented
		return err
	}
	return nil
}

// child is a process that serves the API.
type child struct {
	url     string
	process *exec.Cmd
}

func startChild(t *testing.T, brokerAddr, socket, database string) *child {
	t.Helper()
	c := &child{process: exec.Command(os.Args[0])}
	c.process.Env = append(os.Environ(), childVar+"="+strings.Join([]string{brokerAddr, socket, database}, " "))
	c.process.Stderr = os.Stderr
	stdin, err := c.process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = c.process.Wait() // a child that was killed says so
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("start a process with the API: %v", err)
	}
	c.url = "http://" + strings.TrimSpace(line)
	return c
}

func (c *child) kill(t *testing.T) {
	t.Helper()
	if err := c.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
}
