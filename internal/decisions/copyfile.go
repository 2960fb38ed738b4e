package decisions

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/gputally/gputally/internal/files"
)

const (
	copyMagic = "GLDECIS1"
	// copyPrefix is the size of a record's length, CRC and the CRC of both; copyFixed
	// the size of what precedes the key: offset, append time, chain, length of the
	// key.
	copyPrefix = 4 + 4 + 4
	copyFixed  = 8 + 8 + sha256.Size + 4

	// A file is closed, and never written again, at this size or age.
	copyFileBytes = 64 << 20
	copyFileAge   = time.Hour
)

var (
	copyName   = regexp.MustCompile(`^[0-9]{20}-[0-9a-f]{16}\.decisions$`)
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// ErrCopy reports that a copy of the decisions is damaged, or has other decisions.
var ErrCopy = errors.New("copy of the decisions can't be used")

// errDamaged is an ErrCopy of a copy that can be used up to the damage.
var errDamaged = fmt.Errorf("%w: it is damaged", ErrCopy)

// copied is a message in the copy.
type copied struct {
	offset     int64
	appended   time.Time
	chain      [sha256.Size]byte // the chain's value after it
	key, value []byte
}

func (m *copied) encode() []byte {
	out := make([]byte, copyPrefix, copyPrefix+copyFixed+len(m.key)+len(m.value))
	out = binary.BigEndian.AppendUint64(out, uint64(m.offset))
	out = binary.BigEndian.AppendUint64(out, uint64(m.appended.UnixMilli()))
	out = append(out, m.chain[:]...)
	out = binary.BigEndian.AppendUint32(out, uint32(len(m.key)))
	out = append(append(out, m.key...), m.value...)
	binary.BigEndian.PutUint32(out, uint32(len(out)-copyPrefix))
	binary.BigEndian.PutUint32(out[4:], crc32.Checksum(out[copyPrefix:], castagnoli))
	binary.BigEndian.PutUint32(out[8:], crc32.Checksum(out[:8], castagnoli))
	return out
}

// decodeCopied reads what follows a record's prefix; errNoRecord: it is not a record.
func decodeCopied(sum uint32, data []byte) (m copied, err error) {
	if len(data) < copyFixed || crc32.Checksum(data, castagnoli) != sum {
		return m, errNoRecord
	}
	n := binary.BigEndian.Uint32(data[copyFixed-4:])
	if uint64(n) > uint64(len(data)-copyFixed) {
		return m, errNoRecord
	}
	m.offset = int64(binary.BigEndian.Uint64(data))
	m.appended = time.UnixMilli(int64(binary.BigEndian.Uint64(data[8:]))).UTC()
	copy(m.chain[:], data[16:])
	m.key, m.value = data[copyFixed:copyFixed+n], data[copyFixed+n:]
	return m, nil
}

// newCopyFile begins a file at an offset, under a unique name.
func newCopyFile(dir string, offset int64) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create directory of the copy: %w", err)
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	path := filepath.Join(dir, fmt.Sprintf("%020d-%x.decisions", offset, random))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create file of the copy: %w", err)
	}
	_, err = f.WriteString(copyMagic)
	if err = errors.Join(err, files.SyncDir(dir)); err != nil {
		return nil, errors.Join(fmt.Errorf("create file of the copy: %w", err), f.Close())
	}
	return f, nil
}

// scanCopy passes each message of the copy in a directory to do once, by offset, and
// returns the chain's value after each, up to the first error. It recomputes chain and
// CRC. A missing directory has no messages.
func scanCopy(dir string, do func(*copied) error) (chains [][sha256.Size]byte, err error) {
	entries, err := os.ReadDir(dir) // sorted by name: by first offset
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read copy of the decisions: %w", err)
	}
	s := copyScan{do: do}
	for _, e := range entries {
		if !copyName.MatchString(e.Name()) {
			continue
		}
		if err := s.file(filepath.Join(dir, e.Name())); err != nil {
			return s.chains, fmt.Errorf("read copy of the decisions: %w", err)
		}
	}
	if s.damaged != nil && s.damagedAt >= int64(len(s.chains)) { // no later file has these offsets
		return s.chains, fmt.Errorf("read copy of the decisions: %w", s.damaged)
	}
	return s.chains, nil
}

type copyScan struct {
	do     func(*copied) error
	chains [][sha256.Size]byte
	// damaged is the error of a file that can't be read to its end, damagedAt the
	// first offset after it that no other file has.
	damaged   error
	damagedAt int64
}

// file reads until the file's end, or the first invalid record.
func (s *copyScan) file(path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	next, err := strconv.ParseInt(filepath.Base(path)[:20], 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrCopy, path, err)
	}
	r, left := bufio.NewReaderSize(f, 1<<20), info.Size()
	magic := make([]byte, len(copyMagic))
	if n, err := io.ReadFull(r, magic); err != nil || string(magic) != copyMagic {
		if left < int64(len(magic)) && string(magic[:n]) == copyMagic[:n] {
			return nil // torn at its beginning
		}
		return fmt.Errorf("%w: %s begins with %q instead of %q, so it is not a file of the copy", ErrCopy, path,
			magic[:n], copyMagic)
	}
	left -= int64(len(magic))
	for {
		m, size, err := readCopied(r, left)
		switch {
		case errors.Is(err, errTorn): // the end, or a crash: what follows is in the next file
			return nil
		case errors.Is(err, errNoRecord):
			if s.damaged == nil ||
				s.damagedAt < int64(len(s.chains)) { // otherwise an earlier file is where messages are missing
				s.damaged = fmt.Errorf("%w: %s, at byte %d (offset %d)", errDamaged, path, info.Size()-left, next)
				s.damagedAt = next
			}
			return nil
		case err != nil:
			return err
		}
		left -= size
		next++
		if err := s.message(path, &m); err != nil {
			return err
		}
	}
}

var (
	errTorn     = errors.New("record was cut off, or there is none")
	errNoRecord = errors.New("invalid record")
)

// readCopied reads a record of at most left bytes, and how many it has. Errors:
// errTorn where nothing is left, or a crash may have cut it off, errNoRecord where it is none, and
// those of r.
func readCopied(r *bufio.Reader, left int64) (m copied, size int64, err error) {
	if left < copyPrefix {
		return m, 0, errTorn
	}
	prefix := make([]byte, copyPrefix)
	if _, err := io.ReadFull(r, prefix); err != nil {
		return m, 0, err
	}
	if bytes.Count(prefix, []byte{0}) == len(prefix) { // space that a crash left empty
		return m, 0, errTorn
	}
	if crc32.Checksum(prefix[:8], castagnoli) != binary.BigEndian.Uint32(prefix[8:]) {
		return m, 0, errNoRecord
	}
	if size = copyPrefix + int64(binary.BigEndian.Uint32(prefix)); size > left {
		return m, 0, errTorn
	}
	data := make([]byte, size-copyPrefix)
	if _, err := io.ReadFull(r, data); err != nil {
		return m, 0, err
	}
	m, err = decodeCopied(binary.BigEndian.Uint32(prefix[4:]), data)
	return m, size, err
}

// message takes the next offset; one that was read before must be the same.
func (s *copyScan) message(path string, m *copied) error {
	switch next := int64(len(s.chains)); {
	case m.offset > next && s.damaged != nil && s.damagedAt == next:
		return s.damaged
	case m.offset < 0 || m.offset > next:
		return fmt.Errorf("%w: %s begins at offset %d, but %d is the next: a file is missing", ErrCopy, path, m.offset, next)
	case m.offset < next:
		if m.chain != s.chains[m.offset] {
			return fmt.Errorf("%w: %s and an earlier file have different messages at offset %d", ErrCopy, path, m.offset)
		}
		return nil
	}
	var before [sha256.Size]byte
	if m.offset > 0 {
		before = s.chains[m.offset-1]
	}
	if got := Link(before, m.offset, m.key, m.value); got != m.chain {
		return fmt.Errorf("%w: %s has at offset %d the chain %s, but its messages give %s",
			ErrCopy, path, m.offset, hex.EncodeToString(m.chain[:]), hex.EncodeToString(got[:]))
	}
	s.chains = append(s.chains, m.chain)
	return s.do(m)
}
