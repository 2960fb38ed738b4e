package decisions

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/gputally/gputally/internal/broker"
)

// Link is the next value of the chain.
func Link(before [sha256.Size]byte, offset int64, key, value []byte) [sha256.Size]byte {
	message := sha256.New()
	message.Write(key)
	message.Write([]byte{0})
	message.Write(value)
	link := make([]byte, 0, sha256.Size+8+sha256.Size)
	link = append(link, before[:]...)
	link = binary.BigEndian.AppendUint64(link, uint64(offset))
	return sha256.Sum256(message.Sum(link))
}

// links are the chain's values before and after an offset.
func (l *Log) links(offset int64) (before, after [32]byte) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if offset > 0 {
		before = l.state.past[offset-1].chain
	}
	return before, l.state.past[offset].chain
}

// verified hands over messages of offsets that were folded before, and compares
// each with the chain, so that what is read is what was decided.
func (l *Log) verified(ctx context.Context, from, to int64, do func(*broker.Message) error) error {
	if next := l.next(); from < 0 || to > next {
		return fmt.Errorf("offsets [%d, %d) are not within [0, %d)", from, to, next)
	}
	return l.each(ctx, from, to, func(m *broker.Message) error {
		if before, after := l.links(m.Offset); Link(before, m.Offset, m.Key, m.Value) != after {
			return fmt.Errorf("offset %d: %w: the chain there is %s", m.Offset, errAltered, hex.EncodeToString(after[:]))
		}
		return do(m)
	})
}
