package gpustate

import (
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Keeper carries a source's GPUs over restarts by its File. Without a path the
// state ends with the process.
type Keeper struct {
	*GPUs
	File    File
	Cluster string
	Log     *slog.Logger
	Failed  prometheus.Counter // files that could not be used or written

	restored bool
}

// RestoreOnce takes up what the process before has kept, at the first call: whole
// is or embeds the State at st. It reports whether whole was read now. Without a
// file that can be used there is no state, as at the very first start.
func (k *Keeper) RestoreOnce(whole any, st *State, now time.Time) bool {
	if k.restored || k.File.Path == "" {
		return false
	}
	k.restored = true
	err := k.File.Read(k.Cluster, whole, st)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		k.Log.Info("no state of earlier readings: energy counts from the second one on", "file", k.File.Path)
	case err != nil:
		k.Failed.Inc()
		k.Log.Error("state of earlier readings is lost: health flags and energy start anew", "file", k.File.Path, "error",
			err)
	default:
		k.Restore(*st, now)
	}
	return err == nil
}

// State is what the file holds.
func (k *Keeper) State() State { return k.GPUs.State(k.File.Kind, k.Cluster) }

// Save replaces what the file says.
func (k *Keeper) Save(whole any) {
	if k.File.Path == "" {
		return
	}
	if err := k.File.Write(whole); err != nil {
		k.Failed.Inc()
		k.Log.Error("state of readings not saved: a restart would lose health flags and energy", "error", err)
	}
}
