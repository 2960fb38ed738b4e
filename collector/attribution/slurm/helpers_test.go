package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/collector/attribution"
	"github.com/gputally/gputally/internal/clock"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func join(positions []uint32) string {
	return strings.Trim(fmt.Sprint(positions), "[]")
}

// fakeSlurm answers as squeue and scontrol do.
type fakeSlurm struct {
	jobs   []job
	record map[string]string // what scontrol prints of a job, by display id
	node   string            // what it prints of the node
	down   error
	calls  []string
}

var errDown = errors.New("slurm_load_jobs error: Unable to contact slurm controller (connect failure)")

func (f *fakeSlurm) run(_ context.Context, program string, args ...string) ([]byte, error) {
	all := strings.Join(args, " ")
	f.calls = append(f.calls, program+" "+args[len(args)-2]+" "+args[len(args)-1])
	switch {
	case f.down != nil:
		return nil, f.down
	case program == "squeue":
		return f.squeue(args), nil
	case strings.Contains(all, "show node n1"):
		return []byte(f.node), nil
	}
	text, ok := f.record[args[len(args)-1]]
	if !ok {
		return nil, &commandError{"scontrol", "slurm_load_jobs error: Invalid job id specified", errors.New("exit status 1")}
	}
	return []byte(text), nil
}

func (f *fakeSlurm) squeue(args []string) []byte {
	var out bytes.Buffer
	separator, _, _ := strings.Cut(args[3], "%A")
	for _, j := range f.jobs {
		fields := []string{j.id, j.display, j.state, j.start, j.user, j.account, j.wckey, j.gres, j.name}
		out.WriteString(separator + strings.Join(fields, separator) + separator + "\n")
	}
	return out.Bytes()
}

// count is how many calls began with a text.
func (f *fakeSlurm) count(prefix string) int {
	n := 0
	for _, call := range f.calls {
		if strings.HasPrefix(call, prefix) {
			n++
		}
	}
	return n
}

// start adds a running job with these GRES on n1.
func (f *fakeSlurm) start(id, gres string) {
	j := job{id: id, display: id, state: "RUNNING", start: "2026-11-21T12:00:00", user: "alice", account: "bio", wckey: "(null)", gres: "N/A", name: "train"}
	if gres != "" {
		j.gres = "gres/gpu:1"
	}
	f.jobs = append(f.jobs, j)
	f.record[id] = record(j, gres)
}

func record(j job, gres string) string {
	return fmt.Sprintf("JobId=%s JobName=%s UserId=%s(1000) GroupId=x(1) MCS_label=N/A Priority=1 Nice=0 Account=%s QOS=(null) JobState=%s Reason=None "+
		"NodeList=n1 TRES=cpu=1 Socks/Node=* CoreSpec=* JOB_GRES=gpu:1   Nodes=n[1-2] CPU_IDs=0 Mem=0 GRES=%s   Nodes=n3 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:63) MinCPUsNode=1 Features=(null) "+
		"Command=(null) WorkDir=/ Comment=x  Power= \n", j.id, j.name, j.user, j.account, j.state, gres)
}

func describe(gres, used string) string {
	return "NodeName=n1 Arch=x86_64 CPUAlloc=0 Gres=" + gres + " GresDrain=N/A GresUsed=" + used + " State=IDLE Comment=GresUsed=gpu:9(IDX:0-8)\n"
}

type fixture struct {
	*Reader
	slurm *fakeSlurm
	clock *clock.Fake
	dir   string
	reg   *prometheus.Registry
	log   *bytes.Buffer
}

func newFixture(t *testing.T, change func(*Config)) *fixture {
	t.Helper()
	f := &fixture{clock: clock.NewFake(noon), dir: t.TempDir(), reg: prometheus.NewRegistry(), log: &bytes.Buffer{}, slurm: &fakeSlurm{record: map[string]string{}, node: describe("gpu:8", "gpu:0(IDX:N/A)")}}
	f.write(t, marker, "")
	cfg := DefaultConfig()
	cfg.MappingDir = f.dir
	if change != nil {
		change(&cfg)
	}
	var err error
	f.Reader, err = New(cfg, Deps{Clock: f.clock, Log: slog.New(slog.NewTextHandler(f.log, nil)), Registry: f.reg, Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	f.client.run = f.slurm.run
	return f
}

func (f *fixture) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// holders is a snapshot as "device: job user account" lines.
func holders(snap attribution.Snapshot) []string {
	lines := []string{}
	for _, h := range snap.Holdings {
		whole := ""
		if h.Device.Whole {
			whole = ", whole"
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s%s: %s %s %s", h.Device, whole, h.Owner.Job, h.Owner.User, h.Owner.Account)))
	}
	return lines
}

func (f *fixture) want(t *testing.T, want ...string) {
	t.Helper()
	snap, err := f.Read(t.Context())
	if err != nil {
		t.Errorf("read: %v, want %q", err, want)
		return
	}
	if got := holders(snap); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("holders: got %q, want %q", got, want)
	}
}

func (f *fixture) wantError(t *testing.T, want string) {
	t.Helper()
	snap, err := f.Read(t.Context())
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("read: got %q, %v; want an error with %q", holders(snap), err, want)
	}
}
