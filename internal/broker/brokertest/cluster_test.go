package brokertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestMain(m *testing.M) {
	code := m.Run()
	Stop()
	os.Exit(code)
}

func topics(t *testing.T, client *kgo.Client) (names []string) {
	t.Helper()
	res, err := kmsg.NewPtrMetadataRequest().RequestWith(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range res.Topics {
		if strings.HasPrefix(*topic.Topic, "__") {
			continue // Kafka's own
		}
		names = append(names, *topic.Topic)
	}
	return names
}

func connect(t *testing.T, c *Cluster) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// TestNextTestGetsAnEmptyKafka, also after one that left it killed.
func TestNextTestGetsAnEmptyKafka(t *testing.T) {
	c := Kafka(t)
	client := connect(t, c)
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "left", 1, 1
	req.Topics = append(req.Topics, topic)
	if _, err := req.RequestWith(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	for len(topics(t, client)) == 0 { // the broker learns of a topic after the controller
		if ctx.Err() != nil {
			t.Fatal("the topic that was made is not there")
		}
	}
	addr := c.Addr()
	c.Kill()
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Error("a killed Kafka takes connections")
	}
	next := Kafka(t)
	if got := topics(t, connect(t, next)); len(got) != 0 || next.Addr() != addr {
		t.Errorf("the next test finds topics %q at %s, want none at %s", got, next.Addr(), addr)
	}
}

// TestTakenPortIsNamed: launch tries others then.
func TestTakenPortIsNamed(t *testing.T) {
	c := Kafka(t)
	n, err := c.prepare(t.Context(), 3, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", n.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := n.start(t.Context()); !errors.Is(err, errPortTaken) || !strings.Contains(err.Error(), n.Addr()) {
		t.Errorf("start on a taken port: %v, want errPortTaken and the address", err)
	}
}

func TestSweepLeavesTheFoldersOfTheLiving(t *testing.T) {
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	dead := dirPrefix + strconv.Itoa(gone.Process.Pid) + "-1"
	alive := dirPrefix + strconv.Itoa(os.Getpid()) + "-1"
	for _, name := range []string{dead, alive, dirPrefix + "x-1", "other-1-1"} {
		if err := os.Mkdir(filepath.Join(parent, name), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	sweep(parent)
	var left []string
	entries, err := os.ReadDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if diff := cmp.Diff([]string{alive, dirPrefix + "x-1", "other-1-1"}, left); diff != "" {
		t.Errorf("folders left (-want +got):\n%s", diff)
	}
}

// diesVar makes the test binary a process that starts a Kafka and is killed.
const diesVar = "GPUTALLY_TEST_BROKERTEST_DIES"

// TestKafkaDiesWithItsTests, also when they can't stop it.
func TestKafkaDiesWithItsTests(t *testing.T) {
	if os.Getenv(diesVar) != "" {
		fmt.Println("kafka is", Kafka(t).first.process.Pid)
		select {}
	}
	findKafka(t)
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestKafkaDiesWithItsTests$")
	child.Env = append(os.Environ(), diesVar+"=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscanf(out, "kafka is %d", &pid); err != nil {
		t.Fatal(err)
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	defer sweep(os.TempDir())
	for running(pid) {
		if ctx.Err() != nil {
			t.Fatalf("Kafka, process %d, outlives its tests", pid)
		}
	}
}

// running reports whether a process runs; a zombie doesn't.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}
