package spool

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// model is a spool without damage or failures, as its documentation has it: lists of
// records instead of counters and positions.
type model struct {
	opt      Options
	records  [][]byte // all ever appended, by id-1
	settled  int      // of them: acknowledged or lost
	lost     []lost   // not announced yet
	dropped  int      // all lost ones
	segments []modelSegment
	inUse    bool // the last segment is appended to
	read     int  // ids up to this were handed out
	saves    uint64
	durable  state
}

type lost struct {
	id     int
	reason string
}

type modelSegment struct{ from, to int } // ids, inclusive

func (s modelSegment) bytes(records [][]byte) (n int) {
	n = 32
	for _, r := range records[s.from-1 : s.to] {
		n += 24 + len(r)
	}
	return n
}

func (m *model) bytes() (n int) {
	for _, s := range m.segments {
		n += s.bytes(m.records)
	}
	return n
}

func (m *model) meta() (meta Meta) {
	for _, r := range m.records {
		o, ok := describe(r)
		if !ok {
			continue
		}
		if meta.LastSlotStartMS == nil {
			meta.LastSlotStartMS = map[string]int64{}
		}
		meta.LastSlotStartMS[o.Node] = max(meta.LastSlotStartMS[o.Node], o.SlotStartMS)
		if o.BootMS > meta.BootMS {
			meta.BootMS, meta.LastSeq = o.BootMS, 0
		}
		if o.BootMS == meta.BootMS {
			meta.LastSeq = max(meta.LastSeq, o.Seq)
		}
	}
	return meta
}

func (m *model) ranges() (ranges []DroppedRange) {
	for i, l := range m.lost {
		o, _ := describe(m.records[l.id-1])
		id := uint64(l.id)
		if i > 0 && m.lost[i-1].id == l.id-1 && m.lost[i-1].reason == l.reason {
			last := &ranges[len(ranges)-1]
			if last.BootMS == o.BootMS && (o.BootMS == 0 || last.ToSeq+1 == o.Seq) {
				last.ToID, last.ToSeq = id, o.Seq
				continue
			}
		}
		ranges = append(ranges, DroppedRange{FromID: id, ToID: id, BootMS: o.BootMS, FromSeq: o.Seq, ToSeq: o.Seq, Reason: l.reason})
	}
	return ranges
}

func (m *model) stats() Stats {
	return Stats{
		Appended: uint64(len(m.records)), Cursor: uint64(m.settled - m.dropped), Records: uint64(len(m.records) - m.settled),
		Dropped: uint64(m.dropped), DroppedRanges: m.ranges(), Bytes: int64(m.bytes()), Segments: len(m.segments),
	}
}

func (m *model) save() {
	m.saves++
	last := uint64(len(m.records))
	m.durable = state{
		Head: uint64(m.settled + 1), Last: last, Acked: uint64(m.settled - m.dropped), Dropped: uint64(m.dropped),
		Ranges: m.ranges(), Meta: m.meta(), MetaThrough: last,
	}
}

func (m *model) remove() {
	for len(m.segments) > 0 && m.segments[0].to < int(m.durable.Head) && (len(m.segments) > 1 || !m.inUse) {
		m.segments = m.segments[1:]
	}
}

func (m *model) append(recs [][]byte) error {
	need := 32
	for _, r := range recs {
		need += 24 + len(r)
	}
	if need > int(m.opt.MaxBytes) {
		return ErrTooLarge
	}
	for m.bytes()+need > int(m.opt.MaxBytes) {
		switch {
		case m.settled == len(m.records):
			m.inUse = false
			m.save()
		case m.opt.Policy == Block:
			return context.DeadlineExceeded
		default:
			m.inUse = m.inUse && len(m.segments) > 1
			for m.settled < m.segments[0].to {
				m.settled++
				m.dropped++
				m.lost = append(m.lost, lost{m.settled, ReasonFull})
			}
			m.save()
		}
		m.remove()
	}
	if len(recs) == 0 {
		return nil
	}
	if m.inUse && m.segments[len(m.segments)-1].bytes(m.records)+need-32 > int(m.opt.SegmentBytes) {
		m.inUse = false
		m.save()
	}
	m.records = append(m.records, recs...)
	if !m.inUse {
		m.segments = append(m.segments, modelSegment{from: len(m.records) - len(recs) + 1})
		m.inUse = true
	}
	m.segments[len(m.segments)-1].to = len(m.records)
	return nil
}

func (m *model) ack(id int, refused []int) {
	if id <= m.settled {
		return
	}
	for _, r := range refused {
		if r > m.settled && r <= id {
			m.lost = append(m.lost, lost{r, ReasonRefused})
			m.dropped++
		}
	}
	m.settled = id
	if m.settled == len(m.records) && m.bytes() >= int(m.opt.SegmentBytes/4) {
		m.inUse = false
	}
	m.save()
	m.remove()
}

func (m *model) next(limit int) (ids []int) {
	m.read = max(m.read, m.settled)
	for _, s := range m.segments {
		for len(ids) < limit && s.from <= m.read+1 && m.read < s.to {
			m.read++
			ids = append(ids, m.read)
		}
		if len(ids) > 0 {
			return ids
		}
	}
	return nil
}

func (m *model) reopen() {
	m.save() // of Close
	m.save() // of Open
	m.inUse = len(m.segments) > 0
	m.read = m.settled
	m.remove()
}

// files are the segments byte for byte, as FORMAT.md draws them.
func (m *model) files() map[string][]byte {
	le, crc := binary.LittleEndian, func(parts ...[]byte) uint32 {
		return crc32.Checksum(bytes.Join(parts, nil), crc32.MakeTable(crc32.Castagnoli))
	}
	out := map[string][]byte{}
	for _, s := range m.segments {
		first := le.AppendUint64(nil, uint64(s.from))
		file := append(le.AppendUint32([]byte("GPULSEG\x00"), 1), first...)
		file = append(le.AppendUint32(file, crc(file)), make([]byte, 8)...)
		for id := s.from; id <= s.to; id++ {
			data := m.records[id-1]
			head := le.AppendUint32([]byte("gLr\x01"), uint32(len(data)))
			head = le.AppendUint32(le.AppendUint64(head, uint64(id)), crc(data))
			file = append(append(le.AppendUint32(append(file, head...), crc(first, head)), data...), []byte(nil)...)
		}
		out[fmt.Sprintf("%020d.seg", s.from)] = file
	}
	return out
}

// newestState reads the state files without the spool's own code.
func newestState(t *testing.T, dir string, disk *memFS) (st state, generation uint64) {
	t.Helper()
	for i, name := range []string{"state.0", "state.1"} {
		inode := disk.files[filepath.Join(dir, name)]
		if inode == nil {
			continue
		}
		g, size := binary.LittleEndian.Uint64(inode.data[8:]), binary.LittleEndian.Uint32(inode.data[16:])
		body := inode.data[24 : 24+size]
		sum := crc32.Checksum(append(slices.Clone(inode.data[:20]), body...), crc32.MakeTable(crc32.Castagnoli))
		if sum != binary.LittleEndian.Uint32(inode.data[20:]) || g%2 != uint64(i) || string(inode.data[:8]) != "GPULSTA\x01" {
			t.Fatalf("%s is not a state file of generation %d", name, g)
		}
		if g > generation {
			st, generation = state{}, g
			if err := json.Unmarshal(body, &st); err != nil {
				t.Fatal(err)
			}
		}
	}
	return st, generation
}

// compare holds everything that a spool shows against the model.
func (m *model) compare(t *testing.T, s *Spool, disk *memFS) {
	t.Helper()
	if diff := cmp.Diff(m.stats(), s.Stats(), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("Stats (-model +spool):\n%s", diff)
	}
	outside, err := readStats(s.dir, s.opt)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m.stats(), outside, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("ReadStats (-model +spool):\n%s", diff)
	}
	if diff := cmp.Diff(m.meta(), s.Meta()); diff != "" {
		t.Fatalf("Meta (-model +spool):\n%s", diff)
	}
	st, generation := newestState(t, s.dir, disk)
	if diff := cmp.Diff(m.durable, st, cmpopts.EquateEmpty()); diff != "" || generation != m.saves {
		t.Fatalf("saved state, generation %d, want %d (-model +spool):\n%s", generation, m.saves, diff)
	}
	got := map[string][]byte{}
	for path, inode := range disk.files {
		if name := filepath.Base(path); filepath.Ext(name) == ".seg" {
			got[name] = inode.data
			if !bytes.Equal(inode.data, inode.synced) {
				t.Fatalf("%s is not synced", name)
			}
		}
	}
	if want := m.files(); !maps.EqualFunc(want, got, bytes.Equal) {
		t.Fatalf("segments (-model +spool):\n%s", cmp.Diff(want, got))
	}
}

func TestAgainstAModel(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { againstModel(t, rand.New(rand.NewPCG(seed, 12))) })
	}
}

func againstModel(t *testing.T, rng *rand.Rand) {
	t.Helper()
	dir, disk := t.TempDir(), newMemFS()
	opt := Options{
		SegmentBytes: int64(300 + rng.IntN(1200)), MaxBytes: minMaxBytes + int64(rng.IntN(3000)),
		Policy: Policy(rng.IntN(2)), Describe: describe, fs: disk,
	}
	m := &model{opt: opt}
	m.opt.SegmentBytes = min(opt.SegmentBytes, opt.MaxBytes/4)
	m.save()
	s := open(t, dir, opt)
	boot, seq := int64(1), uint64(0)
	for range 250 {
		switch op := rng.IntN(20); {
		case op < 9:
			var recs [][]byte
			for range rng.IntN(4) {
				if seq += 1 + uint64(rng.IntN(8)/7); rng.IntN(20) == 0 {
					boot, seq = boot+1, 0
				}
				recs = append(recs, record(boot, seq, rng.IntN(300))[:])
				if rng.IntN(12) == 0 {
					recs[len(recs)-1] = recs[len(recs)-1][:rng.IntN(16)] // has no coordinates
				}
			}
			if rng.IntN(20) == 0 || m.settled == len(m.records) && rng.IntN(3) == 0 { // as large as fits, or a byte larger
				recs = [][]byte{record(boot, seq+1, int(opt.MaxBytes)-56+rng.IntN(2))}
			}
			want := len(m.records) + 1
			first, err := s.Append(&ended{Context: t.Context()}, recs)
			if wantErr := m.append(recs); !errors.Is(err, wantErr) || err == nil && first != uint64(want) {
				t.Fatalf("Append gave id %d, %v; want %d, %v", first, err, want, wantErr)
			}
		case op < 13:
			limit := rng.IntN(6)
			recs, err := s.Next(&ended{Context: t.Context()}, limit)
			ids := m.next(max(limit, 1))
			if len(recs) != len(ids) || (len(ids) == 0) != errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("Next gave %d records, %v; want %v", len(recs), err, ids)
			}
			for i, id := range ids {
				if recs[i].ID != uint64(id) || !bytes.Equal(recs[i].Data, m.records[id-1]) {
					t.Fatalf("Next gave %d as record %d, want %d", recs[i].ID, i, id)
				}
			}
		case op < 17:
			m.acknowledge(t, rng, s)
		case op < 18:
			s.Rewind()
			m.read = m.settled
		case op < 19:
			m.forget(t, rng, s)
		default:
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, opt)
			m.reopen()
		}
		m.compare(t, s, disk)
	}
	if crashed := checkSum(t, openAt(t, dir, disk, opt)); !cmp.Equal(m.stats(), crashed, cmpopts.EquateEmpty()) {
		// Only segments that are settled may be gone.
		if crashed.Segments = m.stats().Segments; crashed.Records != m.stats().Records || crashed.Appended != m.stats().Appended {
			t.Errorf("after a crash (-model +spool):\n%s", cmp.Diff(m.stats(), crashed))
		}
	}
}

func (m *model) acknowledge(t *testing.T, rng *rand.Rand, s *Spool) {
	t.Helper()
	id := m.settled + rng.IntN(8) - 1
	if rng.IntN(4) == 0 {
		id = len(m.records) + rng.IntN(2) // all, or one that was never appended
	}
	id = max(id, 0)
	var refused []int
	var recs []Record
	for r := m.settled - 1; r <= id+1; r++ {
		if r > 0 && r <= len(m.records) && rng.IntN(3) == 0 {
			refused = append(refused, r)
			recs = append(recs, Record{ID: uint64(r), Data: m.records[r-1]})
		}
	}
	err := s.Ack(uint64(id), recs...)
	if (err != nil) != (id > len(m.records)) {
		t.Fatalf("Ack of %d when %d were appended: %v", id, len(m.records), err)
	}
	if err == nil {
		m.ack(id, refused)
	}
}

// forget announces some of the ranges, one of them perhaps as it was before it grew.
func (m *model) forget(t *testing.T, rng *rand.Rand, s *Spool) {
	t.Helper()
	var announced []DroppedRange
	for _, r := range m.ranges() {
		if rng.IntN(2) == 0 {
			continue
		}
		if cut := min(uint64(rng.IntN(3)), r.ToID-r.FromID); r.BootMS != 0 {
			r.ToID, r.ToSeq = r.ToID-cut, r.ToSeq-cut
		}
		announced = append(announced, r)
	}
	if err := s.ForgetDropped(announced); err != nil {
		t.Fatal(err)
	}
	m.lost = slices.DeleteFunc(m.lost, func(l lost) bool {
		return slices.ContainsFunc(announced, func(r DroppedRange) bool { return r.FromID <= uint64(l.id) && uint64(l.id) <= r.ToID })
	})
	m.save()
}
