package decisions

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gputally/gputally/internal/broker"
)

// copier keeps a second directory up to date with the log. A Log calls it while
// reading, one call at a time.
type copier struct {
	dir      string // empty: no copy
	readOnly bool   // another process writes it
	now      func() time.Time

	known [][sha256.Size]byte // its messages when it was opened, until they have been compared
	ends  int64               // the offset at which it ended then
	next  int64               // the next offset to compare or write
	wrong error               // it can't be read, or has other decisions: nothing is written

	file   *os.File
	out    *bufio.Writer
	size   int
	opened time.Time
	synced int64 // offset up to which everything is on disk
}

// openCopier reads the existing copy. It is called before the topic is read, so that a
// topic which has become shorter is noticed.
func openCopier(opt *Options) *copier {
	c := &copier{dir: opt.CopyDir, readOnly: opt.CopyReadOnly, now: opt.Clock.Now}
	if c.dir != "" {
		c.known, c.wrong = scanCopy(c.dir, func(*copied) error { return nil })
		if errors.Is(c.wrong, errDamaged) { // messages after the damage are copied again
			opt.Log.Error("copy of the decisions is damaged; it will be repaired from the log", "dir", c.dir, "error", c.wrong)
			c.wrong = nil
		}
		c.ends = int64(len(c.known))
		c.synced = c.ends
	}
	return c
}

// take compares a message of the log with the copy, or writes it there.
func (c *copier) take(m *broker.Message, chain [sha256.Size]byte) error {
	if c.dir == "" || c.wrong != nil || m.Offset != c.next {
		return nil
	}
	if c.next < c.ends {
		if c.known[c.next] != chain {
			c.wrong = fmt.Errorf(
				"%w: %s differs from the log from offset %d on: either the copy or the log was changed", ErrCopy,
				c.dir, c.next)
			return nil
		}
		if c.next++; c.next == c.ends {
			c.known = nil
		}
		return nil
	}
	if c.readOnly {
		return nil
	}
	if err := c.write(&copied{m.Offset, m.Time, chain, m.Key, m.Value}); err != nil {
		return c.failed(err)
	}
	c.next++
	return nil
}

func (c *copier) write(m *copied) (err error) {
	if c.file == nil {
		if c.file, err = newCopyFile(c.dir, m.offset); err != nil {
			return err
		}
		c.out, c.size, c.opened = bufio.NewWriterSize(c.file, 1<<20), 0, c.now()
	}
	n, err := c.out.Write(m.encode())
	c.size += n
	return err
}

// failed gives the file up; the next file begins with what it lacks.
func (c *copier) failed(err error) error {
	_ = c.file.Close() // the error before says what matters; a file that could not be made is nil
	c.file, c.next = nil, c.synced
	return fmt.Errorf("copy decisions to %s: %w", c.dir, err)
}

// sync writes everything to disk, and closes a file that is large or old enough: it is
// never written again.
func (c *copier) sync() error {
	if c.file == nil {
		return nil
	}
	if c.synced < c.next {
		if err := errors.Join(c.out.Flush(), c.file.Sync()); err != nil {
			return c.failed(err)
		}
		c.synced = c.next
	}
	if c.size < copyFileBytes && c.now().Sub(c.opened) < copyFileAge {
		return nil
	}
	err := c.file.Close()
	c.file = nil
	return err
}

// copyOn brings the copy up to date with what was read. An error here fails no
// decision: it stays in force, and is copied later.
func (l *Log) copyOn(ctx context.Context) {
	c, err := l.copy, error(nil)
	if next := l.next(); c.dir != "" && c.wrong == nil && !c.readOnly && c.next < next {
		err = l.verified(ctx, c.next, next, func(m *broker.Message) error {
			_, chain := l.links(m.Offset)
			return c.take(m, chain)
		})
	}
	if err = errors.Join(err, c.sync()); err != nil && ctx.Err() == nil {
		l.metrics.copyErrors.Inc()
		l.opt.Log.Error("decisions could not be copied; they are in force, and will be copied later", "dir", c.dir,
			"error", err)
	}
	if c.dir != "" {
		l.metrics.copyLag.Set(float64(max(l.next()-c.synced, 0)))
	}
	l.mu.Lock()
	l.copied = standing{c.wrong, c.ends}
	head := l.state.Head()
	l.mu.Unlock()
	l.metrics.showHead(head)
	if l.metrics.whole.Set(0); l.Whole() == nil {
		l.metrics.whole.Set(1)
	}
}

// Whole returns an error if the copy has decisions that the log lacks (ErrDeleted) or
// that differ from the log's (ErrCopy), as far as the log was read.
func (l *Log) Whole() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	c := l.copied
	switch next := l.state.Next(); {
	case c.wrong != nil:
		return fmt.Errorf(
			"%w: no decisions are accepted until the topic has been restored (gputally audit restore --from %s --data DIR), "+
				"or, if the log is right, until the copy's directory has been moved away", c.wrong, l.opt.CopyDir)
	case next < c.ends:
		end := fmt.Sprintf("ends before offset %d", next)
		if next == 0 {
			end = "is empty"
		}
		return fmt.Errorf(
			"%w: the log %s, its copy ends before %d: no decisions are accepted until the topic has been restored: "+
				"gputally audit restore --from %s --data DIR", ErrDeleted, end, c.ends, l.opt.CopyDir)
	}
	return nil
}

// standing is what Whole needs to know of the copy.
type standing struct {
	wrong error
	ends  int64
}

// Close closes the copy's file.
func (l *Log) Close() error {
	_ = l.reading.Acquire(context.Background(), 1) // can't fail: every reader's context ends
	defer l.reading.Release(1)
	if l.copy == nil || l.copy.file == nil {
		return nil
	}
	err := l.copy.file.Close()
	l.copy.file = nil
	return err
}
