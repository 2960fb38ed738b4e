package slurm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gputally/gputally/internal/hostlist"
)

// client runs Slurm's programs. Every query is one call of a program with fixed arguments.
type client struct {
	run      runner
	squeue   string
	scontrol string
	node     string
	nonce    func() string
}

// job is squeue's record of a job. account, wckey and name are the users' own text if accounting doesn't check them,
// and may contain newlines.
type job struct {
	id      string // unique, also for an array's element
	display string // "7", "3_1" of an array, "12+1" of a heterogeneous job
	state   string
	start   string // changes when a job is requeued under its id, with other GPUs
	user    string
	account string
	wckey   string
	gres    string // what it asked for per node, "gres/gpu:2"; --gpus isn't in it
	name    string
}

// The fields of job in squeue's format (squeue(1), -o).
var jobFields = []string{"%A", "%i", "%T", "%S", "%u", "%a", "%w", "%b", "%j"}

// key distinguishes the runs of a job.
func (j job) key() string { return j.id + " " + j.start }

// asksForGPUs returns whether the job certainly requested GPUs; requests per job or task (--gpus), or for a whole
// node (--exclusive), aren't recognised.
func (j job) asksForGPUs() bool {
	return strings.Contains(j.gres, "gpu") || strings.Contains(j.gres, "shard") || strings.Contains(j.gres, "mps")
}

const stateCompleting = "COMPLETING"

// endedStates are those in which a job holds nothing: it has ended, including its epilog, or waits for another run
// (squeue(1), JOB STATE CODES).
var endedStates = []string{
	"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
	"PREEMPTED", "REVOKED", "TIMEOUT",
	"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT",
}

func hasEnded(state string) bool { return slices.Contains(endedStates, state) }

// maxIDs bounds the job ids per command line.
const maxIDs = 500

// onNode lists the jobs that hold something on the node.
func (c *client) onNode(ctx context.Context) ([]job, error) {
	return c.list(ctx, "-w", c.node, "-t", "RUNNING,SUSPENDED,COMPLETING")
}

// byID returns jobs in any state, by id; without those unknown to Slurm.
func (c *client) byID(ctx context.Context, ids []string) (map[string]job, error) {
	found := map[string]job{}
	for chunk := range slices.Chunk(ids, maxIDs) {
		jobs, err := c.list(ctx, "-t", "all", "-j", strings.Join(chunk, ","))
		if unknownJob(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, j := range jobs {
			found[j.id] = j
		}
	}
	return found, nil
}

func (c *client) list(ctx context.Context, which ...string) ([]job, error) {
	separator := "|" + c.nonce() + "|"
	format := separator + strings.Join(jobFields, separator) + separator
	out, err := c.run(ctx, c.squeue, append([]string{"-h", "-a", "-o", format}, which...)...)
	if err != nil {
		return nil, err
	}
	jobs, err := parseJobs(string(out), separator)
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", c.squeue, err)
	}
	return jobs, nil
}

// parseJobs parses output in which a separator that users can't predict begins, ends and divides the lines.
func parseJobs(out, separator string) ([]job, error) {
	parts := strings.Split(out, separator)
	width := len(jobFields) + 1 // fields and the text between the lines
	if len(parts)%width != 1 {
		return nil, fmt.Errorf("%d fields: want %d for each job", len(parts)-1, len(jobFields))
	}
	jobs := make([]job, 0, len(parts)/width)
	for i := 0; i < len(parts); i += width {
		if strings.TrimSpace(parts[i]) != "" {
			return nil, fmt.Errorf("unexpected text %q between jobs", shortened(parts[i]))
		}
		if i+width >= len(parts) {
			break
		}
		f := parts[i+1:]
		j := job{
			id: f[0], display: f[1], state: f[2], start: f[3], user: f[4], account: f[5], wckey: f[6], gres: f[7],
			name: f[8],
		}
		if n, err := parseUint32(j.id); err != nil || n == 0 {
			return nil, fmt.Errorf("job id %q: want a number", shortened(j.id))
		}
		if !isDisplayID(j.display) {
			return nil, fmt.Errorf("job %s: id %q: want a form such as 7, 3_1 or 12+1", j.id, shortened(j.display))
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

func isDisplayID(s string) bool {
	return s != "" && s[0] >= '1' && s[0] <= '9' && strings.Trim(s, "0123456789_+") == ""
}

// nodeGres is the node's own record of its GRES.
type nodeGres struct {
	gres []gresEntry // Gres=, in slurm.conf's order
	used []gresEntry // GresUsed=
}

// describeNode queries the node's GRES.
func (c *client) describeNode(ctx context.Context) (nodeGres, error) {
	out, err := c.run(ctx, c.scontrol, "-d", "-o", "show", "node", c.node)
	if err != nil {
		return nodeGres{}, err
	}
	node, err := parseNode(string(out), c.node)
	if err != nil {
		return nodeGres{}, fmt.Errorf("read the answer of %s for node %s: %w", c.scontrol, c.node, err)
	}
	return node, nil
}

func parseNode(out, name string) (nodeGres, error) {
	node := nodeGres{gres: []gresEntry{}}
	words := strings.Fields(out)
	if len(words) == 0 || words[0] != "NodeName="+name {
		return node, fmt.Errorf("answer begins with %q: want NodeName=%s", shortened(out), name)
	}
	seen := map[string]bool{}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		// Comment= and Reason=, which come last, are free text of operators.
		if (key != "Gres" && key != "GresUsed") || seen[key] {
			continue
		}
		seen[key] = true
		entries, err := parseGres(value)
		if err != nil {
			return node, fmt.Errorf("%s: %w", key, err)
		}
		if key == "Gres" {
			node.gres = append(node.gres, entries...)
		} else {
			node.used = entries
		}
	}
	if !seen["Gres"] || !seen["GresUsed"] {
		return node, errors.New("no Gres= or no GresUsed=")
	}
	return node, nil
}

// allocation returns the positions of gpu GRES that the job has on the node, and its current state; a job that has
// ended has none.
func (c *client) allocation(ctx context.Context, j job) (state string, positions []uint32, err error) {
	out, err := c.run(ctx, c.scontrol, "-d", "-o", "show", "job", j.display)
	if err != nil {
		return "", nil, err
	}
	record, err := trustedPart(string(out), j)
	if err != nil {
		return "", nil, fmt.Errorf("read the answer of %s for job %s: %w", c.scontrol, j.id, err)
	}
	state, _, _ = strings.Cut(strings.TrimPrefix(record, "JobState="), " ")
	if hasEnded(state) {
		return state, nil, nil
	}
	if positions, err = parseAllocation(record, c.node); err != nil {
		return "", nil, fmt.Errorf("job %s of %s: %w", j.id, j.user, err)
	}
	return state, positions, nil
}

// trustedPart is the part of a job's record from JobState= to the fields after its GRES. The text before and after it
// is chosen by users: it is skipped by its known value, or cut off.
func trustedPart(out string, j job) (string, error) {
	rest := out
	for _, skip := range []string{"JobId=" + j.id + " ", "JobName=" + j.name + " ", " Account=" + j.account + " QOS="} {
		before, after, found := strings.Cut(rest, skip)
		if !found || (strings.HasPrefix(skip, "JobId=") && before != "") {
			return "", fmt.Errorf("record without %q: the job has changed meanwhile, or the record has another form",
				shortened(skip))
		}
		rest = after
	}
	_, rest, _ = strings.Cut(rest, " ") // the QOS, which only operators name
	if after, found := strings.CutPrefix(rest, "WCKey="+j.wckey+" "); found {
		rest = after
	}
	if !strings.HasPrefix(rest, "JobState=") {
		return "", fmt.Errorf("record begins with %q: want JobState=", shortened(rest))
	}
	end := -1
	for _, key := range []string{" MinCPUsNode=", " Features=", " OverSubscribe=", " Command=", " WorkDir="} {
		if i := strings.Index(rest, key); i >= 0 && (end < 0 || i < end) {
			end = i
		}
	}
	if end < 0 {
		return "", errors.New("no MinCPUsNode= or WorkDir=: the answer is truncated")
	}
	return rest[:end], nil
}

// parseAllocation parses "JOB_GRES=… Nodes=n[1-2] CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1) Nodes=n3 …": one group for all
// nodes with the same share.
func parseAllocation(record, node string) ([]uint32, error) {
	var all []gresEntry
	mine := false
	for word := range strings.FieldsSeq(record) {
		key, value, _ := strings.Cut(word, "=")
		var err error
		switch {
		case key == "Nodes":
			if mine, err = hostlist.Has(value, node); err != nil {
				return nil, fmt.Errorf("nodes: %w", err)
			}
		case key == "GRES" && mine:
			entries, err := parseGres(value)
			if err != nil {
				return nil, err
			}
			all = append(all, entries...)
		}
	}
	return gpuPositions(all)
}

// newNonce returns 26 random letters and digits.
func newNonce() string { return rand.Text() }
