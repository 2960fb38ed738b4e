package attribution

import (
	"fmt"
	"io"
	"os"
)

// File is a file that is read again whenever its inode, size or time changes.
type File struct {
	Path string
	Most int64 // bytes; a larger file is an error

	read os.FileInfo // of the last read; nil: none
}

// Read returns the content if it has changed since the last Read that returned one. After an error the next Read
// reads the file again.
func (f *File) Read() (text []byte, changed bool, err error) {
	last := f.read
	f.read = nil
	info, err := os.Stat(f.Path)
	switch {
	case err != nil:
		return nil, false, err
	case last != nil && sameFile(last, info):
		f.read = info
		return nil, false, nil
	case !info.Mode().IsRegular(): // a pipe would never end
		return nil, false, fmt.Errorf("%s is not a regular file but %s", f.Path, info.Mode())
	}
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	before, err := file.Stat()
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(file, f.Most+1))
	}
	if err == nil {
		info, err = file.Stat()
	}
	switch {
	case err != nil:
		return nil, false, err
	case int64(len(text)) > f.Most:
		return nil, false, fmt.Errorf("%s: has more than %d bytes", f.Path, f.Most)
	case !sameFile(before, info):
		return nil, false, fmt.Errorf("%s: changed while it was read", f.Path)
	}
	f.read = info
	return text, true, nil
}

// Forget makes the next Read read the file unconditionally.
func (f *File) Forget() { f.read = nil }

func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
