package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputally/gputally/internal/store/engine"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/trust"
)

func TestLibraryProblemsNameThePathAndTheRemedy(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.so")
	if err := os.WriteFile(text, []byte("not a library"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		library string
		want    []string
	}{
		"missing":     {filepath.Join(dir, "none.so"), []string{"none.so", "make build"}},
		"a directory": {dir, []string{dir, "make build"}},
		"not ELF":     {text, []string{text, "make build"}},
		"another":     {otherLibrary(t), []string{"SHA-256", "make build"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := engine.Open(engine.Options{Dir: filepath.Join(dir, "data"), Library: test.library})
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q in it", err, want)
				}
			}
		})
	}
}

// otherLibrary is any shared library that isn't ours.
func otherLibrary(t *testing.T) string {
	t.Helper()
	for _, pattern := range []string{"/lib/*/libm.so.6", "/lib64/libm.so.6", "/usr/lib/libm.so.6"} {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			return found[0]
		}
	}
	t.Skip("no other library found to try")
	return ""
}

func TestLocateLooksWhereItSays(t *testing.T) {
	t.Setenv(engine.LibraryEnv, "")
	root := t.TempDir()
	deep := filepath.Join(root, "a", "b")
	for _, dir := range []string{deep, filepath.Join(root, ".build", "lib")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(deep)
	if _, err := engine.Locate(""); !errors.Is(err, engine.ErrLibraryMissing) {
		t.Errorf("nothing there: %v, want ErrLibraryMissing", err)
	}
	want := filepath.Join(root, ".build", "lib", "libchdb.so")
	write(t, want)
	if got, err := engine.Locate(""); err == nil {
		t.Errorf("without go.mod: %s, want it not to be taken", got)
	}
	write(t, filepath.Join(root, "go.mod"))
	if got, err := engine.Locate(""); err != nil || got != want {
		t.Errorf("with go.mod: %s, %v; want %s", got, err, want)
	}
	other := filepath.Join(root, "other.so")
	write(t, other)
	t.Setenv(engine.LibraryEnv, other)
	if got, err := engine.Locate(""); err != nil || got != other {
		t.Errorf("with %s: %s, %v; want %s", engine.LibraryEnv, got, err, other)
	}
	if got, err := engine.Locate(want); err != nil || got != want {
		t.Errorf("explicit: %s, %v; want %s", got, err, want)
	}
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOneDirectoryIsOpenOnce(t *testing.T) {
	storetest.Library(t)
	first, err := engine.Open(engine.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	_, err = engine.Open(engine.Options{Dir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "open only one") {
		t.Errorf("second engine in a process: %v, want an error", err)
	}
	o := helperOptions(t, shortDir(t))
	s := supervise(t, o)
	other := o
	other.Socket = o.Socket + "2"
	other.Env = append(append([]string{}, o.Env...), helperSocketEnv+"="+other.Socket)
	_, err = engine.Supervise(t.Context(), other)
	if err == nil || !strings.Contains(err.Error(), "process ") || !strings.Contains(err.Error(), "has it open") {
		t.Errorf("second process: %v, want the holder's pid (%d)", err, s.PID())
	}
}

func TestM8AnotherLibraryIsNeverLoaded(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	path := filepath.Join(t.TempDir(), "libchdb.so")
	write(t, path)
	for range 2 { // a file that was refused is not remembered as right
		_, err := engine.Open(engine.Options{Dir: t.TempDir(), Library: path})
		if !errors.Is(err, engine.ErrLibraryUntrusted) {
			t.Fatalf("one byte: %v, want ErrLibraryUntrusted", err)
		}
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	var refused *trust.Error
	if _, err := engine.Open(engine.Options{Dir: t.TempDir(), Library: path}); !errors.As(err, &refused) {
		t.Errorf("writable by others: %v, want a *trust.Error", err)
	}
}
