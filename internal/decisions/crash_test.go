package decisions

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/broker/brokertest"
)

// writerVar makes the test binary the child of TestKilledWriter: the address of
// a broker.
const writerVar = "GPUTALLY_TEST_DECISIONS_BROKER"

func TestMain(m *testing.M) {
	if addr := os.Getenv(writerVar); addr != "" {
		fmt.Fprintln(os.Stderr, finaliseForever(addr))
		os.Exit(1)
	}
	code := m.Run()
	brokertest.Stop()
	os.Exit(code)
}

// usageOf is a tenant's copy of usage: three parts, the last one's own.
func usageOf(tenant string) []byte {
	return append(bytes.Repeat([]byte(tenant+"\n"), 2*PartBytes/(len(tenant)+1)), strings.Repeat(tenant, 1000)...)
}

// finaliseForever prints a line before and after each record.
func finaliseForever(addr string) error {
	ctx := context.Background()
	client := broker.NewClient(broker.Config{Brokers: []string{addr}}, quiet())
	l, err := Open(ctx, client, Options{})
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		body := invoiceOf(fmt.Sprintf("tenant-%d", n))
		if body.Usage, err = l.Put(ctx, usageOf(body.Tenant)); err != nil {
			return err
		}
		fmt.Println("parts of", body.Number)
		out, err := l.Append(ctx, KindInvoice, body.Tenant, Digest([]byte(body.Tenant)), "carol", &body)
		if err != nil || !out.Accepted {
			return fmt.Errorf("%+v, %w", out, err)
		}
		fmt.Println("done", body.Number)
	}
}

// TestKilledWriter: what it acknowledged is there, whole; what it was killed in
// the midst of is there whole or not at all, and another finishes it with the
// parts that are there.
func TestKilledWriter(t *testing.T) {
	eachBroker(t, func(t *testing.T, b *testBroker) {
		prepareLog(t, open(t, b.addr))
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), writerVar+"="+b.addr)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		done := 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "done") {
				done++
			} else if done >= 5 { // between parts and record
				_ = child.Process.Kill()
			}
		}
		_ = child.Wait()
		if done < 5 {
			t.Fatalf("child finalised %d invoices before it ended, want 5", done)
		}
		l := open(t, b.addr)
		var there int
		l.View(func(s *State) { there = len(s.Invoices()) })
		if there < done || there > done+1 {
			t.Errorf("%d invoices are there, %d were acknowledged", there, done)
		}
		before := l.next()
		body := invoiceOf(fmt.Sprintf("tenant-%d", there))
		body.Usage = put(t, l, usageOf(body.Tenant))
		if there == done && l.next() != before {
			t.Errorf("%d parts were written again", l.next()-before)
		}
		if out := appendTo(t, l, KindInvoice, body.Tenant, "dave", &body); !out.Accepted {
			t.Errorf("the next writer was refused: %s", out.Reason)
		}
		for n := range there + 1 {
			var e Decided[Invoice]
			l.View(func(s *State) { e, _ = s.Invoice(Number("2026-10", fmt.Sprintf("tenant-%d", n), 0)) })
			got, err := l.Read(testContext(t), e.Body.Usage)
			if err != nil || !bytes.Equal(got, usageOf(e.Body.Tenant)) {
				t.Errorf("usage of %s: %d bytes, %v", e.Body.Number, len(got), err)
			}
		}
	})
}
