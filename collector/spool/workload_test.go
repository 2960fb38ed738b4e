package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
)

const (
	// workloadDirVar makes the test binary the child of the injection tests.
	workloadDirVar = "GPUTALLY_TEST_SPOOL_WORKLOAD"
	workloadCapVar = "GPUTALLY_TEST_SPOOL_CAP"

	workloadBoot = 1000
)

// recordsAt is the workload's length: a spool that is often full needs fewer to
// meet everything.
func recordsAt(capBytes int64) uint64 {
	if capBytes < roomyCapBytes {
		return 80
	}
	return 200
}

// The workload's system calls are counted, so they are all made by the main
// thread, the only one that strace follows.
var _ = func() bool {
	if os.Getenv(workloadDirVar) != "" {
		runtime.LockOSThread()
	}
	return true
}()

// workloadOptions are small, so that there are many segments. A cap of a few
// segments is reached, one of a megabyte isn't.
func workloadOptions(capBytes int64) Options {
	return Options{SegmentBytes: 3000, MaxBytes: capBytes, Describe: describe}
}

// workloadRecord is the record with an id, whenever it is made.
func workloadRecord(id uint64) []byte {
	return record(workloadBoot, id-1, 60+int(id*37%240))
}

// workload appends records in groups of one to five and acknowledges some.
// A group that failed is given again, as a collector does, so that ids and
// records belong together. In the middle it closes the spool, leaves a torn tail
// and opens it again. It prints what it does and what it was told, each line
// with one write.
type workload struct {
	dir   string
	opt   Options
	spool *Spool
}

func runWorkload(dir, capText string) error {
	capBytes, err := strconv.ParseInt(capText, 10, 64)
	if err != nil {
		return fmt.Errorf("parse cap %q: %w", capText, err)
	}
	w := &workload{dir: dir, opt: workloadOptions(capBytes)}
	w.open()
	next, records := uint64(1), recordsAt(capBytes)
	for group := uint64(1); next <= records; group++ {
		last := min(next+group%5, records)
		w.append(next, last)
		next = last + 1
		if group%5 == 0 && next > 25 {
			w.ack(next - 25)
		}
		if group == records/6 {
			if err := w.reopen(); err != nil {
				return err
			}
		}
	}
	w.close()
	return nil
}

// open tries again where a fault was injected: it is injected once.
func (w *workload) open() {
	for {
		s, err := Open(w.dir, w.opt)
		if err == nil {
			w.spool = s
			return
		}
		fmt.Println("failed open", err)
	}
}

func (w *workload) close() {
	if err := w.spool.Close(); err != nil {
		fmt.Println("failed close", err)
	}
}

func (w *workload) append(from, to uint64) {
	var recs [][]byte
	for id := from; id <= to; id++ {
		recs = append(recs, workloadRecord(id))
	}
	for {
		fmt.Println("append", from, to)
		first, err := w.spool.Append(context.Background(), recs)
		if err != nil {
			fmt.Println("failed append", err)
			continue
		}
		if first != from {
			fmt.Println("wrong id", first)
		}
		fmt.Println("appended", from, to)
		return
	}
}

func (w *workload) ack(id uint64) {
	fmt.Println("ack", id)
	if err := w.spool.Ack(id); err != nil {
		fmt.Println("failed ack", err)
		return
	}
	fmt.Println("acked", id)
}

// reopen leaves half a frame behind the last one, as a crash does.
func (w *workload) reopen() (err error) {
	last := w.spool.segs[len(w.spool.segs)-1]
	path, half := w.spool.path(last.first), appendFrame(nil, last.first, w.spool.nextID, make([]byte, 99))
	w.close()
	f, err := os.OpenFile(filepath.Clean(path), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(half[:len(half)/2]); err != nil {
		return err
	}
	w.open()
	return nil
}
