package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/store/storetest"
)

// TestASkipIsDecidedLikeAllElse: the copy and the witness have it, and where a
// required witness is away nothing is decided, and nothing moves.
func TestASkipIsDecidedLikeAllElse(t *testing.T) {
	storetest.Library(t)
	data, heads := newDataDir(t), filepath.Join(t.TempDir(), "away", "heads")
	at := unread(t, data)
	mustInvoke(t, "inventory", "cluster", "lab", "--slot", "10s", "--data", data)
	config := filepath.Join(t.TempDir(), configName)
	writeFile(t, config, "decisions: {witness: {file: "+heads+", required: true}}\n")
	skip := []string{"--config", config, "dlq", "skip", "--data", data, "--by", "alice", "--offset", at, "--reason", "damaged"}
	stands := func() (sum int64) {
		withLedger(t, data, func(p *pipeline) {
			offsets, err := p.client.Offsets(t.Context(), broker.TopicSamples, p.cfg.Ingest.Group)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range offsets {
				sum += max(o.Committed, 0)
			}
		})
		return sum
	}
	if got := invoke(t, skip...); got.Code != exitEnvironment || !strings.Contains(got.Stderr, "nothing was decided") || stands() != 0 {
		t.Errorf("without its witness: got %+v, and the group stands at %d, want 0", got, stands())
	}
	if err := os.Mkdir(filepath.Dir(heads), 0o700); err != nil {
		t.Fatal(err)
	}
	mustInvoke(t, skip...)
	told, err := os.ReadFile(heads)
	if err != nil || !strings.HasSuffix(string(told), " audit\n") || stands() != 1 {
		t.Errorf("the witness was told %q, %v, and the group stands at %d, want 1", told, err, stands())
	}
	copies, err := filepath.Glob(filepath.Join(data, copyName, "*.decisions"))
	if err != nil {
		t.Fatal(err)
	}
	var copied strings.Builder
	for _, path := range copies {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		copied.Write(text)
	}
	if strings.Count(copied.String(), "dlq skip") != 1 {
		t.Errorf("%d files of the copy lack the skip", len(copies))
	}
}

// TestSkipPassesOverWhatStopsIngest: exactly the offsets named, once, with a row of
// the journal and an audit entry; and nothing while ingest runs or elsewhere.
func TestSkipPassesOverWhatStopsIngest(t *testing.T) {
	storetest.Library(t)
	data := newDataDir(t)
	junk := func(value string) broker.Message {
		return broker.Message{Topic: broker.TopicSamples, Key: []byte("n1"), Value: []byte(value)}
	}
	produce(t, data, []broker.Message{junk("\xff1")})
	partition := ""
	withLedger(t, data, func(p *pipeline) { // nobody ingests these
		msgs := []broker.Message{junk("\xff2"), junk("\xff3"), junk("\xff4"), junk("\xff5")}
		if err := p.client.Producer().Produce(t.Context(), msgs); err != nil {
			t.Fatal(err)
		}
		at := place{partition: msgs[0].Partition}
		partition, _, _ = strings.Cut((&place{partition: at.partition, given: true}).String(), "/")
	})
	skip := func(args ...string) outcome {
		return invoke(t, append([]string{"dlq", "skip", "--data", data, "--by", "alice"}, args...)...)
	}
	for _, bad := range []struct {
		args string
		code int
		say  string
	}{
		{"--reason x", exitUsage, "--offset"},
		{"--offset " + partition + "/1", exitUsage, "--reason"},
		{"--offset " + partition + "/1 --reason x --count 0", exitUsage, "--count"},
		{"--offset 99/1 --reason x", exitFailed, "partitions"},
		{"--offset " + partition + "/0 --reason x", exitFailed, "in the journal already"},
		{"--offset " + partition + "/2 --reason x", exitFailed, "stands at offset 1"},
		{"--offset " + partition + "/1 --reason x --count 5", exitFailed, "ends at 5"},
		{"--offset " + partition + "/1 --reason x --count 9223372036854775807", exitFailed, "ends at 5"},
	} {
		if got := skip(strings.Fields(bad.args)...); got.Code != bad.code || !strings.Contains(got.Stderr, bad.say) {
			t.Errorf("dlq skip %s: got %+v, want code %d and %q", bad.args, got, bad.code, bad.say)
		}
	}
	if got := skip("--offset", partition+"/1", "--count", "2", "--reason", "ticket 4711"); got.Code != exitOK {
		t.Fatalf("dlq skip: got %+v", got)
	}
	if got := skip("--offset", partition+"/1", "--count", "2", "--reason", "ticket 4711"); got.Code != exitFailed || !strings.Contains(got.Stderr, "in the journal already") {
		t.Errorf("dlq skip again: got %+v", got)
	}
	withLedger(t, data, func(p *pipeline) { // as one that was killed before it wrote the journal leaves it
		if err := p.access.db.Exec(t.Context(), "DELETE FROM batches WHERE reason = 'skipped'"); err != nil {
			t.Fatal(err)
		}
	})
	if got := skip("--offset", partition+"/1", "--count", "2", "--reason", "ticket 4711"); got.Code != exitOK {
		t.Errorf("the skip that a killed one left undone: got %+v", got)
	}
	audit := invoke(t, "audit", "--data", data, "--output", "csv")
	said := "alice,\"dlq skip " + broker.TopicSamples + " partition " + partition + " offsets [1, 3)\","
	if strings.Count(audit.Stdout, said) != 2 || strings.Count(audit.Stdout, said+"accepted,") != 1 {
		t.Errorf("audit: %+v, want the skip by alice accepted once and repeated once", audit)
	}
	withLedger(t, data, func(p *pipeline) {
		if err := p.startIngest(); err != nil {
			t.Fatal(err)
		}
		if err := p.settle(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := p.client.MoveGroup(t.Context(), p.cfg.Ingest.Group, broker.TopicSamples, 0, 0); err == nil {
			t.Error("a group with a member is moved")
		}
		var rows []struct {
			Offset uint64 `ch:"offset"`
			Reason string `ch:"reason"`
		}
		if err := p.access.db.Select(t.Context(), &rows, "SELECT offset, reason FROM batches FINAL ORDER BY offset"); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range rows {
			got = append(got, r.Reason)
		}
		if diff := cmp.Diff([]string{"garbage", "skipped", "skipped", "garbage", "garbage"}, got); diff != "" {
			t.Errorf("journal (-want +got):\n%s", diff)
		}
	})
	if got := skip("--offset", partition+"/5", "--reason", "x"); got.Code != exitFailed || !strings.Contains(got.Stderr, "nothing is unread") {
		t.Errorf("dlq skip behind the end: got %+v, want nothing to skip", got)
	}
	if r := verifyLedger(t, data); r.code != exitOK || !r.checks["C3"].OK {
		t.Errorf("verify: code %d, C3 says %+v", r.code, r.checks["C3"])
	}
}
