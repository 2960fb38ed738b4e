package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// maxOutputBytes bounds how much of a program's output is read: hundreds of thousands of jobs.
const maxOutputBytes = 64 << 20

// runner runs a program with these arguments, without a shell, and returns its standard output.
type runner func(ctx context.Context, program string, args ...string) ([]byte, error)

// programs returns the runner of Slurm's real programs.
func programs(timeout time.Duration, slurmConf string) runner {
	return func(ctx context.Context, program string, args ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s", timeout))
		defer cancel()
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = environment(os.Environ(), slurmConf)
		// A grandchild that keeps the pipes open must not delay the return.
		cmd.WaitDelay = time.Second
		out := &bounded{left: maxOutputBytes, over: cancel}
		complaint := &bounded{left: 4 << 10}
		cmd.Stdout, cmd.Stderr = out, complaint
		err := cmd.Run()
		switch {
		case out.cut:
			return nil, fmt.Errorf("run %s: more than %d bytes of output", program, maxOutputBytes)
		case err == nil:
			return out.kept.Bytes(), nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("run %s: %w", program, context.Cause(ctx))
		}
		return nil, &commandError{program, strings.TrimSpace(complaint.kept.String()), err}
	}
}

// commandError is a program's failure, with its error output.
type commandError struct {
	program   string
	complaint string
	err       error
}

func (e *commandError) Error() string {
	if e.complaint == "" {
		return fmt.Sprintf("run %s: %v", e.program, e.err)
	}
	return fmt.Sprintf("run %s: %v: %s", e.program, e.err, shortened(e.complaint))
}

func (e *commandError) Unwrap() error { return e.err }

// unknownJob returns whether Slurm doesn't know the job.
func unknownJob(err error) bool {
	var failed *commandError
	return errors.As(err, &failed) && strings.Contains(failed.complaint, "Invalid job id specified")
}

// environment removes variables that would change the query, such as SQUEUE_USERS and SLURM_CLUSTERS.
func environment(environ []string, slurmConf string) []string {
	var kept []string
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		ours := name == "SLURM_CONF" && slurmConf != ""
		changes := strings.HasPrefix(name, "SLURM_") && name != "SLURM_CONF" && name != "SLURM_JWT"
		if !ours && !changes && !strings.HasPrefix(name, "SQUEUE_") && !strings.HasPrefix(name, "SCONTROL_") {
			kept = append(kept, pair)
		}
	}
	if slurmConf != "" {
		kept = append(kept, "SLURM_CONF="+slurmConf)
	}
	return kept
}

// bounded keeps the first bytes; over, if any, is called when there are more.
type bounded struct {
	kept bytes.Buffer
	left int
	cut  bool
	over func()
}

// Write never fails, so that the program doesn't fail because of the bound.
func (b *bounded) Write(p []byte) (int, error) {
	keep := min(len(p), b.left)
	b.kept.Write(p[:keep])
	if b.left -= keep; keep < len(p) && !b.cut {
		b.cut = true
		if b.over != nil {
			b.over()
		}
	}
	return len(p), nil
}
