package trust_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gputally/gputally/internal/trust"
)

func TestM8OnlyTrustedUsersCouldHaveWrittenAFile(t *testing.T) {
	const nobody = 65534
	tests := map[string]struct {
		file, folder os.FileMode
		owner        int // of the file; 0: the test's user
		folderOwner  int
		refused      bool
	}{
		"private":                         {file: 0o600, folder: 0o700},
		"readable by everybody":           {file: 0o644, folder: 0o755},
		"writable by everybody":           {file: 0o646, folder: 0o755, refused: true},
		"folder writable by everybody":    {file: 0o644, folder: 0o757, refused: true},
		"folder with the sticky bit":      {file: 0o644, folder: 0o777 | os.ModeSticky},
		"of another user":                 {file: 0o600, folder: 0o755, owner: nobody, refused: true},
		"in another user's folder":        {file: 0o600, folder: 0o755, folderOwner: nobody, refused: true},
		"of another user, sticky folder":  {file: 0o644, folder: 0o777 | os.ModeSticky, owner: nobody, refused: true},
		"writable by the process's group": {file: 0o664, folder: 0o775},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "folder")
			path := filepath.Join(folder, "file")
			must(t, os.Mkdir(folder, 0o700))
			must(t, os.WriteFile(path, []byte("x"), 0o600))
			must(t, os.Chmod(path, test.file))
			must(t, os.Chmod(folder, test.folder))
			if test.owner+test.folderOwner != 0 && os.Geteuid() != 0 {
				t.Skip("only root gives files away")
			}
			if test.owner != 0 {
				must(t, os.Chown(path, test.owner, -1))
			}
			if test.folderOwner != 0 {
				must(t, os.Chown(folder, test.folderOwner, -1))
			}
			link := filepath.Join(t.TempDir(), "link")
			must(t, os.Symlink(path, link))
			for _, p := range []string{path, link} {
				err := trust.File(p)
				var refused *trust.Error
				if got := errors.As(err, &refused); got != test.refused || (err != nil) != test.refused {
					t.Errorf("File(%s) = %v, want refused %v", p, err, test.refused)
				}
			}
		})
	}
}

// A link that another user owns can lead elsewhere by the time the file is opened.
func TestM8LinksOnTheWayAreLookedAt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives links away")
	}
	const nobody = 65534
	own, shared, theirs := t.TempDir(), t.TempDir(), t.TempDir()
	must(t, os.Chmod(shared, 0o777|os.ModeSticky))
	must(t, os.Chown(theirs, nobody, -1))
	good := filepath.Join(own, "good")
	must(t, os.WriteFile(good, []byte("x"), 0o600))
	link := func(target string, at ...string) string {
		path := filepath.Join(at...)
		must(t, os.Symlink(target, path))
		return path
	}
	foreign := link(good, shared, "foreign")
	must(t, os.Lchown(foreign, nobody, -1))
	folder := link(own, shared, "folder")
	must(t, os.Lchown(folder, nobody, -1))
	between := link(good, theirs, "between")
	cases := map[string]struct {
		path    string
		refused bool
	}{
		"another user's link":           {foreign, true},
		"another user's link to a dir":  {filepath.Join(folder, "good"), true},
		"through another user's folder": {link(between, own, "through"), true},
		"own link, sticky folder":       {link(good, shared, "own"), false},
		"own, relative":                 {link("../"+filepath.Base(own)+"/./good", shared, "relative"), false},
		"a loop":                        {link("loop", own, "loop"), true},
	}
	for name, c := range cases {
		var refused *trust.Error
		if err := trust.File(c.path); errors.As(err, &refused) != c.refused || (err != nil) != c.refused {
			t.Errorf("%s: %v, want refused %v", name, err, c.refused)
		}
	}
}

func TestL3ASecretIsReadByNobodyElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(path, []byte("x"), 0o600))
	if err := trust.Secret(path); err != nil {
		t.Errorf("mode 0600: %v", err)
	}
	must(t, os.Chmod(path, 0o644))
	var refused *trust.Error
	if err := trust.Secret(path); !errors.As(err, &refused) {
		t.Errorf("mode 0644: %v, want an *Error", err)
	}
}

func TestAFileThatIsAwayIsNotRefusedButAbsent(t *testing.T) {
	if err := trust.File(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want os.ErrNotExist", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
