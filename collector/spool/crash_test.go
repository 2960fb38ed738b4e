package spool

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var crashSeeds = flag.Int("crash-seeds", 1000, "seeds of TestPowerCut")

// oracle remembers what the spool said.
type oracle struct {
	safe  map[uint64][]byte   // acknowledged by Append
	tried map[uint64][][]byte // every record that was ever given an id
	acked uint64              // greatest id given to Ack
}

// use appends and acknowledges at random until the machine stops, or for n steps.
func (o *oracle) use(s *Spool, rng *rand.Rand, n int) {
	ctx := context.Background()
	for range n {
		if rng.IntN(3) == 0 {
			if last := s.Stats().Appended; last > o.acked {
				o.acked += 1 + rng.Uint64N(last-o.acked)
				_ = s.Ack(o.acked) // an error leaves the cursor behind, no more
			}
			continue
		}
		next := s.Stats().Appended + 1
		var recs [][]byte
		for i := range 1 + rng.Uint64N(3) {
			rec := record(rng.Int64(), next+i, 16+rng.IntN(700))
			recs = append(recs, rec)
			o.tried[next+i] = append(o.tried[next+i], rec)
		}
		first, err := s.Append(ctx, recs)
		if err != nil {
			continue
		}
		for i, rec := range recs {
			o.safe[first+uint64(i)] = rec
		}
	}
}

// check asserts that everything acknowledged is there, and nothing else that
// was not at least tried.
func (o *oracle) check(t *testing.T, s *Spool) {
	t.Helper()
	got := map[uint64][]byte{}
	for _, r := range drainRecords(t, s) {
		got[r.ID] = r.Data
	}
	for id, want := range o.safe {
		if data, ok := got[id]; id > o.acked && (!ok || !bytes.Equal(data, want)) {
			t.Errorf("acknowledged record %d: there %v, same %v", id, ok, bytes.Equal(data, want))
		}
	}
	for id, data := range got {
		known := false
		for _, rec := range o.tried[id] {
			known = known || bytes.Equal(rec, data)
		}
		if !known {
			t.Errorf("record %d was never appended", id)
		}
	}
	// Of a group that was never acknowledged a later record may have reached the
	// disk without an earlier one; that one is told as damage. Nothing else is.
	st := checkSum(t, s)
	told := uint64(0)
	for _, r := range st.DroppedRanges {
		told += r.count()
		for id := r.FromID; id <= r.ToID; id++ {
			if o.safe[id] != nil {
				t.Errorf("acknowledged record %d is told as %s", id, r.Reason)
			}
		}
	}
	if st.Dropped != told || st.CorruptRecords != told {
		t.Errorf("%d records counted as dropped, %d as corrupt, ranges tell %d", st.Dropped, st.CorruptRecords, told)
	}
}

// TestPowerCut stops the machine at a random operation, drops a random part of
// what was not synced, and opens what is left; several times over.
func TestPowerCut(t *testing.T) {
	dir := t.TempDir()
	seeds := *crashSeeds
	if testing.Short() {
		seeds = min(seeds, 100)
	}
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 0))
		disk := newMemFS()
		o := &oracle{safe: map[uint64][]byte{}, tried: map[uint64][][]byte{}}
		for round := 0; round < 3 && !t.Failed(); round++ {
			disk.stopAt = 1 + rng.IntN(200)
			opt := Options{SegmentBytes: 3000, MaxBytes: 1 << 20, fs: disk}
			if s, err := Open(dir, opt); err == nil {
				o.use(s, rng, 40)
				_ = s.Close() // the machine may be off
			}
			disk = disk.crash(rng)
			opt.fs = disk.clone()
			s, err := Open(dir, opt)
			if err != nil {
				t.Fatalf("seed %d round %d: Open after the power cut: %v", seed, round, err)
			}
			o.check(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			o.forgetFailed(s.Stats().Appended)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// forgetFailed takes what survived of a failed append as appended: the next
// boot's ids follow on.
func (o *oracle) forgetFailed(last uint64) {
	o.acked = min(o.acked, last)
}

func TestFullDiskRecovers(t *testing.T) {
	dir, disk := t.TempDir(), newMemFS()
	disk.capacityBytes = 6000
	s := open(t, dir, Options{SegmentBytes: 1000, fs: disk})
	var appended uint64
	for {
		_, err := s.Append(testContext(t), [][]byte{make([]byte, 100), make([]byte, 100)})
		if errors.Is(err, syscall.ENOSPC) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		appended += 2
	}
	if _, err := s.Append(testContext(t), [][]byte{make([]byte, 300)}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Append on a full disk: %v, want ENOSPC", err)
	}
	if st := checkSum(t, s); st.Appended != appended || st.Dropped != 0 {
		t.Errorf("stats %+v, want %d appended", st, appended)
	}
	if diff := cmp.Diff(ids(1, appended), drain(t, s)); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	if err := s.Ack(appended); err != nil {
		t.Fatalf("Ack on a full disk: %v", err)
	}
	appendSeqs(t, s, 0, 2, 100)
	if diff := cmp.Diff(ids(appended+1, appended+2), drain(t, s)); diff != "" {
		t.Errorf("ids after space returned (-want +got):\n%s", diff)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{SegmentBytes: 1000, fs: disk})
	if st := checkSum(t, s); st.Records != 2 || st.CorruptRecords != 0 || st.TornBytes != 0 {
		t.Errorf("stats after reopening %+v, want 2 records and no damage", st)
	}
}

// TestFailingDisk fails each kind of operation on segments once, at each place
// of a short workload.
func TestFailingDisk(t *testing.T) {
	dir := t.TempDir()
	for _, op := range []string{"create", "write", "sync", "syncdir", "truncate", "remove"} {
		for at := 1; at <= 12; at++ {
			disk := newMemFS()
			s := open(t, dir, Options{SegmentBytes: 700, MaxBytes: minMaxBytes, fs: disk})
			count := 0
			disk.fail = func(did, name string) error {
				if did == op && (strings.HasSuffix(name, segmentSuffix) || did == "syncdir") {
					if count++; count == at {
						return syscall.EIO
					}
				}
				return nil
			}
			o := &oracle{safe: map[uint64][]byte{}, tried: map[uint64][][]byte{}}
			failed := o.appendTen(s)
			if wrote := op == "write" || op == "sync"; wrote && count >= at && failed != 1 {
				t.Errorf("%s %d: %d appends failed, want the one", op, at, failed)
			}
			disk.fail = nil
			o.check(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			again := open(t, dir, Options{SegmentBytes: 700, MaxBytes: minMaxBytes, fs: disk})
			o.check(t, again)
			if t.Failed() {
				t.Fatalf("%s %d", op, at)
			}
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestFailedAppendIsCutOff(t *testing.T) {
	dir, disk := t.TempDir(), newMemFS()
	s := open(t, dir, Options{fs: disk})
	appendSeqs(t, s, 0, 3, 100)
	disk.fail = func(op, name string) error {
		if op == "sync" && strings.HasSuffix(name, segmentSuffix) {
			return syscall.EIO
		}
		return nil
	}
	if _, err := s.Append(testContext(t), [][]byte{{1}}); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Append: %v, want EIO", err)
	}
	disk.fail = nil
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{fs: disk})
	if diff := cmp.Diff(ids(1, 3), drain(t, s)); diff != "" {
		t.Errorf("ids after a failed append (-want +got):\n%s", diff)
	}
	if st := checkSum(t, s); st.TornBytes != 0 {
		t.Errorf("%d torn bytes, want the failed append cut off before", st.TornBytes)
	}
}

// appendTen appends ten records and acknowledges the fourth in between.
func (o *oracle) appendTen(s *Spool) (failed int) {
	for i := range uint64(10) {
		rec := record(1, i, 200)
		next := s.Stats().Appended + 1
		o.tried[next] = append(o.tried[next], rec)
		if _, err := s.Append(context.Background(), [][]byte{rec}); err != nil {
			failed++
			continue
		}
		o.safe[next] = rec
		if next == 4 {
			o.acked = next
			_ = s.Ack(next) // its error is one of those injected
		}
	}
	return failed
}

// crashDirVar makes the test binary the child of TestKill.
const crashDirVar = "GPUTALLY_TEST_SPOOL_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDirVar); dir != "" {
		fmt.Fprintln(os.Stderr, appendForever(dir))
		os.Exit(1)
	}
	if dir := os.Getenv(workloadDirVar); dir != "" {
		if err := runWorkload(dir, os.Getenv(workloadCapVar)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if plainDir != "" {
		_ = os.RemoveAll(plainDir) // a folder of temporary files
	}
	os.Exit(code)
}

// appendForever prints a line for each acknowledged append and each Ack.
func appendForever(dir string) error {
	s, err := Open(dir, Options{SegmentBytes: 5000, Describe: describe})
	if err != nil {
		return err
	}
	ctx := context.Background()
	for {
		next := s.Stats().Appended + 1
		if _, err := s.Append(ctx, [][]byte{record(1, next, 300), record(1, next+1, 300)}); err != nil {
			return err
		}
		fmt.Println("appended", next+1)
		if next > 20 && next%8 == 1 {
			fmt.Println("acking", next-20)
			if err := s.Ack(next - 20); err != nil {
				return err
			}
		}
	}
}

func TestKill(t *testing.T) {
	dir := t.TempDir()
	var appended, acked uint64
	for round := 1; round <= 5; round++ {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), crashDirVar+"="+dir)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			_, _ = fmt.Sscanf(lines.Text(), "appended %d", &appended)
			_, _ = fmt.Sscanf(lines.Text(), "acking %d", &acked)
			if n == 37*round {
				if err := child.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = child.Wait()
		checkKilled(t, dir, appended, acked)
	}
}

func checkKilled(t *testing.T, dir string, appended, acked uint64) {
	t.Helper()
	s := open(t, dir, Options{SegmentBytes: 5000, Describe: describe})
	st := checkSum(t, s)
	if st.Appended < appended || st.Appended > appended+2 || st.Cursor > acked || st.Dropped != 0 {
		t.Errorf("stats %+v, child said %d appended and %d acknowledged", st, appended, acked)
	}
	if diff := cmp.Diff(ids(st.Cursor+1, st.Appended), drain(t, s)); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	want := Meta{BootMS: 1, LastSeq: st.Appended}
	if diff := cmp.Diff(want, s.Meta(), cmpopts.IgnoreFields(Meta{}, "LastSlotStartMS")); diff != "" {
		t.Errorf("Meta (-want +got):\n%s", diff)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
