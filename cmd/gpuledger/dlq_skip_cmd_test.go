package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/broker"
	"github.com/gpuledger/gpuledger/internal/store/storetest"
)

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
	audit := invoke(t, "audit", "--data", data, "--output", "csv")
	if n := strings.Count(audit.Stdout, "dlq skip "+broker.TopicSamples+" partition "+partition+" offsets [1, 3)"); n != 1 || !strings.Contains(audit.Stdout, "alice") {
		t.Errorf("audit has the skip %d times, want once, by alice: %+v", n, audit)
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
	if r := verifyLedger(t, data); r.code != exitOK || !r.checks["C3"].OK {
		t.Errorf("verify: code %d, C3 says %+v", r.code, r.checks["C3"])
	}
}
