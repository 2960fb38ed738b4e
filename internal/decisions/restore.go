package decisions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/gputally/gputally/internal/broker"
)

// Limits of one call to the broker.
const (
	restoreMessages = 500
	restoreBytes    = 4 << 20
)

// Restore appends the messages that a copy has and the log lacks, with the same keys
// and bytes at the same offsets, and returns their number. The log must be the
// beginning of the copy; otherwise Restore returns an error with the first offset that
// differs, and writes nothing. An interrupted restore is continued by the next one.
// Append times are those of the copy, kept in a header. A copy that contradicts the
// witness's file, or for whose heads (State.HeadAt) agrees returns an error, is
// refused before anything is appended; one that is merely shorter is accepted as all
// there is. Nobody else may append meanwhile: Restore stops at an offset that isn't
// the copy's.
func (l *Log) Restore(
	ctx context.Context, dir string, agrees func(headAt func(offset int64) Head) error, progress func(done, total int64),
) (restored int64, err error) {
	if err := l.Refresh(ctx); err != nil {
		return 0, err
	}
	chains, err := scanCopy(dir, func(*copied) error { return nil })
	if err == nil && len(chains) == 0 {
		err = fmt.Errorf("%w: %s has no decisions", ErrCopy, dir)
	}
	if err == nil {
		err = l.begins(chains)
	}
	if err == nil {
		err = l.usable()
	}
	if err == nil {
		headAt := headsOf(chains)
		if _, _, err = l.opt.Witness.compare(headAt); errors.Is(err, errShort) {
			err = nil
		}
		if err == nil && agrees != nil {
			err = agrees(headAt)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("restore decisions: %w", err)
	}
	b := restoring{log: l, from: l.next(), total: int64(len(chains)), progress: progress}
	if _, err = scanCopy(dir, func(m *copied) error { return b.take(ctx, m) }); err == nil {
		err = b.flush(ctx)
	}
	if err == nil {
		err = l.readTo(ctx, b.total-1)
	}
	if err == nil {
		err = l.begins(chains)
	}
	if err != nil {
		return b.done, fmt.Errorf("restore decisions: %w", err)
	}
	return b.done, nil
}

// headsOf gives the heads of a copy, as State.HeadAt gives those of a log.
func headsOf(chains [][sha256.Size]byte) func(offset int64) Head {
	return func(offset int64) Head {
		if offset < 0 || offset >= int64(len(chains)) {
			return Head{Offset: offset}
		}
		return Head{offset, hex.EncodeToString(chains[offset][:])}
	}
}

// usable returns an error if the configured copy can't be used: then nothing could be
// decided on the restored log, not even the record of who restored it.
func (l *Log) usable() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if wrong := l.copied.wrong; wrong != nil {
		return fmt.Errorf("%w: move the copy's directory away first", wrong)
	}
	return nil
}

// begins returns an error with the first offset at which log and copy differ.
func (l *Log) begins(chains [][sha256.Size]byte) error {
	for offset := range min(l.next(), int64(len(chains))) {
		if _, chain := l.links(offset); chain != chains[offset] {
			return fmt.Errorf("%w: log and copy differ from offset %d on: the log's chain there is %s, the copy's %s: "+
				"remove the topic if the copy is right", ErrCopy, offset, hex.EncodeToString(chain[:]),
				hex.EncodeToString(chains[offset][:]))
		}
	}
	return nil
}

// restoring is a batch of messages being restored.
type restoring struct {
	log         *Log
	from, total int64
	done        int64
	msgs        []broker.Message
	bytes       int
	progress    func(done, total int64)
}

func (b *restoring) take(ctx context.Context, m *copied) error {
	if m.offset < b.from {
		return nil
	}
	b.msgs = append(b.msgs, m.message())
	b.bytes += len(m.value)
	if len(b.msgs) < restoreMessages && b.bytes < restoreBytes {
		return nil
	}
	return b.flush(ctx)
}

// message is the message that restores the record.
func (m *copied) message() broker.Message {
	kind := Kind(m.key)
	if isDigest(string(m.key)) {
		kind = KindPart
	}
	out := message(kind, string(m.key), m.value)
	out.Headers = append(out.Headers,
		broker.Header{Key: appendedHeader, Value: strconv.AppendInt(nil, m.appended.UnixMilli(), 10)})
	return out
}

func (b *restoring) flush(ctx context.Context) error {
	if len(b.msgs) == 0 {
		return nil
	}
	if err := b.log.producer.Produce(ctx, b.msgs); err != nil {
		return err
	}
	for i := range b.msgs {
		if want := b.from + b.done; b.msgs[i].Offset != want {
			return fmt.Errorf(
				"%w: offset %d of the copy was written at offset %d, because another writer appended meanwhile: delete the "+
					"topic and "+
					"restore it again",
				errAltered, want, b.msgs[i].Offset)
		}
		b.done++
	}
	b.msgs, b.bytes = b.msgs[:0], 0
	if b.progress != nil {
		b.progress(b.from+b.done, b.total)
	}
	return nil
}

// Compare compares the log with the whole copy, which it reads again, and with the
// witness's file; it returns the number of their messages and lines. Errors: ErrCopy,
// ErrDeleted, ErrWitness.
func (l *Log) Compare() (messages int64, lines int, err error) {
	var errs []error
	if l.opt.CopyDir != "" {
		chains, err := scanCopy(l.opt.CopyDir, func(*copied) error { return nil })
		if err == nil {
			err = l.begins(chains)
		}
		messages = int64(len(chains))
		errs = append(errs, err, l.Whole())
	}
	var heads State
	l.View(func(s *State) { heads.past = s.past }) // existing entries never change
	lines, unfinished, err := l.opt.Witness.compare(heads.HeadAt)
	if unfinished > 0 {
		l.opt.Log.Warn("the witness's file has unfinished lines, as a crash or a full disk leaves them; they aren't compared",
			"file", l.opt.Witness.File, "lines", unfinished)
	}
	return messages, lines, errors.Join(append(errs, err)...)
}
