package programtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/gputally/gputally/cmd/gputally/commands"
)

// Service is a command that runs in the background.
type Service struct {
	Url  string
	Stop func() int // interrupts it and returns its exit code
}

var listening = regexp.MustCompile(`msg=listening address=(\S+)`)

// Start runs a service and returns when it listens. It is stopped when the test ends,
// unless Stop was called.
func Start(t *testing.T, args ...string) Service {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- commands.Run(ctx, append(args, "--listen", "127.0.0.1:0"), strings.NewReader(""), io.Discard, writer)
		_ = writer.Close() // the reader sees the end
	}()
	stopped := false
	stop := func() int {
		stopped = true
		cancel()
		return <-code
	}
	t.Cleanup(func() {
		if !stopped {
			stop()
		}
	})
	address, log := make(chan string, 1), bufio.NewScanner(reader)
	go func() {
		defer close(address)
		for log.Scan() {
			_, _ = fmt.Fprintln(t.Output(), log.Text())
			if found := listening.FindStringSubmatch(log.Text()); found != nil {
				address <- found[1]
			}
		}
	}()
	at, ok := <-address
	if !ok {
		t.Fatalf("gputally %s: ended with %d before it listened", strings.Join(args, " "), <-code)
	}
	return Service{"http://" + at, stop}
}

// Fetch returns the status and body of a URL.
func Fetch(t *testing.T, address string) (int, string) {
	t.Helper()
	client := &http.Client{}
	defer client.CloseIdleConnections()
	resp, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
