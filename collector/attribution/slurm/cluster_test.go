package slurm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/placetest"
)

// A real Slurm of one node, n1, in a temporary folder: munged, slurmctld and
// slurmd are children of the test.
type cluster struct {
	dir     string
	mapping string
	conf    string
	ctld    *exec.Cmd
}

// gresConfFor lists the whole boards first, 5 before 4; slurm.conf's Gres= has
// the instances first, which is the order that counts.
const gresConfFor = `AutoDetect=off
NodeName=n[1-3] Name=gpu Type=h100 File=DIR/dev/nvidia[5,4]
NodeName=n1 Name=gpu Type=1g.10gb File=DIR/dev/nvidia-cap[13,21,30]
`

const slurmConfFor = `ClusterName=test
SlurmctldHost=HOST(127.0.0.1)
SlurmctldPort=CTLDPORT
SlurmctldPidFile=DIR/slurmctld.pid
SlurmdPidFile=DIR/slurmd.pid
SlurmdSpoolDir=DIR/spool
StateSaveLocation=DIR/state
SlurmUser=USER
SlurmdUser=USER
AuthType=auth/munge
AuthInfo=socket=DIR/munge.sock
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
MailProg=/bin/true
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=1000,bf_interval=1
KillWait=1
EpilogMsgTime=0
PrologFlags=Alloc
Prolog=DIR/prolog
Epilog=DIR/epilog
GresTypes=gpu
NodeName=n1 NodeAddr=127.0.0.1 NodeHostname=HOST Port=SLURMDPORT CPUs=16 RealMemory=16000 Gres=gpu:1g.10gb:3,gpu:h100:2
PartitionName=p Nodes=n1 Default=YES State=UP
`

// startCluster skips the test where Slurm isn't installed, and fails it in CI.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	for _, program := range []string{"munged", "slurmctld", "slurmd", "scontrol", "squeue", "sbatch", "scancel"} {
		find(t, program)
	}
	dir, err := os.MkdirTemp("", "slurm") // short, for the sockets in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := &cluster{dir: dir, mapping: filepath.Join(dir, "mapping"), conf: filepath.Join(dir, "slurm.conf")}
	c.configure(t)
	c.start(t, "munged", "--foreground", "--force", "--key-file="+dir+"/munge.key", "--socket="+dir+"/munge.sock",
		"--pid-file="+dir+"/munge.pid", "--log-file="+dir+"/munge.log", "--seed-file="+dir+"/munge.seed")
	c.wait(t, "munged's socket", func() bool { _, err := os.Stat(dir + "/munge.sock"); return err == nil })
	c.ctld = c.start(t, "slurmctld", "-D", "-i", "-f", c.conf)
	c.start(t, "slurmd", "-D", "-N", "n1", "-f", c.conf)
	c.wait(t, "an idle node", func() bool { return c.ask("sinfo", "-h", "-o", "%T") == "idle" })
	t.Cleanup(func() {
		c.ask("scancel", "-u", currentUser(t))
		c.wait(t, "the end of all jobs", func() bool { return c.ask("squeue", "-h", "-o", "%i") == "" })
	})
	return c
}

// find looks where Debian puts daemons, too.
func find(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + program)
	}
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is needed in CI: %v", program, err)
		}
		t.Skipf("needs %s, of the packages slurmctld, slurmd, slurm-client and munge: %v", program, err)
	}
	return path
}

func currentUser(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return u.Username
}

func (c *cluster) configure(t *testing.T) {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	fill := strings.NewReplacer("DIR", c.dir, "HOST", host, "USER", currentUser(t), "CTLDPORT", freePort(t), "SLURMDPORT", freePort(t))
	for _, folder := range []string{"dev", "spool", "state"} {
		if err := os.Mkdir(filepath.Join(c.dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, device := range []string{"nvidia4", "nvidia5", "nvidia-cap13", "nvidia-cap21", "nvidia-cap30"} {
		// Slurm wants a character device; which one, only its name says.
		if err := os.Symlink("/dev/null", filepath.Join(c.dir, "dev", device)); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{
		"slurm.conf": fill.Replace(slurmConfFor), "gres.conf": fill.Replace(gresConfFor), "munge.key": strings.Repeat("not a secret ", 10),
		"mig-minors": "gpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\ngpu0/gi2/access 20\ngpu0/gi2/ci0/access 21\ngpu0/gi3/access 29\ngpu0/gi3/ci0/access 30\n",
		"prolog":     "#!/bin/sh\nGPUTALLY_MAPPING_DIR=" + c.mapping + " exec sh " + deployed(t, "prolog.sh") + "\n",
		"epilog":     "#!/bin/sh\nGPUTALLY_MAPPING_DIR=" + c.mapping + " exec sh " + deployed(t, "epilog.sh") + "\n",
	}
	// From 23.02 on slurmd wants cgroups, which a container may not have.
	if !strings.Contains(c.must(t, find(t, "slurmd"), "-V"), " 22.") {
		files["cgroup.conf"] = "CgroupPlugin=disabled\n"
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"prolog", "epilog"} {
		if err := os.Chmod(filepath.Join(c.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	_, port := placetest.FreeAddress(t)
	return port
}

// start runs a daemon until the test ends, and shows what it wrote if the test fails.
func (c *cluster) start(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(find(t, program), args...)
	cmd.Env = c.env()
	cmd.Stdout, cmd.Stderr = &out, &out
	// Its own group, so that nothing of it stays; and gone when the test is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s wrote:\n%s", program, tail(out.String()))
		}
	})
	return cmd
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

func (c *cluster) env() []string {
	return append(environment(os.Environ(), c.conf), "PATH="+os.Getenv("PATH")+":/usr/sbin")
}

// ask is what a program of Slurm answers, or nothing when it fails.
func (c *cluster) ask(program string, args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = c.env()
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// must is ask for what may not fail.
func (c *cluster) must(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = c.env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// wait asks until something is so.
func (c *cluster) wait(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !is() {
		select {
		case <-deadline.C:
			t.Fatalf("waited in vain for %s; squeue: %s; node: %s", what, c.ask("squeue", "-a"), c.ask("scontrol", "-o", "show", "node"))
		case <-again.C:
		}
	}
}

// submit starts a job that runs until it is cancelled, and waits until as many
// scripts run as it has parts. It returns the job's id.
func (c *cluster) submit(t *testing.T, parts int, args ...string) string {
	t.Helper()
	started := filepath.Join(c.dir, "started")
	if err := os.RemoveAll(started); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(started, 0o700); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"--parsable", "--mem=10", "-n1", "-A", "bio", "--chdir=/", "-o", "/dev/null"}, args...)
	args = append(args, "--wrap", fmt.Sprintf("touch %s/$SLURM_JOB_ID; exec sleep 120", started))
	id := c.must(t, "sbatch", args...)
	c.wait(t, "the start of job "+id, func() bool {
		entries, err := os.ReadDir(started)
		return err == nil && len(entries) == parts
	})
	return id
}

// cancel ends a job, its epilog included.
func (c *cluster) cancel(t *testing.T, id string) {
	t.Helper()
	c.must(t, "scancel", id)
	c.wait(t, "the end of job "+id, func() bool {
		return c.ask("squeue", "-h", "-o", "x", "-j", id, "-t", "PENDING,RUNNING,SUSPENDED,COMPLETING") == ""
	})
}
