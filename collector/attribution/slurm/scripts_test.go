package slurm

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// deployed is the path of a script that sites install.
func deployed(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../../deploy/slurm", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// runScript runs one as slurmd does, with these variables of Slurm.
func runScript(t *testing.T, name, mapping string, vars ...string) {
	t.Helper()
	if out, err := hook(t, name, mapping, vars...).CombinedOutput(); err != nil {
		t.Fatalf("%s with %q: %v\n%s", name, vars, err, out)
	}
}

func hook(t *testing.T, name, mapping string, vars ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", deployed(t, name))
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "GPUTALLY_MAPPING_DIR=" + mapping}, vars...)
	return cmd
}

func TestM7NobodyElseCanHoldTheLockOfPrologAndEpilog(t *testing.T) {
	dir := t.TempDir()
	lock := filepath.Join(dir, ".lock")
	if err := os.WriteFile(lock, nil, 0o644); err != nil { // of an older version
		t.Fatal(err)
	}
	for _, name := range []string{"prolog.sh", "epilog.sh"} {
		runScript(t, name, dir, "SLURM_JOB_ID=7", "SLURM_JOB_GPUS=0")
		info, err := os.Stat(lock)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: lock has mode %v, %v; want 0600", name, info.Mode(), err)
		}
	}
	if testing.Short() {
		return // the rest waits for ten seconds
	}
	// Held by a process of root's that hangs, they give up after 10 s.
	held, err := os.Open(lock)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	epilog, prolog := hook(t, "epilog.sh", dir, "SLURM_JOB_ID=7"), hook(t, "prolog.sh", dir, "SLURM_JOB_ID=7", "SLURM_JOB_GPUS=0")
	for _, cmd := range []*exec.Cmd{epilog, prolog} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, cmd := range []*exec.Cmd{epilog, prolog} {
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("%s: %v, want exit code 1", cmd.Args[1], err)
		}
	}
}

func TestM7PrologAndEpilogRefuseWhatIsNoNumber(t *testing.T) {
	for name, vars := range map[string][]string{
		"job":              {"SLURM_JOB_ID=7; touch x", "SLURM_JOB_GPUS=0"},
		"no job":           {"SLURM_JOB_GPUS=0"},
		"position":         {"SLURM_JOB_ID=7", "SLURM_JOB_GPUS=../x"},
		"pattern":          {"SLURM_JOB_ID=7", "SLURM_JOB_GPUS=*"},
		"empty in between": {"SLURM_JOB_ID=7", "SLURM_JOB_GPUS=0,,1"},
	} {
		if out, err := hook(t, "prolog.sh", t.TempDir(), vars...).CombinedOutput(); err == nil {
			t.Errorf("%s: prolog.sh with %q passes: %s", name, vars, out)
		}
	}
}

func TestPrologAndEpilogKeepTheDirectory(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.MappingDir, c.Details = filepath.Join(c.MappingDir, "run", "slurm"), false })
	dir := f.cfg.MappingDir
	f.wantError(t, "read mapping directory")
	if err := os.MkdirAll(dir, 0o750); err != nil { // by tmpfiles.d, say
		t.Fatal(err)
	}
	f.wantError(t, "has no file .prolog")
	runScript(t, "prolog.sh", dir) // at the start of slurmd
	f.want(t)
	runScript(t, "prolog.sh", dir, "SLURM_JOB_ID=40") // without GPUs
	f.want(t)
	runScript(t, "prolog.sh", dir, "SLURM_JOB_ID=41", "SLURM_JOB_GPUS=0,2")
	f.want(t, "index 0, whole: 41", "index 2, whole: 41")
	runScript(t, "prolog.sh", dir, "SLURM_JOB_ID=42", "SLURM_JOB_GPUS=2")
	runScript(t, "prolog.sh", dir, "SLURM_JOB_ID=42", "SLURM_JOB_GPUS=2")
	f.want(t, "index 0, whole: 41", "index 2, whole: 41", "index 2, whole: 42")
	runScript(t, "epilog.sh", dir, "SLURM_JOB_ID=41")
	f.want(t, "index 2, whole: 42")
	runScript(t, "epilog.sh", dir, "SLURM_JOB_ID=4")
	f.want(t, "index 2, whole: 42")
	runScript(t, "epilog.sh", dir, "SLURM_JOB_ID=42")
	f.want(t)
}
