package zookeepertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/javatest"
	"github.com/gputally/gputally/internal/placetest"
)

const (
	startLimit = time.Minute
	askEvery   = 50 * time.Millisecond
	// answerLimit: a ZooKeeper that is still starting may never answer a request.
	answerLimit = time.Second
	mainClass   = "org.apache.zookeeper.server.ZooKeeperServerMain"
	settings    = `tickTime=500
dataDir=%s
clientPort=%d
clientPortAddress=127.0.0.1
admin.enableServer=false
4lw.commands.whitelist=srvr
`
)

// Start starts a ZooKeeper on 127.0.0.1, which runs until the test or this process ends,
// and returns its port.
func Start(t testing.TB) (port int) {
	t.Helper()
	java, jars := javatest.Find(t, "ZooKeeper", "zookeeper", "zookeeper-3*.jar")
	dir := t.TempDir()
	port = freePort(t)
	config := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(config, fmt.Appendf(nil, settings, filepath.Join(dir, "data"), port), 0o600); err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	cmd := exec.CommandContext(context.Background(), java, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", jars,
		mainClass, config)
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start ZooKeeper: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	if err := await(port, ended); err != nil {
		_ = cmd.Process.Kill()
		<-ended
		t.Fatalf("start ZooKeeper: %v\n%s", err, output.String())
	}
	return port
}

// await sends requests until ZooKeeper answers one.
func await(port int, ended <-chan struct{}) error {
	ticker := clock.Real().NewTicker(askEvery)
	defer ticker.Stop()
	limit := clock.Real().NewTimer(startLimit)
	defer limit.Stop()
	for !answers(port) {
		select {
		case <-ticker.C():
		case <-ended:
			return errors.New("ZooKeeper ended")
		case <-limit.C():
			return fmt.Errorf("ZooKeeper didn't answer on port %d within %s", port, startLimit)
		}
	}
	return nil
}

func answers(port int) bool {
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp",
		net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(clock.Real().Now().Add(answerLimit)); err != nil {
		return false
	}
	if _, err := conn.Write([]byte("srvr")); err != nil {
		return false
	}
	var answer bytes.Buffer
	_, _ = answer.ReadFrom(conn) // the caller checks what was read
	return strings.Contains(answer.String(), "Mode: standalone")
}

func freePort(t testing.TB) int {
	t.Helper()
	_, text := placetest.FreeAddress(t)
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
