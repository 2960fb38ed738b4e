package datadir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/files"
	"github.com/gputally/gputally/internal/unixsock"
)

// Run is the content of run.json: the addresses of the process that serves a data directory.
type Run struct {
	Holder
	EngineSocket  string `json:"engine_socket"`  // path of ClickHouse's HTTP interface
	BrokerAddress string `json:"broker_address"` // of Kafka: unix: and the socket's path
	// BrokerPassword is the password for the broker.
	BrokerPassword string `json:"broker_password,omitempty"`
	HTTPAddress    string `json:"http_address"` // host:port of /metrics and the API; empty: none
	// HTTPSocket is the path of the Unix socket that serves the same, and accepts decisions.
	HTTPSocket string `json:"http_socket"`
	TempDir    string `json:"temp_dir"` // directory of the sockets
}

// Publish writes run.json, so that other commands attach to this process. It sets Holder and TempDir.
func (d *Dir) Publish(run Run) error {
	run.Holder, run.TempDir = d.self, d.temp
	text, err := json.MarshalIndent(run, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", runName, err)
	}
	return files.Write(d.Join(runName), append(text, '\n'))
}

// ReadRun reads the run.json of the data directory at path. The error wraps fs.ErrNotExist if no process serves it.
func ReadRun(path string) (Run, error) {
	var run Run
	data, err := os.ReadFile(filepath.Join(path, runName))
	if err != nil {
		return run, fmt.Errorf("read %s: %w", runName, err)
	}
	if err := json.Unmarshal(data, &run); err != nil {
		return run, fmt.Errorf("read %s: %w", filepath.Join(path, runName), err)
	}
	return run, nil
}

// Attachment is a command's access to the data: if Own is set, the command holds the directory and starts engine and
// broker itself; else Run has the addresses of a running process.
type Attachment struct {
	Own *Dir
	Run Run
}

// AttachOptions are how long Attach waits, and its log, which gets a line when it waits.
type AttachOptions struct {
	Self  Holder
	Clock clock.Clock
	Log   *slog.Logger
	// Wait bounds the wait for a holder that is starting, restarting its engine, or is itself a short command.
	Wait time.Duration
}

const (
	attachRetry = 100 * time.Millisecond
	dialTimeout = 2 * time.Second
)

// Attach finds the data directory's running process, or locks the directory if there is none. The directory must
// exist. The error has the holder's pid if it holds the lock and its engine does not answer.
func Attach(ctx context.Context, path string, o AttachOptions) (Attachment, error) {
	if _, err := os.Stat(filepath.Join(path, formatName)); err != nil {
		return Attachment{}, fmt.Errorf("open data directory %s: no ledger found (standalone, demo and import create it): %w",
			path, err)
	}
	deadline, logged := o.Clock.Now().Add(o.Wait), false
	for {
		got, err := attachOnce(ctx, path, o.Self)
		var locked *LockedError
		if err == nil || !errors.As(err, &locked) {
			return got, err
		}
		if !o.Clock.Now().Before(deadline) {
			return got, err
		}
		if !logged {
			logged = true
			o.Log.Info("waiting for the data directory", "reason", err, "at_most", o.Wait)
		}
		if err := clock.Sleep(ctx, o.Clock, attachRetry); err != nil {
			return Attachment{}, fmt.Errorf("wait for data directory %s: %w", path, err)
		}
	}
}

func attachOnce(ctx context.Context, path string, self Holder) (Attachment, error) {
	own, err := Open(path, self)
	var locked *LockedError
	if !errors.As(err, &locked) {
		return Attachment{Own: own}, err
	}
	run, readErr := ReadRun(locked.Path)
	if readErr != nil || run.PID != locked.Holder.PID {
		return Attachment{}, fmt.Errorf("%w, which hasn't published its addresses in run.json (yet)", err)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, dialErr := unixsock.Dial(ctx, run.EngineSocket)
	if dialErr != nil {
		return Attachment{}, fmt.Errorf("%w, and its engine does not answer: %w", err, dialErr)
	}
	return Attachment{Run: run}, conn.Close()
}
