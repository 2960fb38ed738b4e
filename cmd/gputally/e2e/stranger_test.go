package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/placetest"
	"github.com/gputally/gputally/internal/strangertest"
)

// strangerEnv makes the test binary the child of TestC1AnotherUserReachesHTTPAlone:
// it has a target on each line, "tcp ADDRESS", "post ADDRESS", "unix PATH" or "file
// PATH".
const strangerEnv = "GPUTALLY_TEST_STRANGER_TARGETS"

// tryTargets prints each target with what another user gets of it.
func tryTargets(targets string) {
	for target := range strings.Lines(targets) {
		target = strings.TrimSpace(target)
		kind, name, _ := strings.Cut(target, " ")
		yields := "opened"
		var err error
		switch kind {
		case "file":
			var f *os.File
			if f, err = os.Open(name); err == nil {
				_, err = f.Stat()
			}
		case "post":
			yields, err = converse("tcp", name, decisionOverHTTP)
		default:
			yields, err = converse(kind, name, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
		}
		if errors.Is(err, fs.ErrPermission) {
			yields = "no permission"
		} else if err != nil {
			yields = "nothing: " + err.Error()
		}
		fmt.Printf("%s: %s\n", target, yields)
	}
}

const refusedHTTP = "HTTP/1.1 403"

const decisionOverHTTP = "POST /api/v1/invoices HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
	"application/json\r\nIdempotency-Key: k\r\n" +
	"Content-Length: 47\r\n\r\n" + `{"period":"2026-03","tenant":"a","who":"alice"}`

// converse asks as a browser would, and says what the answer begins with.
func converse(network, address, request string) (string, error) {
	conn, err := (&net.Dialer{Timeout: programtest.Patience}).DialContext(context.Background(), network, address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(clock.Real().Now().Add(programtest.Patience))
	if _, err := io.WriteString(conn, request); err != nil {
		return "", err
	}
	answer := make([]byte, len("HTTP/1.1 200"))
	n, err := conn.Read(answer)
	return string(answer[:n]), err
}

// socketsOf lists what processes listen on, or are bound to.
func socketsOf(t *testing.T, pids ...int) (targets []string) {
	t.Helper()
	inodes := map[string]bool{}
	for _, pid := range pids {
		fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			link, _ := os.Readlink(fd) // it may be closed by now
			if inode, ok := strings.CutPrefix(link, "socket:["); ok {
				inodes[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	const listens = "0A"
	for _, table := range []string{"tcp", "tcp6"} {
		for line := range strings.Lines(string(placetest.ReadFile(t, "/proc/net/"+table))) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != listens || !inodes[f[9]] {
				continue
			}
			_, port, _ := strings.Cut(f[1], ":")
			n, err := strconv.ParseUint(port, 16, 16)
			if err != nil {
				t.Fatal(err)
			}
			targets = append(targets, fmt.Sprintf("tcp 127.0.0.1:%d", n))
		}
	}
	for line := range strings.Lines(string(placetest.ReadFile(t, "/proc/net/unix"))) {
		if f := strings.Fields(line); len(f) == 8 && inodes[f[6]] && !slices.Contains(targets, "unix "+f[7]) {
			targets = append(targets, "unix "+f[7])
		}
	}
	return targets
}

// TestC1AnotherUserReachesHTTPAlone lists every port, socket and file of a running
// standalone, and what another user of the machine gets of each: to read over
// loopback, and nothing at all where HTTP is behind its socket alone. Nobody
// decides over loopback.
func TestC1AnotherUserReachesHTTPAlone(t *testing.T) {
	t.Run("loopback", func(t *testing.T) { testStranger(t, "127.0.0.1:0", 1) })
	t.Run("unix", func(t *testing.T) { testStranger(t, "unix", 0) })
}

// testStranger wants so many targets to answer reads.
func testStranger(t *testing.T, listen string, reads int) {
	child := strangertest.Command(t)
	data := programtest.NewDataDir(t)
	server := programtest.Spawn(t, data, "standalone", "--listen", listen)
	server.Reaches(t, "gputally_ledger_last_pass_timestamp_seconds", 1)
	run, err := datadir.ReadRun(data)
	if err != nil {
		t.Fatal(err)
	}
	targets := socketsOf(t, append(programtest.ChildrenOf(server.Pid), server.Pid)...)
	sockets := 0
	for _, target := range targets {
		if strings.HasPrefix(target, "unix ") {
			sockets++
		}
	}
	if sockets < 3 {
		t.Errorf("sockets of engine, broker and HTTP: %q, want all", targets)
	}
	if reads > 0 {
		targets = append(targets, "post "+run.HTTPAddress)
		if got, err := converse("tcp", run.HTTPAddress, decisionOverHTTP); err != nil || got != refusedHTTP {
			t.Errorf("the service's own user decides over loopback: %q, %v", got, err)
		}
	} else if got, err := converse("unix", run.HTTPSocket, decisionOverHTTP); err != nil || !strings.HasPrefix(got,
		"HTTP/1.1 ") || got == refusedHTTP {
		t.Errorf("the service's own user is not heard over the socket: %q, %v", got, err)
	}
	for _, root := range []string{data, run.TempDir} {
		if err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			targets = append(targets, "file "+path)
			return err
		}); err != nil && !errors.Is(err, fs.ErrNotExist) { // the engine's parts come and go
			t.Fatal(err)
		}
	}
	child.Env = append(child.Env, strangerEnv+"="+strings.Join(targets, "\n"))
	child.WaitDelay = time.Minute
	out, err := child.Output()
	if err != nil {
		t.Fatal(err)
	}
	yields := map[string]int{}
	for line := range strings.Lines(string(out)) {
		target, got, _ := strings.Cut(strings.TrimSpace(line), ": ")
		kind, name, _ := strings.Cut(target, " ")
		want := "no permission"
		if kind == "tcp" && name == run.HTTPAddress {
			want = "HTTP/1.1 200"
		} else if kind == "post" {
			want = refusedHTTP
		}
		if got != want {
			t.Errorf("another user gets of %s: %q, want %q", target, got, want)
		}
		yields[kind+": "+got]++
		if kind != "file" {
			t.Log(strings.TrimSpace(line))
		}
	}
	t.Log(yields)
	if yields["tcp: HTTP/1.1 200"] != reads {
		t.Errorf("HTTP answered %d times, want %d", yields["tcp: HTTP/1.1 200"], reads)
	}
}
