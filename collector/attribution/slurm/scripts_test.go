package slurm

import (
	"os"
	"os/exec"
	"path/filepath"
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
	cmd := exec.CommandContext(t.Context(), "sh", deployed(t, name))
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "GPULEDGER_MAPPING_DIR=" + mapping}, vars...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s with %q: %v\n%s", name, vars, err, out)
	}
}

func TestPrologAndEpilogKeepTheDirectory(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.MappingDir, c.Details = filepath.Join(c.MappingDir, "run", "slurm"), false })
	dir := f.cfg.MappingDir
	f.wantError(t, "read mapping directory")
	if err := os.MkdirAll(dir, 0o750); err != nil { // by tmpfiles.d, say
		t.Fatal(err)
	}
	f.wantError(t, "no .prolog")
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
