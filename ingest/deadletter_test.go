package ingest_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/internal/broker"
)

// letterOf takes a message that can't be used through ingest.
func letterOf(t *testing.T, p *pipeline, msg broker.Message) ingest.DeadLetter {
	t.Helper()
	p.topic.append(msg.Value)
	last := &p.topic.msgs[len(p.topic.msgs)-1]
	last.Key, last.Headers = msg.Key, msg.Headers
	if err := p.ingest(t); err != nil {
		t.Fatal(err)
	}
	written := p.topic.dead[len(p.topic.dead)-1]
	size := len(written.Key) + len(written.Value)
	for _, h := range written.Headers {
		size += len(h.Key) + len(h.Value)
	}
	if size > 100<<10 {
		t.Errorf("dead letter has %d bytes: it may not fit into its topic", size)
	}
	written.Partition, written.Offset = 0, 17
	letter, err := ingest.ParseDeadLetter(written)
	if err != nil {
		t.Fatal(err)
	}
	return letter
}

// TestDeadLetterKeepsTheMessageOrSaysWhatItLacks: whatever part of a message is
// large, its dead letter fits, and what isn't whole is not sent again.
func TestDeadLetterKeepsTheMessageOrSaysWhatItLacks(t *testing.T) {
	large := bytes.Repeat([]byte{0xff}, 10<<20)
	headers := []broker.Header{{Key: "node", Value: []byte("n1")}, {Key: "reason", Value: []byte("mine")}}
	p := newPipeline(t)
	for _, c := range []struct {
		name string
		msg  broker.Message
		lack string // empty: whole
	}{
		{"whole", broker.Message{Key: []byte("n1"), Value: []byte("garbage"), Headers: headers}, ""},
		{"empty", broker.Message{}, ""},
		{"64 KiB", broker.Message{Value: large[:64<<10]}, ""},
		{
			"more than 64 KiB",
			broker.Message{Value: large[:64<<10+1]},
			"the value was cut: the dead letter keeps only 65536 of 65537 bytes",
		},
		{"10 MiB", broker.Message{Value: large}, "the value was cut: the dead letter keeps only 65536 of 10485760 bytes"},
		{"key of 10 MiB", broker.Message{Key: large}, "the key was cut: the dead letter keeps only 4096 of 10485760 bytes"},
		{
			"headers of 10 MiB",
			broker.Message{Headers: []broker.Header{{Key: "h", Value: large}}},
			"the headers were left out: they have 10485761 bytes",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			letter := letterOf(t, p, c.msg)
			lack := ""
			if err := letter.Replayable(); err != nil {
				lack = err.Error()
			}
			if lack != c.lack {
				t.Fatalf("replayable: got %q, want %q", lack, c.lack)
			}
			if letter.Size != len(c.msg.Value) || letter.Topic != broker.TopicSamples ||
				letter.OriginalOffset != int64(len(p.topic.msgs)-1) {
				t.Errorf("size %d, from %s %d/%d", letter.Size, letter.Topic, letter.OriginalPartition, letter.OriginalOffset)
			}
			if lack != "" {
				return
			}
			want := broker.Message{Topic: broker.TopicSamples, Key: c.msg.Key, Value: c.msg.Value}
			want.Headers = append(want.Headers, c.msg.Headers...)
			want.Headers = append(want.Headers, broker.Header{Key: ingest.HeaderReplayOf, Value: []byte("0/17")})
			got := letter.Resend()
			if !bytes.Equal(got.Key, want.Key) || !bytes.Equal(got.Value, want.Value) || got.Topic != want.Topic {
				t.Errorf("sent again as %s %q %.40q", got.Topic, got.Key, got.Value)
			}
			if diff := cmp.Diff(want.Headers, got.Headers); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
	if got, want := len(p.journal(t)), len(p.topic.msgs); got != want {
		t.Errorf("journal has %d rows for %d offsets", got, want)
	}
}

// A message that is dead again names the letter it came from, once.
func TestReplayedDeadLetterIsANewOne(t *testing.T) {
	p := newPipeline(t)
	first := letterOf(t, p, broker.Message{Key: []byte("n1"), Value: []byte("garbage")})
	second := letterOf(t, p, first.Resend())
	if second.ReplayOf != "0/17" || second.SHA256 != first.SHA256 {
		t.Errorf("second letter: replay of %q, hash %s, want 0/17 and %s", second.ReplayOf, second.SHA256, first.SHA256)
	}
	if n := len(second.Resend().Headers); n != 1 {
		t.Errorf("sent again with %d headers, want the newest place only", n)
	}
}

func TestParseDeadLetterNamesWhatIsWrong(t *testing.T) {
	p := newPipeline(t)
	letterOf(t, p, broker.Message{Value: []byte("garbage")})
	sound := p.topic.dead[0]
	for name, want := range map[string]string{
		"partition": `header partition is "x"`, "offset": `header offset is "x"`,
		"size": `header size is "x"`,
	} {
		msg := sound
		msg.Headers = nil
		for _, h := range sound.Headers {
			if h.Key == name {
				h.Value = []byte("x")
			}
			msg.Headers = append(msg.Headers, h)
		}
		if _, err := ingest.ParseDeadLetter(msg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
	if _, err := ingest.ParseDeadLetter(broker.Message{Offset: 3}); err == nil || !strings.Contains(err.Error(),
		"dead letter 0/3") {
		t.Errorf("a message of somebody else's: got %v", err)
	}
	damaged := sound
	damaged.Value = []byte("garbagf")
	letter, err := ingest.ParseDeadLetter(damaged)
	if err != nil {
		t.Fatal(err)
	}
	if err := letter.Replayable(); fmt.Sprint(err) != "damaged: the value doesn't have the SHA-256 that the dead letter "+
		"names" {
		t.Errorf("damaged bytes: %v", err)
	}
}
