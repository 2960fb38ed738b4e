package datadir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gputally/gputally/internal/costtest"
)

// FuzzStateFiles: whatever run.json, LOCK and FORMAT say, they are read or refused,
// cheaply, and a directory that opens has one holder.
func FuzzStateFiles(f *testing.F) {
	self := Holder{PID: os.Getpid(), Command: "test"}
	f.Add([]byte(`{"pid":1,"command":"c","engine_socket":"/s","broker_address":"unix:/b","http_address":"h:1"}`),
		[]byte(`{"pid":1}`), []byte("1\n"))
	f.Add([]byte(`{"pid":1e400}`), []byte(`{"pid":"`), []byte("99999999999999999999"))
	f.Fuzz(func(t *testing.T, run, lock, format []byte) {
		dir := t.TempDir()
		for name, data := range map[string][]byte{runName: run, lockName: lock, formatName: format} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		costtest.Within(t, costtest.Time, 64<<20+4<<10*uint64(len(run)+len(lock)+len(format)), func() {
			_, _ = ReadRun(dir)
			_ = readHolder(dir)
			d, err := Open(dir, self)
			if err != nil {
				return
			}
			if _, err := Open(dir, self); err == nil {
				t.Error("the directory was opened twice")
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	})
}
