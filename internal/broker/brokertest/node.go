package brokertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gputally/gputally/internal/clock"
)

// clusterID is an arbitrary result of random-uuid of Kafka's StorageTool.
const clusterID = "Z3B1bGVkZ2VyLXRlc3RzMQ"

// Node is one broker of the cluster, running or not.
type Node struct {
	cluster  *Cluster
	id       int32
	dir      string
	port     int
	settings string // path of server.properties

	process *os.Process
	ended   chan struct{} // closed when process has ended
}

var errPortTaken = errors.New("port is taken")

// prepare writes a broker's settings and formats its directory.
func (c *Cluster) prepare(ctx context.Context, id int, dir string) (*Node, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	ports, err := freePorts(ctx, 2)
	if err != nil {
		return nil, err
	}
	n := &Node{cluster: c, id: int32(id), dir: dir, port: ports[0], settings: filepath.Join(dir, "server.properties")}
	settings := fmt.Sprintf(common, id, ports[0], filepath.Join(dir, "data"))
	if id == 1 {
		settings += fmt.Sprintf(controller, ports[0], ports[1])
		c.quorum = "1@127.0.0.1:" + strconv.Itoa(ports[1])
	} else {
		settings += fmt.Sprintf(brokerOnly, ports[0])
	}
	settings += "controller.quorum.voters=" + c.quorum + "\n"
	if err := os.WriteFile(n.settings, []byte(settings), 0o600); err != nil {
		return nil, err
	}
	format := exec.CommandContext(ctx, c.java,
		append(javaFlags(c.jars), "kafka.tools.StorageTool", "format", "-t", clusterID, "-c", n.settings)...)
	if out, err := format.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("format directory of Kafka broker %d: %w\n%s", id, err, out)
	}
	return n, nil
}

// javaFlags favour a fast start over fast running.
func javaFlags(classPath string) []string {
	return []string{
		"-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classPath,
	}
}

// freePorts returns ports on which nothing listens. They lie below the range of ephemeral ports, so that no outgoing
// connection, such as a client dialling a stopped broker, takes one by chance.
func freePorts(ctx context.Context, count int) ([]int, error) {
	const low, high = 12_000, 32_000
	random := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(clock.Real().Now().UnixNano())))
	var ports []int
	for range 1000 {
		port := low + random.IntN(high-low)
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		defer l.Close()
		if ports = append(ports, port); len(ports) == count {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("find %d free ports between %d and %d: found %d", count, low, high, len(ports))
}

// Addr is the broker's host:port.
func (n *Node) Addr() string { return "127.0.0.1:" + strconv.Itoa(n.port) }

// Stop shuts the broker down in order: it hands over its partitions first.
func (n *Node) Stop(t testing.TB) {
	t.Helper()
	if err := n.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("stop Kafka broker %d: %v", n.id, err)
	}
	<-n.ended
}

func (n *Node) kill() {
	if !n.hasEnded() {
		_ = n.process.Kill() // fails only if the process has ended
		<-n.ended
	}
}

func (n *Node) hasEnded() bool {
	select {
	case <-n.ended:
		return true
	default:
		return false
	}
}

// start runs the broker and waits until it is registered.
func (n *Node) start(ctx context.Context) error {
	output, err := os.OpenFile(filepath.Join(n.dir, "output"), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer output.Close()
	//nolint:noctx // the process outlives the context of its start
	cmd := exec.Command(n.cluster.java, append(javaFlags(n.cluster.jars), "kafka.Kafka", n.settings)...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	n.ended = make(chan struct{})
	go n.run(cmd, started)
	if err := <-started; err != nil {
		return fmt.Errorf("start Kafka broker %d: %w", n.id, err)
	}
	if err := n.await(ctx); err != nil {
		n.kill()
		return fmt.Errorf("start Kafka broker %d on %s: %w", n.id, n.Addr(), n.explain(err))
	}
	return nil
}

// run keeps its thread for as long as the process lives: the kernel kills a child when the thread that started it
// ends.
func (n *Node) run(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	ended := n.ended
	defer close(ended)
	err := cmd.Start()
	n.process = cmd.Process
	started <- err
	if err == nil {
		_ = cmd.Wait() // usually ended by a signal
	}
}

// explain adds the end of the broker's output to an error.
func (n *Node) explain(err error) error {
	out, readErr := os.ReadFile(filepath.Join(n.dir, "output"))
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	if n.lacksPort() && !errors.Is(err, errPortTaken) {
		err = errors.Join(errPortTaken, err)
	}
	const tail = 4096
	return fmt.Errorf("%w; it wrote:\n%s", err, strings.TrimSpace(string(out[max(0, len(out)-tail):])))
}

// lacksPort returns whether Kafka logged that it couldn't bind its port.
func (n *Node) lacksPort() bool {
	out, err := os.ReadFile(filepath.Join(n.dir, "output"))
	return err == nil && bytes.Contains(out, []byte("Address already in use"))
}

// await returns when the broker reports itself as part of the cluster.
func (n *Node) await(ctx context.Context) error {
	client, err := dial(n.Addr())
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		if err := n.answers(ctx, client); err == nil {
			return nil
		} else if ctx.Err() != nil {
			return fmt.Errorf("wait for the broker's answer: %w (last attempt: %w)", ctx.Err(), err)
		}
		pause := clock.Real().NewTimer(50 * time.Millisecond)
		select {
		case <-n.ended:
			return errors.New("the broker's process ended")
		case <-pause.C():
		}
		if n.lacksPort() {
			return errPortTaken // the broker takes seconds to end by itself
		}
	}
}

func (n *Node) answers(ctx context.Context, client *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	res, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, client)
	if err != nil {
		return err
	}
	for _, b := range res.Brokers {
		if b.NodeID == n.id {
			return nil
		}
	}
	return fmt.Errorf("broker %d is not among the %d in service", n.id, len(res.Brokers))
}

// dial creates a client that doesn't retry.
func dial(addr string) (*kgo.Client, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RequestRetries(0), kgo.DialTimeout(time.Second),
		kgo.RequestTimeoutOverhead(time.Second))
	if err != nil {
		return nil, fmt.Errorf("create client of %s: %w", addr, err)
	}
	return client, nil
}
