package brokertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/javatest"
)

// Cluster is the Kafka cluster of the test binary. Tests that use it run one after the other: each begins with an
// empty cluster of one broker.
type Cluster struct {
	java    string
	jars    string // class path
	dir     string
	first   *Node
	seconds int    // number of calls of Second
	quorum  string // controller.quorum.voters
}

// startLimit bounds one start of a broker on a busy machine.
const startLimit = 2 * time.Minute

var shared struct {
	sync.Mutex
	cluster *Cluster
	err     error
}

// Kafka returns the test binary's cluster, without topics and groups. The first call starts it; a call after a test
// that killed it starts it again.
func Kafka(t testing.TB) *Cluster {
	t.Helper()
	java, jars := findKafka(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil && shared.err == nil {
		shared.cluster, shared.err = start(java, jars)
	}
	if shared.err != nil {
		t.Fatalf("start Kafka: %v", shared.err)
	}
	c := shared.cluster
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if c.first.hasEnded() {
		if err := c.first.start(ctx); err != nil {
			t.Fatalf("start Kafka again after the last test: %v", err)
		}
	}
	if err := c.clear(ctx); err != nil {
		t.Fatalf("empty Kafka after the last test: %v", err)
	}
	return c
}

// Stop stops the cluster and removes its directory; call it in TestMain after the tests. Without it the kernel kills
// Kafka when the test binary ends.
func Stop() {
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil {
		return
	}
	shared.cluster.first.kill()
	_ = os.RemoveAll(shared.cluster.dir)
	shared.cluster = nil
}

// Addr is the host:port of the first broker. A restart doesn't change it.
func (c *Cluster) Addr() string { return c.first.Addr() }

// Kill sends the first broker SIGKILL.
func (c *Cluster) Kill() { c.first.kill() }

// Restart starts the first broker again, with the same directory and ports, and returns when it answers.
func (c *Cluster) Restart(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if err := c.first.start(ctx); err != nil {
		t.Fatalf("restart Kafka: %v", err)
	}
}

// Second adds a broker to the cluster until the test ends. Each has a new id: a broker with a former id would have to
// recover what that one stored.
func (c *Cluster) Second(t testing.TB) *Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	c.seconds++
	n, err := c.launch(ctx, 1+c.seconds)
	if err != nil {
		t.Fatalf("start a second Kafka: %v", err)
	}
	t.Cleanup(n.kill)
	return n
}

func findKafka(t testing.TB) (java, classPath string) {
	t.Helper()
	return javatest.Find(t, "Kafka", "kafka", "kafka_*.jar")
}

func start(java, jars string) (*Cluster, error) {
	sweep(os.TempDir())
	dir, err := os.MkdirTemp("", dirPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{java: java, jars: jars, dir: dir}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if c.first, err = c.launch(ctx, 1); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return c, nil
}

// portTries is how often launch chooses other ports if they are in use.
const portTries = 5

// launch creates and starts broker id on free ports.
func (c *Cluster) launch(ctx context.Context, id int) (*Node, error) {
	var err error
	for range portTries {
		var dir string
		if dir, err = os.MkdirTemp(c.dir, fmt.Sprintf("node-%d-", id)); err != nil {
			return nil, err
		}
		var n *Node
		n, err = c.prepare(ctx, id, dir)
		if err == nil {
			err = n.start(ctx)
		}
		if err == nil || !errors.Is(err, errPortTaken) {
			return n, err
		}
	}
	return nil, err
}

const dirPrefix = "gputally-kafka-"

// sweep removes directories whose process has ended.
func sweep(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, entry := range entries {
		rest, ours := strings.CutPrefix(entry.Name(), dirPrefix)
		number, _, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(number)
		if !ours || err != nil || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue
		}
		_ = os.RemoveAll(filepath.Join(parent, entry.Name()))
	}
}
