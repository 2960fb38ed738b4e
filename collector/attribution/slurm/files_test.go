package slurm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFilesNameDevicesByPositionInstanceAndUUID(t *testing.T) {
	f := newFixture(t, func(c *Config) {
		c.Gres = []GresDevice{{UUID: "MIG-aa"}, {Minor: u32(1)}, {UUID: "GPU-bb"}, {Minor: u32(0), GI: u32(3)}}
	})
	for _, id := range []string{"41", "42", "43"} {
		f.slurm.start(id, "")
	}
	f.write(t, "0", "41\n")
	f.write(t, "1.5", "42\n43\n42\n")
	f.write(t, "2", "43\n\n")
	f.write(t, "3", " 43 \r\n")
	f.write(t, "GPU-cc", "41\n")
	f.write(t, "MIG-dd", "41\n")
	f.write(t, "1", "") // free
	f.write(t, ".2.tmp", "garbage")
	f.want(t, "MIG-aa: 41 alice bio", "minor 1, gi 5: 42 alice bio", "minor 1, gi 5: 43 alice bio", "GPU-bb: 43 alice bio",
		"minor 0, gi 3: 43 alice bio", "GPU-cc: 41 alice bio", "MIG-dd: 41 alice bio")
}

func TestFilesWithoutGresArePositionsByIndex(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Details = false })
	f.want(t)
	f.write(t, "7", "41\n")
	f.write(t, "0.2", "42\n")
	f.want(t, "index 0, gi 2: 42", "index 7, whole: 41")
	if len(f.slurm.calls) != 0 {
		t.Errorf("without details: calls %q, want none", f.slurm.calls)
	}
	if err := os.Remove(filepath.Join(f.dir, "7")); err != nil {
		t.Fatal(err)
	}
	f.want(t, "index 0, gi 2: 42")
}

func TestFilesThatSayNothingClearAreErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"gpu0", "1\n", `gpu0: name "gpu0": want a position, position.GI or a UUID`},
		{"00", "1\n", `name "00"`},
		{"-1", "1\n", `name "-1"`},
		{"0.", "1\n", `name "0."`},
		{"0.1.2", "1\n", `name "0.1.2"`},
		{"4294967296", "", `name "4294967296"`},
		{"GPU-", "1\n", `name "GPU-"`},
		{"README", "", `name "README"`},
		{"0", "1\nalice\n", `0:2: "alice": want a job id`},
		{"0", "0\n", `0:1: "0": want a job id`},
		{"0", "12_3\n", `0:1: "12_3": want a job id`},
		{"0", "1\n2 3\n", `0:2: "2 3"`},
		{"0", "\x00\x00\n", `0:1: "\x00\x00"`},
		{"0", strings.Repeat("x", 100) + "\n", strings.Repeat("x", 60) + `…"`},
		{"0", strings.Repeat("1\n", maxFileBytes), "has more than 65536 bytes"},
		{"4", "1\n", "4: position 4: the node's GRES list has 2 devices"},
		{"0.1", "1\n", "position 0 is the instance MIG-aa, so .GI is not allowed"},
		{"1.1", "1\n", "position 1 is the instance minor 1, gi 2, so .GI is not allowed"},
	} {
		f := newFixture(t, func(cfg *Config) {
			cfg.Gres = []GresDevice{{UUID: "MIG-aa"}, {Minor: u32(1), GI: u32(2)}}
		})
		f.write(t, c.name, c.text)
		f.wantError(t, c.want)
	}
}

func TestFilesReportsEveryFault(t *testing.T) {
	f := newFixture(t, nil)
	f.write(t, "x", "")
	f.write(t, "0", "y\n")
	f.wantError(t, `name "x"`)
	f.wantError(t, `0:1: "y"`)
}

func TestAFileWrittenInPlaceMakesNoFalseOwner(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Details = false })
	f.write(t, "0", "")
	f.want(t)
	f.write(t, "0", "12") // of 1234
	f.wantError(t, "0: the last line has no newline")
	f.write(t, "0", "1234")
	f.wantError(t, "0: the last line has no newline")
	f.want(t, "index 0, whole: 1234") // a prolog that writes no newline at all
	f.want(t, "index 0, whole: 1234")
	f.write(t, "0", "1234\n")
	f.want(t, "index 0, whole: 1234")
	f.write(t, "0", "5")
	f.wantError(t, "the last line has no newline")
}

func TestWhatIsNoRegularFileIsRefused(t *testing.T) {
	f := newFixture(t, nil)
	if err := syscall.Mkfifo(filepath.Join(f.dir, "0"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(f.dir, "1"), 0o700); err != nil {
		t.Fatal(err)
	}
	f.wantError(t, "0: is not a regular file")
	f.wantError(t, "1: is not a regular file")
}

func TestAMissingDirectoryIsAnErrorNotFree(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.MappingDir += "/none" })
	f.wantError(t, "read mapping directory: open "+f.dir+"/none: no such file")
}

func TestADirectoryThatNobodyWritesIsAnErrorNotFree(t *testing.T) {
	f := newFixture(t, nil)
	f.want(t)
	if err := os.Remove(filepath.Join(f.dir, marker)); err != nil {
		t.Fatal(err)
	}
	f.wantError(t, "mapping directory "+f.dir+": has no file .prolog, which the prolog creates")
	f.write(t, "0", "41\n")
	f.wantError(t, "has no file .prolog")
}

func TestDetailsAreAskedOncePerJob(t *testing.T) {
	f := newFixture(t, nil)
	f.slurm.start("41", "")
	f.slurm.start("42", "")
	f.slurm.jobs[1].account, f.slurm.jobs[1].user = "a\xffb|c\nd", "1001"
	f.write(t, "0", "41\n")
	f.write(t, "1", "42\n")
	for range 3 {
		f.want(t, "index 0, whole: 41 alice bio", "index 1, whole: 42 1001 a\uFFFDb|c\nd")
	}
	if diff := cmp.Diff([]string{"squeue -j 41,42", "scontrol node n1"}, f.slurm.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	f.write(t, "0", "43\n") // which Slurm doesn't know
	f.want(t, "index 0, whole: 43", "index 1, whole: 42 1001 a\uFFFDb|c\nd")
	if !strings.Contains(f.log.String(), "unknown to Slurm") || !strings.Contains(f.log.String(), "job=43") {
		t.Errorf("log %q, want a word about job 43", f.log)
	}
	f.write(t, "0", "41\n")
	f.want(t, "index 0, whole: 41 alice bio", "index 1, whole: 42 1001 a\uFFFDb|c\nd")
	if got := f.slurm.count("squeue -j 41"); got != 2 {
		t.Errorf("a job that was gone and is back: asked %d times, want 2", got)
	}
}

func TestASlurmThatIsDownIsAnErrorForNewJobsOnly(t *testing.T) {
	f := newFixture(t, nil)
	f.slurm.start("41", "")
	f.write(t, "0", "41\n")
	f.want(t, "index 0, whole: 41 alice bio")
	f.slurm.down = errDown
	f.want(t, "index 0, whole: 41 alice bio")
	f.write(t, "1", "42\n")
	f.wantError(t, "query user and account of job 42: "+errDown.Error())
	calls := len(f.slurm.calls)
	f.clock.Advance(10*time.Second - 1)
	f.slurm.down = nil
	f.slurm.start("42", "")
	f.wantError(t, errDown.Error())
	if len(f.slurm.calls) != calls {
		t.Errorf("calls in the pause: %q, want none", f.slurm.calls[calls:])
	}
	f.clock.Advance(1)
	f.want(t, "index 0, whole: 41 alice bio", "index 1, whole: 42 alice bio")
}

// TestPositionsFollowTheOrderOfTypes: gres.conf lists the boards first, the
// node's Gres= the instances (the pitfall).
func TestPositionsFollowTheOrderOfTypes(t *testing.T) {
	f := newFixture(t, func(c *Config) {
		c.GresConf = filepath.Join(t.TempDir(), "gres.conf")
		c.MIGMinors = filepath.Join(filepath.Dir(c.GresConf), "minors")
	})
	put := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.slurm.node = describe("gpu:1g.10gb:2,gpu:h100:1", "gpu:1g.10gb:0(IDX:N/A),gpu:h100:0(IDX:N/A)")
	f.slurm.start("41", "")
	f.slurm.start("42", "")
	f.write(t, "2", "41\n")
	f.write(t, "0", "42\n")
	f.wantError(t, "read gres_conf: ")
	put(f.cfg.GresConf, "NodeName=n1 Name=gpu Type=h100 File=/dev/nvidia5\nNodeName=n1 Name=gpu Type=1g.10gb File=/dev/nvidia-caps/nvidia-cap[13,21]\n")
	f.wantError(t, "read mig_minors")
	put(f.cfg.MIGMinors, migMinorsText)
	f.want(t, "minor 0, gi 1, ci 0: 42 alice bio", "minor 5: 41 alice bio")
	put(f.cfg.GresConf, "Name=gpu File=/dev/nvidia[6,5,4]\n")
	f.want(t, "minor 6: 42 alice bio", "minor 4: 41 alice bio")
	if got := f.slurm.count("scontrol node n1"); got != 1 {
		t.Errorf("asked %d times for the order, want once: of one type it is the file's", got)
	}
	put(f.cfg.GresConf, "Name=gpu File=/dev/nvidia6\n")
	f.wantError(t, "position 2: the node's GRES list has 1 devices")
}

// TestGuessedPositionsAreNeverInstances: AutoDetect=nvml with MIG on puts the
// instances of board 0 at positions 0 to 6.
func TestGuessedPositionsAreNeverInstances(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.GresConf = filepath.Join(t.TempDir(), "gres.conf") })
	conf := func(text string) {
		if err := os.WriteFile(f.cfg.GresConf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	conf("AutoDetect=nvml\n")
	f.slurm.start("41", "")
	f.write(t, "2", "41\n")
	f.want(t, "index 2, whole: 41 alice bio")
	f.slurm.node = describe("gpu:h100:1,gpu:nvidia_h100_1g.10gb:7", "gpu:h100:0")
	f.write(t, "0", "42\n")
	f.wantError(t, "the node's Gres= has MIG instances (gpu:nvidia_h100_1g.10gb:7), but their positions are unknown")
	conf("AutoDetect=nvml\nName=gpu File=/dev/nvidia[0-2]\n")
	f.want(t, "minor 0, whole: 42", "minor 2, whole: 41 alice bio")
	conf("Name=gpu File=/dev/nvidia[0-2]\n")
	f.want(t, "minor 0: 42", "minor 2: 41 alice bio")
}

func TestANewJobAsksForTheOrderAgain(t *testing.T) {
	f := newFixture(t, func(c *Config) {
		c.GresConf = filepath.Join(t.TempDir(), "gres.conf")
		c.Details = false
	})
	if err := os.WriteFile(f.cfg.GresConf, []byte("Name=gpu Type=a File=/dev/nvidia0\nName=gpu Type=b File=/dev/nvidia1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.slurm.node = describe("gpu:a:1,gpu:b:1", "gpu:a:0(IDX:N/A),gpu:b:0(IDX:N/A)")
	f.write(t, "0", "41\n")
	f.want(t, "minor 0: 41")
	f.slurm.node = describe("gpu:b:1,gpu:a:1", "gpu:b:0(IDX:N/A),gpu:a:0(IDX:N/A)")
	f.want(t, "minor 0: 41") // which began under the old order
	f.write(t, "0", "42\n")
	f.want(t, "minor 1: 42")
}

func TestAnOrderThatCantBeAskedIsAnError(t *testing.T) {
	f := newFixture(t, func(c *Config) {
		c.GresConf = filepath.Join(t.TempDir(), "gres.conf")
		c.Details = false
	})
	if err := os.WriteFile(f.cfg.GresConf, []byte("Name=gpu Type=a File=/dev/nvidia0\nName=gpu Type=b File=/dev/nvidia1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.slurm.down = errors.New("down")
	f.write(t, "0", "41\n")
	f.wantError(t, "query the types of the node's GRES: down")
	f.slurm.down, f.slurm.node = nil, describe("gpu:b:1,gpu:a:1", "gpu:b:1(IDX:0)")
	f.clock.Advance(10 * time.Second)
	f.want(t, "minor 1: 41")
}
