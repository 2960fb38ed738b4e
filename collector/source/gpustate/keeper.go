package gpustate

import (
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Keeper stores a source's GPUs across restarts in its File. Without a path the state is lost when the process ends.
type Keeper struct {
	*GPUs
	File    File
	Cluster string
	Log     *slog.Logger
	Failed  prometheus.Counter // files that could not be read or written

	restored bool
}

// RestoreOnce reads the previous process's state at the first call: whole is or embeds the State at st. It returns
// whether whole was read now. Without a usable file there is no state, as at the very first start.
func (k *Keeper) RestoreOnce(whole any, st *State, now time.Time) bool {
	if k.restored || k.File.Path == "" {
		return false
	}
	k.restored = true
	err := k.File.Read(k.Cluster, whole, st)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		k.Log.Info("no state of earlier readings: energy counts from the second reading on", "file", k.File.Path)
	case err != nil:
		k.Failed.Inc()
		k.Log.Error("state of earlier readings is lost: health flags and energy start again", "file", k.File.Path, "error",
			err)
	default:
		k.Restore(*st, now)
	}
	return err == nil
}

// State is the file's content.
func (k *Keeper) State() State { return k.GPUs.State(k.File.Kind, k.Cluster) }

// Save replaces the file's content.
func (k *Keeper) Save(whole any) {
	if k.File.Path == "" {
		return
	}
	if err := k.File.Write(whole); err != nil {
		k.Failed.Inc()
		k.Log.Error("saving the state of readings failed: a restart would lose health flags and energy", "error", err)
	}
}
