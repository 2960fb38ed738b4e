package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/internal/broker"
)

func (s *session) dlqCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "List what ingest could not use, and send it back",
		Example: examples(
			"gputally dlq list --data DIR", "what was refused, and why",
			"gputally dlq replay --data DIR --reason format", "send it again, to a version that can read it",
			`gputally dlq skip --data DIR --offset 0/17 --reason "crashes ingest"`, "pass over what stops ingest",
		),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(s.dlqListCommand(), s.dlqReplayCommand(), s.dlqSkipCommand())
	return cmd
}

func (s *session) dlqListCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Print the dead letters",
		Long: "Prints one row per dead letter: its own place, which message of the samples topic it was, why ingest\n" +
			"could not use it, hash and size of the whole message and its first bytes. A letter keeps the first\n" +
			"64 KiB; only what is kept whole can be sent again, and replayable says so, or why not.",
		Example: examples(
			"gputally dlq list --data DIR", "all of them",
			"gputally dlq list --data DIR --reason garbage --output csv", "one kind, for a spreadsheet",
		),
		Args: cobra.NoArgs,
	}
	data, o := dataFlag(cmd), outputFlag(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "only those of this `REASON`: garbage, format, invalid, limits, too_costly, origin, cluster, slot_length, early, sequence, late, window, record or too_large")
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		return s.withBroker(ctx, *data, func(p *pipeline) error {
			letters := lettersTable()
			err := p.eachLetter(ctx, func(l *ingest.DeadLetter) error {
				if reason == "" || l.Reason == reason {
					letters.rows = append(letters.rows, letterCells(l))
				}
				return nil
			})
			if err != nil {
				return err
			}
			return letters.write(s.stdout, *o, colour(s.stdout))
		})
	})
	return cmd
}

func lettersTable() table {
	return table{columns: []column{
		{name: "partition", number: true},
		{name: "offset", number: true},
		{name: "at"},
		{name: "of_partition", number: true},
		{name: "of_offset", number: true},
		{name: "reason"},
		{name: "size", number: true},
		{name: "replayable", wide: true},
		{name: "replay_of"},
		{name: "key"},
		{name: "sha256"},
		{name: "first_bytes"},
		{name: "error", wide: true},
	}}
}

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

// quoted is bytes in ASCII, the others as Go escapes them.
func quoted(b []byte) string {
	text := strconv.QuoteToASCII(string(b))
	return text[1 : len(text)-1]
}

func (s *session) dlqReplayCommand() *cobra.Command {
	o := dlqReplay{}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Send dead letters back to the samples topic",
		Long: "Sends the messages back to the samples topic as they were: the same bytes, key and headers, and the\n" +
			"header " + ingest.HeaderReplayOf + ", which names the letter. Ingest takes them like any other; one that\n" +
			"is dead again becomes a new dead letter. With --all and --reason, letters of the same bytes are sent once.\n" +
			"What is not whole is listed and left; then the exit code is 1.",
		Example: examples(
			"gputally dlq replay --data DIR --offset 0/17", "one letter, by its own partition and offset",
			"gputally dlq replay --data DIR --all --dry-run", "what would be sent",
		),
		Args: cobra.NoArgs,
	}
	data := dataFlag(cmd)
	flags := cmd.Flags()
	flags.Var(&o.place, "offset", "the letter at this `PARTITION/OFFSET` of the dead-letter topic")
	flags.StringVar(&o.reason, "reason", "", "all letters of this `REASON`")
	flags.BoolVar(&o.all, "all", false, "all letters")
	flags.BoolVar(&o.dryRun, "dry-run", false, "only say what would be sent")
	cmd.MarkFlagsOneRequired("offset", "reason", "all")
	cmd.MarkFlagsMutuallyExclusive("offset", "reason", "all")
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		return s.withBroker(ctx, *data, func(p *pipeline) error { return o.run(ctx, p) })
	})
	return cmd
}

// place is a flag's partition and offset.
type place struct {
	partition int
	offset    int64
	given     bool
}

// String is empty where no place was given.
func (p *place) String() string {
	if !p.given {
		return ""
	}
	return strconv.Itoa(p.partition) + "/" + strconv.FormatInt(p.offset, 10)
}

// Type is what help calls the flag's value.
func (p *place) Type() string { return "PLACE" }

// Set reads partition/offset, as in 0/17.
func (p *place) Set(text string) error {
	partition, offset, _ := strings.Cut(text, "/")
	var errs [2]error
	var number int64
	number, errs[0] = strconv.ParseInt(partition, 10, 32)
	p.offset, errs[1] = strconv.ParseInt(offset, 10, 64)
	if errors.Join(errs[:]...) != nil || number < 0 || p.offset < 0 {
		return fmt.Errorf("want PARTITION/OFFSET, such as 0/17")
	}
	p.partition, p.given = int(number), true
	return nil
}

// dlqReplay is one call of dlq replay.
type dlqReplay struct {
	place       place
	reason      string
	all, dryRun bool

	seen                map[string]bool // key and hash of what was sent
	batch               []broker.Message
	sent, copies, found int
	refused             int
}

// dlqBatch is how many messages are sent together.
const dlqBatch = 500

func (o *dlqReplay) run(ctx context.Context, p *pipeline) error {
	o.seen = map[string]bool{}
	if err := p.eachLetter(ctx, func(l *ingest.DeadLetter) error { return o.take(ctx, p, l) }); err != nil {
		return err
	}
	if err := o.flush(ctx, p); err != nil {
		return err
	}
	if o.place.given && o.found == 0 {
		return fmt.Errorf("dead letter %s: there is none (gputally dlq list%s shows those there are)", o.place.String(), p.access.onData())
	}
	verb := "sent"
	if o.dryRun {
		verb = "would be sent"
	}
	if _, err := fmt.Fprintf(p.s.stdout, "%d of %d dead letters %s, %d copies left out, %d not replayable\n",
		o.sent, o.found, verb, o.copies, o.refused); err != nil {
		return err
	}
	if o.refused > 0 {
		return quietError{"not replayable"}
	}
	return nil
}

func (o *dlqReplay) wants(l *ingest.DeadLetter) bool {
	if o.place.given {
		return l.Partition == o.place.partition && l.Offset == o.place.offset
	}
	return o.all || l.Reason == o.reason
}

func (o *dlqReplay) take(ctx context.Context, p *pipeline, l *ingest.DeadLetter) error {
	if !o.wants(l) {
		return nil
	}
	o.found++
	if err := l.Replayable(); err != nil {
		o.refused++
		_, err = fmt.Fprintf(p.s.stderr, "dead letter %s (%s) is not replayable: %v\n", l.Place(), l.Reason, err)
		return err
	}
	// Letters of one message come of a crash, or of being sent before: without
	// this, sending all of them again and again would double them each time.
	key := string(l.Key) + "\x00" + l.SHA256
	if o.seen[key] {
		o.copies++
		return nil
	}
	o.seen[key] = true
	o.sent++
	if o.dryRun {
		_, err := fmt.Fprintf(p.s.stdout, "%s: %s, %d bytes, from %d/%d\n", l.Place(), l.Reason, l.Size, l.OriginalPartition, l.OriginalOffset)
		return err
	}
	if o.batch = append(o.batch, l.Resend()); len(o.batch) < dlqBatch {
		return nil
	}
	return o.flush(ctx, p)
}

func (o *dlqReplay) flush(ctx context.Context, p *pipeline) error {
	if len(o.batch) == 0 {
		return nil
	}
	if err := p.client.Producer().Produce(ctx, o.batch); err != nil {
		return fmt.Errorf("send dead letters back: %w", err)
	}
	o.batch = o.batch[:0]
	return nil
}

// eachLetter reads the dead letters there are now, oldest first in each
// partition. What no ingest wrote is told and passed over.
func (p *pipeline) eachLetter(ctx context.Context, do func(*ingest.DeadLetter) error) error {
	bounds, err := p.client.Offsets(ctx, broker.TopicDeadLetter, p.cfg.Ingest.Group)
	if err != nil {
		return fmt.Errorf("read dead letters: %w", err)
	}
	for _, b := range bounds {
		reader := p.client.Reader(broker.TopicDeadLetter, b.Partition, b.First, b.Last, broker.ConsumerOptions{MaxBytes: fetchBytes})
		if err := p.eachLetterOf(ctx, reader, do); err != nil {
			return err
		}
	}
	return nil
}

func (p *pipeline) eachLetterOf(ctx context.Context, reader *broker.Reader, do func(*ingest.DeadLetter) error) error {
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
				p.s.log.Warn("passed over", "error", err)
				continue
			}
			if err := do(&letter); err != nil {
				return err
			}
		}
	}
}

// withBroker connects to the data directory's broker, or to the configured one
// where dataDir is empty, and closes what was opened for it.
func (s *session) withBroker(ctx context.Context, dataDir string, do func(p *pipeline) error) (err error) {
	a := &access{}
	if dataDir != "" {
		a, err = s.open(ctx, dataDir, true)
	} else {
		a.cfg, err = s.config("")
	}
	if err != nil {
		return err
	}
	if a.db != nil {
		defer func() { err = errors.Join(err, a.Close()) }()
	}
	if err := a.needBroker(); err != nil {
		return err
	}
	p := s.barePipeline(ctx, a)
	defer func() { err = errors.Join(err, p.group.Stop()) }()
	if err := p.connect(ctx); err != nil {
		return err
	}
	return do(p)
}
