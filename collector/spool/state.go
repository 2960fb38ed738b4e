package spool

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"path/filepath"
)

// Origin identifies a record among those that its collector sent.
type Origin struct {
	BootMS      int64  // start of the boot, Unix ms
	Seq         uint64 // the number within the boot
	Node        string
	SlotStartMS int64 // Unix ms
}

// Meta is what a starting collector must know about earlier boots: it covers every record ever appended, including
// acknowledged ones.
type Meta struct {
	BootMS          int64            `json:"boot_ms"`  // the greatest boot of any record
	LastSeq         uint64           `json:"last_seq"` // that boot's greatest seq
	LastSlotStartMS map[string]int64 `json:"last_slot_start_ms,omitempty"`
}

// fold is idempotent and commutative, so that records may be folded again.
func (m *Meta) fold(o Origin) {
	switch {
	case o.BootMS > m.BootMS:
		m.BootMS, m.LastSeq = o.BootMS, o.Seq
	case o.BootMS == m.BootMS:
		m.LastSeq = max(m.LastSeq, o.Seq)
	}
	if o.Node == "" {
		return
	}
	if m.LastSlotStartMS == nil {
		m.LastSlotStartMS = map[string]int64{}
	}
	if last, ok := m.LastSlotStartMS[o.Node]; !ok || o.SlotStartMS > last {
		m.LastSlotStartMS[o.Node] = o.SlotStartMS
	}
}

func (m Meta) clone() Meta {
	m.LastSlotStartMS = maps.Clone(m.LastSlotStartMS)
	return m
}

// state is what the spool stores besides its segments. Records below Head are acknowledged, dropped or refused.
type state struct {
	Head        uint64         `json:"head"`           // lowest id that is neither acknowledged nor dropped
	Last        uint64         `json:"last"`           // greatest id known to have been returned by Append
	Acked       uint64         `json:"acked"`          // ids below Head that were acknowledged
	Dropped     uint64         `json:"dropped"`        // ids below Head that were dropped, refused or damaged
	Corrupt     uint64         `json:"corrupt"`        // ids in Dropped that were damaged
	TornBytes   int64          `json:"torn_bytes"`     // total size of truncated unfinished appends
	Gaps        []gap          `json:"gaps,omitempty"` // damaged ids from Head on; each becomes a range once
	Ranges      []DroppedRange `json:"ranges,omitempty"`
	Meta        Meta           `json:"meta"`
	MetaThrough uint64         `json:"meta_through"` // Meta covers ids up to this
}

// gap is a range of damaged ids.
type gap struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"` // inclusive
}

// State is stored in two files in turn, each written in place and synced: an interrupted write leaves the other
// intact, and on a full disk the blocks are already allocated.
var stateNames = [2]string{"state.0", "state.1"}

const (
	stateMagic     = "GPULSTA\x01"
	stateHeadBytes = 24 // magic 8, generation 8, length 4, CRC 4
)

type stateStore struct {
	fs         fileSystem
	dir        string
	generation uint64
}

func encodeState(st state, generation uint64) ([]byte, error) {
	body, err := json.Marshal(st)
	if err != nil {
		return nil, fmt.Errorf("encode state: %w", err)
	}
	buf := append(make([]byte, 0, stateHeadBytes+len(body)), stateMagic...)
	buf = binary.LittleEndian.AppendUint64(buf, generation)
	buf = binary.LittleEndian.AppendUint32(buf, uint32(len(body)))
	crc := crc32.Update(crc32.Checksum(buf, castagnoli), castagnoli, body)
	buf = binary.LittleEndian.AppendUint32(buf, crc)
	return append(buf, body...), nil
}

func decodeState(buf []byte) (st state, generation uint64, ok bool) {
	if len(buf) < stateHeadBytes || string(buf[:len(stateMagic)]) != stateMagic {
		return state{}, 0, false
	}
	generation = binary.LittleEndian.Uint64(buf[8:])
	length := int(binary.LittleEndian.Uint32(buf[16:]))
	if length > len(buf)-stateHeadBytes {
		return state{}, 0, false
	}
	body := buf[stateHeadBytes : stateHeadBytes+length]
	crc := crc32.Update(crc32.Checksum(buf[:20], castagnoli), castagnoli, body)
	if crc != binary.LittleEndian.Uint32(buf[20:]) || json.Unmarshal(body, &st) != nil || st.Head == 0 {
		return state{}, 0, false
	}
	return st, generation, true
}

// load returns the newest intact state; ok is false if there is none.
func (s *stateStore) load() (newest state, ok bool, err error) {
	for _, name := range stateNames {
		f, err := s.fs.Open(filepath.Join(s.dir, name), false)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return state{}, false, fmt.Errorf("open %s: %w", name, err)
		}
		buf, err := readAll(f, nil)
		if err = errors.Join(err, f.Close()); err != nil {
			return state{}, false, fmt.Errorf("read %s: %w", name, err)
		}
		st, generation, whole := decodeState(buf)
		if whole && (!ok || generation > s.generation) {
			newest, ok, s.generation = st, true, generation
		}
	}
	return newest, ok, nil
}

// save makes st durable. After a failed save the previous state remains valid.
func (s *stateStore) save(st state) error {
	generation := s.generation + 1
	buf, err := encodeState(st, generation)
	if err != nil {
		return err
	}
	name := stateNames[generation%2]
	f, err := s.fs.Open(filepath.Join(s.dir, name), true)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	_, err = f.WriteAt(buf, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if generation <= uint64(len(stateNames)) {
		if err := s.fs.SyncDir(s.dir); err != nil {
			return fmt.Errorf("sync directory: %w", err)
		}
	}
	s.generation = generation
	return nil
}

// DroppedRange is a range of lost records, for the collector to announce (C4). If BootMS is 0 the seqs are unknown,
// because nothing near the loss could be read.
type DroppedRange struct {
	FromID  uint64 `json:"from_id"`
	ToID    uint64 `json:"to_id"` // inclusive
	BootMS  int64  `json:"boot_ms,omitempty"`
	FromSeq uint64 `json:"from_seq,omitempty"`
	ToSeq   uint64 `json:"to_seq,omitempty"` // inclusive
	Reason  string `json:"reason"`
}

// Reasons of a DroppedRange.
const (
	ReasonFull    = "spool_full"
	ReasonCorrupt = "spool_corrupt"
	ReasonRefused = "refused" // refused by the broker permanently
)

func (r DroppedRange) count() uint64 { return r.ToID - r.FromID + 1 }

// follows returns whether next continues r, so that one range can cover both.
func (r DroppedRange) follows(next DroppedRange) bool {
	return r.Reason == next.Reason && r.ToID+1 == next.FromID && r.BootMS == next.BootMS &&
		(r.BootMS == 0 || r.ToSeq+1 == next.FromSeq)
}

func addRange(ranges []DroppedRange, r DroppedRange) []DroppedRange {
	if n := len(ranges); n > 0 && ranges[n-1].follows(r) {
		ranges[n-1].ToID, ranges[n-1].ToSeq = r.ToID, r.ToSeq
		return ranges
	}
	return append(ranges, r)
}

// forgetRange removes r from ranges. A range that has grown at its end since r was read keeps the new part.
func forgetRange(ranges []DroppedRange, r DroppedRange) []DroppedRange {
	var kept []DroppedRange
	for _, have := range ranges {
		if have.FromID == r.FromID && have.ToID > r.ToID {
			if have.BootMS != 0 {
				have.FromSeq += r.count()
			}
			have.FromID = r.ToID + 1
		} else if have.FromID >= r.FromID && have.ToID <= r.ToID {
			continue
		}
		kept = append(kept, have)
	}
	return kept
}
