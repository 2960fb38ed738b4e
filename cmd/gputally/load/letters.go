package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/plural"
)

func lettersTable() cli.Table {
	return cli.Table{Columns: cli.Columns("partition number", "offset number", "at", "of_partition number",
		"of_offset number", "reason", "size number", "replayable wide", "replay_of", "key", "sha256",
		"first_bytes", "error wide")}
}

// LetterReasons returns the reasons of dead letters.
func LetterReasons() []string { return ingest.Reasons() }

const firstBytes = 32

func letterCells(l *ingest.DeadLetter) []string {
	replayable := "yes"
	if err := l.Replayable(); err != nil {
		replayable = err.Error()
	}
	return []string{
		strconv.Itoa(l.Partition), strconv.FormatInt(l.Offset, 10), l.At.UTC().Format(time.RFC3339),
		strconv.Itoa(l.OriginalPartition), strconv.FormatInt(l.OriginalOffset, 10),
		l.Reason, strconv.Itoa(l.Size), replayable, l.ReplayOf,
		quoted(l.Key), l.SHA256, quoted(l.Value[:min(len(l.Value), firstBytes)]), l.Error,
	}
}

// quoted is bytes as ASCII, others escaped as in Go.
func quoted(b []byte) string {
	text := strconv.QuoteToASCII(string(b))
	return text[1 : len(text)-1]
}

// LetterRequest is one call of dlq replay.
type LetterRequest struct {
	Place       cli.Place
	Reason      string
	All, DryRun bool

	seen                map[string]bool // key and hash of sent messages
	batch               []broker.Message
	sent, copies, found int
	refused             int
}

// dlqBatch is how many messages are sent together.
const dlqBatch = 500

// send sends the requested letters and prints how many.
func (o *LetterRequest) send(ctx context.Context, p *app.Pipeline) error {
	o.seen = map[string]bool{}
	if err := eachLetter(ctx, p, func(l *ingest.DeadLetter) error { return o.take(ctx, p, l) }); err != nil {
		return err
	}
	if err := o.flush(ctx, p); err != nil {
		return err
	}
	if o.Place.Given && o.found == 0 {
		return fmt.Errorf("dead letter %s not found: gputally dlq list%s shows the dead letters", o.Place.String(),
			p.Access.OnData())
	}
	verb := "sent"
	if o.DryRun {
		verb = "would be sent"
	}
	if err := p.Session.Writef("%d of %s %s, %s left out, %d not replayable\n",
		o.sent, plural.Of(o.found, "dead letter"), verb, plural.Of(o.copies, "copy"), o.refused); err != nil {
		return err
	}
	if o.refused > 0 {
		return cli.Quiet("not replayable")
	}
	return nil
}

func (o *LetterRequest) wants(l *ingest.DeadLetter) bool {
	if o.Place.Given {
		return l.Partition == o.Place.Partition && l.Offset == o.Place.Offset
	}
	return o.All || l.Reason == o.Reason
}

func (o *LetterRequest) take(ctx context.Context, p *app.Pipeline, l *ingest.DeadLetter) error {
	if !o.wants(l) {
		return nil
	}
	o.found++
	if err := l.Replayable(); err != nil {
		o.refused++
		p.Session.Sayf("dead letter %s (%s) is not replayable: %v\n", l.Place(), cli.Printable(l.Reason), err)
		return nil
	}
	// A message has several dead letters after a crash, or if it was sent back before.
	// Each message is sent once: else sending all would double them each time.
	key := string(l.Key) + "\x00" + l.SHA256
	if o.seen[key] {
		o.copies++
		return nil
	}
	o.seen[key] = true
	o.sent++
	if o.DryRun {
		return p.Session.Writef("%s: %s, %d bytes, from %d/%d\n", l.Place(), cli.Printable(l.Reason), l.Size,
			l.OriginalPartition, l.OriginalOffset)
	}
	if o.batch = append(o.batch, l.Resend()); len(o.batch) < dlqBatch {
		return nil
	}
	return o.flush(ctx, p)
}

func (o *LetterRequest) flush(ctx context.Context, p *app.Pipeline) error {
	if len(o.batch) == 0 {
		return nil
	}
	if err := p.Client.Producer().Produce(ctx, o.batch); err != nil {
		return fmt.Errorf("send dead letters back: %w", err)
	}
	o.batch = o.batch[:0]
	return nil
}

// eachLetter reads the dead letters up to now, oldest first in each partition. A message that is not a dead letter is
// logged and skipped.
func eachLetter(ctx context.Context, p *app.Pipeline, do func(*ingest.DeadLetter) error) error {
	bounds, err := p.Client.Offsets(ctx, broker.TopicDeadLetter, p.Config.Ingest.Group)
	if err != nil {
		return fmt.Errorf("read dead letters: %w", err)
	}
	for _, b := range bounds {
		reader := p.Client.Reader(broker.TopicDeadLetter, b.Partition, b.First, b.Last,
			broker.ConsumerOptions{MaxBytes: app.FetchBytes})
		if err := eachLetterOf(ctx, p, reader, do); err != nil {
			return err
		}
	}
	return nil
}

func eachLetterOf(ctx context.Context, p *app.Pipeline, reader *broker.Reader,
	do func(*ingest.DeadLetter) error,
) error {
	defer reader.Close()
	for {
		msgs, err := reader.Read(ctx, dlqBatch)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read dead letters: %w", err)
		}
		for _, msg := range msgs {
			letter, err := ingest.ParseDeadLetter(msg)
			if err != nil {
				p.Session.Log.Warn("skipped: not a dead letter", "error", err)
				continue
			}
			if err := do(&letter); err != nil {
				return err
			}
		}
	}
}

// Letters prints the dead letters of a reason; empty: all.
func Letters(ctx context.Context, s *cli.Session, reason string) error {
	return app.WithBroker(ctx, s, func(p *app.Pipeline) error {
		letters := lettersTable()
		err := eachLetter(ctx, p, func(l *ingest.DeadLetter) error {
			if reason == "" || l.Reason == reason {
				letters.Rows = append(letters.Rows, letterCells(l))
			}
			return nil
		})
		if err != nil {
			return err
		}
		return s.Print(letters)
	})
}

// ResendLetters sends dead letters back to the samples topic.
func ResendLetters(ctx context.Context, s *cli.Session, o *LetterRequest) error {
	return app.WithBroker(ctx, s, func(p *app.Pipeline) error { return o.send(ctx, p) })
}
