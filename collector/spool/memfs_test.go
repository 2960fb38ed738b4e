package spool

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

const sectorBytes = 512

// memFS is a disk in memory that fails and crashes on demand.
type memFS struct {
	mu            sync.Mutex
	files         map[string]*memInode
	durable       map[string]*memInode // the names a power cut leaves
	capacityBytes int                  // 0: unlimited
	ops           int
	fail          func(op, name string) error // called before each write, sync, truncate
	failRead      func(op, name string) error // called before each open, read, list
	stopAt        int                         // after so many operations everything fails; 0: never
}

type memInode struct {
	data    []byte
	synced  []byte
	pending []memWrite
}

// memWrite is a write of a sector's part, or a truncation (data nil).
type memWrite struct {
	at   int
	data []byte
}

var errStopped = errors.New("the machine is off")

func newMemFS() *memFS {
	return &memFS{files: map[string]*memInode{}, durable: map[string]*memInode{}}
}

// step counts one operation that changes the disk.
func (m *memFS) step(op, path string) error {
	m.ops++
	if m.stopAt > 0 && m.ops >= m.stopAt {
		return errStopped
	}
	if m.fail != nil {
		return m.fail(op, filepath.Base(path))
	}
	return nil
}

// look is before an operation that changes nothing.
func (m *memFS) look(op, path string) error {
	if m.failRead != nil {
		return m.failRead(op, filepath.Base(path))
	}
	return nil
}

func (m *memFS) Open(path string, create bool) (file, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.look("open", path); err != nil {
		return nil, err
	}
	inode, ok := m.files[path]
	if !ok && !create {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	if !ok {
		if err := m.step("create", path); err != nil {
			return nil, err
		}
		inode = &memInode{}
		m.files[path] = inode
	}
	return &memFile{fs: m, path: path, inode: inode}, nil
}

func (m *memFS) Remove(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step("remove", path); err != nil {
		return err
	}
	delete(m.files, path)
	return nil
}

func (m *memFS) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.look("list", dir); err != nil {
		return nil, err
	}
	var names []string
	for path := range m.files {
		if name, ok := strings.CutPrefix(path, dir+"/"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (m *memFS) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step("syncdir", dir); err != nil {
		return err
	}
	m.durable = maps.Clone(m.files)
	return nil
}

// put sets a file's durable contents.
func (m *memFS) put(path string, data []byte) {
	inode := &memInode{data: slices.Clone(data), synced: slices.Clone(data)}
	m.files[path], m.durable[path] = inode, inode
}

// clone copies the files as they are.
func (m *memFS) clone() *memFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := newMemFS()
	for path, inode := range m.files {
		out.put(path, inode.data)
	}
	return out
}

// crash gives the disk after a power cut: names that were not synced are there
// or not, and of unsynced writes any set of sectors arrived.
func (m *memFS) crash(rng *rand.Rand) *memFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := newMemFS()
	paths := slices.Sorted(maps.Keys(m.durable))
	for _, path := range slices.Sorted(maps.Keys(m.files)) {
		if m.durable[path] == nil && rng.IntN(2) == 0 {
			paths = append(paths, path)
		}
	}
	for _, path := range paths {
		inode := m.durable[path]
		if inode == nil {
			inode = m.files[path]
		} else if m.files[path] == nil && rng.IntN(2) == 0 {
			continue // its removal arrived
		}
		out.put(path, inode.crash(rng))
	}
	return out
}

func (n *memInode) crash(rng *rand.Rand) []byte {
	data := slices.Clone(n.synced)
	for _, w := range n.pending {
		if rng.IntN(2) == 0 {
			continue
		}
		data = apply(data, w)
	}
	return data
}

func apply(data []byte, w memWrite) []byte {
	if w.data == nil {
		return resize(data, w.at)
	}
	data = resize(data, max(len(data), w.at+len(w.data)))
	copy(data[w.at:], w.data)
	return data
}

func resize(data []byte, size int) []byte {
	if size <= len(data) {
		return data[:size:size]
	}
	return append(data, make([]byte, size-len(data))...)
}

func (m *memFS) usedBytes() int {
	n := 0
	for _, inode := range m.files {
		n += len(inode.data)
	}
	return n
}

type memFile struct {
	fs    *memFS
	path  string
	inode *memInode
}

func (f *memFile) ReadAt(p []byte, at int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.look("read", f.path); err != nil {
		return 0, err
	}
	if at >= int64(len(f.inode.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.inode.data[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt writes sector by sector; a full disk or a fault stops it halfway.
func (f *memFile) WriteAt(p []byte, at int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	done := 0
	for done < len(p) {
		if err := f.fs.step("write", f.path); err != nil {
			return done, err
		}
		pos := int(at) + done
		n := min(len(p)-done, sectorBytes-pos%sectorBytes)
		grows := max(pos+n-len(f.inode.data), 0)
		if f.fs.capacityBytes > 0 && grows > 0 && f.fs.usedBytes()+grows > f.fs.capacityBytes {
			return done, syscall.ENOSPC
		}
		w := memWrite{at: pos, data: slices.Clone(p[done : done+n])}
		f.inode.data = apply(f.inode.data, w)
		f.inode.pending = append(f.inode.pending, w)
		done += n
	}
	return done, nil
}

func (f *memFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.step("truncate", f.path); err != nil {
		return err
	}
	w := memWrite{at: int(size)}
	f.inode.data = apply(f.inode.data, w)
	f.inode.pending = append(f.inode.pending, w)
	return nil
}

func (f *memFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.step("sync", f.path); err != nil {
		return err
	}
	f.inode.synced, f.inode.pending = slices.Clone(f.inode.data), nil
	return nil
}

func (f *memFile) Close() error { return nil }
