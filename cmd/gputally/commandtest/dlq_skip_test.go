package commandtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/placetest"
	"github.com/gputally/gputally/internal/store/storetest"
)

// TestASkipIsDecidedLikeAllElse: the copy and the witness have it, and where a
// required witness is away nothing is decided, and nothing moves.
func TestASkipIsDecidedLikeAllElse(t *testing.T) {
	storetest.Library(t)
	data, heads := programtest.NewDataDir(t), filepath.Join(t.TempDir(), "away", "heads")
	at := programtest.Unread(t, data)
	programtest.MustInvoke(t, "inventory", "cluster", "lab", "--slot", "10s", "--data", data)
	config := filepath.Join(t.TempDir(), settings.ConfigName)
	placetest.WriteFile(t, config, "decisions: {witness: {file: "+heads+", required: true}}\n")
	skip := []string{
		"--config", config, "dlq", "skip", "--data", data, "--by", "alice", "--offset", at,
		"--reason", "damaged",
	}
	stands := func() (sum int64) {
		programtest.WithLedger(t, data, func(p *app.Pipeline) {
			offsets, err := p.Client.Offsets(t.Context(), broker.TopicSamples, p.Config.Ingest.Group)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range offsets {
				sum += max(o.Committed, 0)
			}
		})
		return sum
	}
	if got := programtest.Invoke(t, skip...); got.Code != cli.ExitEnvironment || !strings.Contains(got.Stderr,
		"nothing was written") || stands() != 0 {
		t.Errorf("without its witness: got %+v, and the group stands at %d, want 0", got, stands())
	}
	if err := os.Mkdir(filepath.Dir(heads), 0o700); err != nil {
		t.Fatal(err)
	}
	programtest.MustInvoke(t, skip...)
	told, err := os.ReadFile(heads)
	if err != nil || !strings.HasSuffix(string(told), " audit\n") || stands() != 1 {
		t.Errorf("the witness was told %q, %v, and the group stands at %d, want 1", told, err, stands())
	}
	copies, err := filepath.Glob(filepath.Join(data, datadir.CopyDir, "*.decisions"))
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
	data := programtest.NewDataDir(t)
	junk := func(value string) broker.Message {
		return broker.Message{Topic: broker.TopicSamples, Key: []byte("n1"), Value: []byte(value)}
	}
	programtest.Produce(t, data, []broker.Message{junk("\xff1")})
	partition := ""
	programtest.WithLedger(t, data, func(p *app.Pipeline) { // nobody ingests these
		msgs := []broker.Message{junk("\xff2"), junk("\xff3"), junk("\xff4"), junk("\xff5")}
		if err := p.Client.Producer().Produce(t.Context(), msgs); err != nil {
			t.Fatal(err)
		}
		at := cli.Place{Partition: msgs[0].Partition}
		partition, _, _ = strings.Cut((&cli.Place{Partition: at.Partition, Given: true}).String(), "/")
	})
	skip := func(args ...string) programtest.Outcome {
		return programtest.Invoke(t, append([]string{"dlq", "skip", "--data", data, "--by", "alice"}, args...)...)
	}
	for _, bad := range []struct {
		args string
		code int
		say  string
	}{
		{"--reason x", cli.ExitUsage, "--offset"},
		{"--offset " + partition + "/1", cli.ExitUsage, "--reason"},
		{"--offset " + partition + "/1 --reason x --count 0", cli.ExitUsage, "--count"},
		{"--offset 99/1 --reason x", cli.ExitFailed, "partitions"},
		{"--offset " + partition + "/0 --reason x", cli.ExitFailed, "in the journal already"},
		{"--offset " + partition + "/2 --reason x", cli.ExitFailed, "is at offset 1"},
		{"--offset " + partition + "/1 --reason x --count 5", cli.ExitFailed, "ends at 5"},
		{"--offset " + partition + "/1 --reason x --count 9223372036854775807", cli.ExitFailed, "ends at 5"},
	} {
		if got := skip(strings.Fields(bad.args)...); got.Code != bad.code || !strings.Contains(got.Stderr, bad.say) {
			t.Errorf("dlq skip %s: got %+v, want code %d and %q", bad.args, got, bad.code, bad.say)
		}
	}
	if got := skip("--offset", partition+"/1", "--count", "2", "--reason", "ticket 4711"); got.Code != cli.ExitOK {
		t.Fatalf("dlq skip: got %+v", got)
	}
	if got := skip("--offset", partition+"/1", "--count", "2", "--reason",
		"ticket 4711"); got.Code != cli.ExitFailed || !strings.Contains(got.Stderr, "in the journal already") {
		t.Errorf("dlq skip again: got %+v", got)
	}
	programtest.WithLedger(t, data, func(p *app.Pipeline) { // as one that was killed before it wrote the journal leaves it
		if err := p.Access.DB.Exec(t.Context(), "DELETE FROM batches WHERE reason = 'skipped'"); err != nil {
			t.Fatal(err)
		}
	})
	if got := skip("--offset", partition+"/1", "--count", "2", "--reason", "ticket 4711"); got.Code != cli.ExitOK {
		t.Errorf("the skip that a killed one left undone: got %+v", got)
	}
	audit := programtest.Invoke(t, "audit", "--data", data, "--output", "csv")
	said := "alice,\"dlq skip " + broker.TopicSamples + " partition " + partition + " offsets [1, 3)\","
	if strings.Count(audit.Stdout, said) != 2 || strings.Count(audit.Stdout, said+"accepted,") != 1 {
		t.Errorf("audit: %+v, want the skip by alice accepted once and repeated once", audit)
	}
	programtest.WithLedger(t, data, func(p *app.Pipeline) {
		if err := p.StartIngestHere(); err != nil {
			t.Fatal(err)
		}
		if err := p.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.Client.MoveGroup(t.Context(), p.Config.Ingest.Group, broker.TopicSamples, 0, 0); err == nil {
			t.Error("a group with a member is moved")
		}
		var rows []struct {
			Offset uint64 `ch:"offset"`
			Reason string `ch:"reason"`
		}
		if err := p.Access.DB.Select(t.Context(), &rows,
			"SELECT offset, reason FROM batches FINAL ORDER BY offset"); err != nil {
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
	if got := skip("--offset", partition+"/5", "--reason",
		"x"); got.Code != cli.ExitFailed || !strings.Contains(got.Stderr, "nothing is unread") {
		t.Errorf("dlq skip behind the end: got %+v, want nothing to skip", got)
	}
	if r := programtest.VerifyLedger(t, data); r.Code != cli.ExitOK || !r.Checks["C3"].OK {
		t.Errorf("verify: code %d, C3 says %+v", r.Code, r.Checks["C3"])
	}
}
