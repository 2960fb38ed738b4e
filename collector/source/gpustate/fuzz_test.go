package gpustate

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/costtest"
)

// FuzzFile: any bytes are a state or an error, cheaply, and what a memory takes
// from a state it gives back.
func FuzzFile(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	path := filepath.Join(f.TempDir(), "state")
	if err := (&File{Path: path, Kind: "k"}).Write(rich().State("k", "c")); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, false)
	f.Add(whole[:len(whole)/2], false)
	f.Add([]byte(`{"kind":"k","format":1,"cluster":"c","gpus":[{"node":"n","xids":[{}]},{"node":"n"}]}`), true)
	f.Fuzz(func(t *testing.T, data []byte, sealed bool) {
		if sealed {
			data = append(append(append(data[:len(data):len(data)], '\n'), sum(data)...), '\n')
		}
		file := &File{Path: filepath.Join(t.TempDir(), "state"), Kind: "k"}
		if err := os.WriteFile(file.Path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		costtest.Within(t, costtest.Time, 64<<20+4<<10*uint64(len(data)), func() {
			var st State
			if err := file.Read("c", &st, &st); err != nil {
				return
			}
			m := New(discard())
			m.Restore(st, now)
			again := New(discard())
			again.Restore(m.State("k", "c"), now)
			if again.Len() != m.Len() || m.Len() > len(st.GPUs) {
				t.Errorf("%d GPUs of %d, and %d of them", m.Len(), len(st.GPUs), again.Len())
			}
		})
	})
}
