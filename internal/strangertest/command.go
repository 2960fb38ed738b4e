package strangertest

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// UID is the user and group id of nobody.
const UID = 65534

// Command returns a command that runs the test's own binary as nobody, from a copy
// that nobody may read.
func Command(t testing.TB, env ...string) *exec.Cmd {
	t.Helper()
	onlyRoot(t)
	path := filepath.Join(folder(t, 0o755), "test")
	if err := copyFile(os.Args[0], path); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path)
	cmd.Dir, cmd.Env = "/", append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: UID, Gid: UID}}
	cmd.Stderr = os.Stderr
	return cmd
}

// folder makes a folder that other users can read, unlike those of t.TempDir.
func folder(t testing.TB, mode os.FileMode) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "stranger-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

func onlyRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatalf("only root can act as another user, and this is user %d", os.Geteuid())
		}
		t.Skipf("only root can act as another user, and this is user %d", os.Geteuid())
	}
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close() // the error of the copy is returned
		return err
	}
	return out.Close()
}
