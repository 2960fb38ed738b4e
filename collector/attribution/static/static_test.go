package static

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gputally/gputally/collector/attribution"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func u32(n uint32) *uint32 { return &n }

func newReader(t *testing.T, text string) (*Reader, *clock.Fake, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "owners.yaml")
	put(t, path, text)
	fake := clock.NewFake(noon)
	r, err := New(Config{File: path}, Deps{Clock: fake, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	return r, fake, path
}

// put replaces a file as an administrator should: by a rename.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, r *Reader) attribution.Snapshot {
	t.Helper()
	snap, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func diff(want, got attribution.Snapshot) string {
	return cmp.Diff(want, got, cmpopts.IgnoreUnexported(wire.Owner{}), cmpopts.EquateEmpty())
}

func TestReadGivesEveryEntry(t *testing.T) {
	r, _, _ := newReader(t, `
owners:
  - {gpu: GPU-5c1e, tenant: vision, project: training}
  - {index: 1, user: alice, account: bio}
  - {minor: 2, gi: 1, ci: 0, tenant: notebooks}
  - {mig: MIG-77aa, job: "42"}
  - {mig: MIG-77aa, job: "43"}
`)
	want := attribution.Snapshot{Holdings: []attribution.Holding{
		{Device: attribution.Device{UUID: "GPU-5c1e"}, Owner: &wire.Owner{Tenant: "vision", Project: "training"}},
		{Device: attribution.Device{Index: u32(1)}, Owner: &wire.Owner{User: "alice", Account: "bio"}},
		{Device: attribution.Device{Minor: u32(2), GI: u32(1), CI: u32(0)}, Owner: &wire.Owner{Tenant: "notebooks"}},
		{Device: attribution.Device{UUID: "MIG-77aa"}, Owner: &wire.Owner{Job: "42"}},
		{Device: attribution.Device{UUID: "MIG-77aa"}, Owner: &wire.Owner{Job: "43"}},
	}}
	if d := diff(want, read(t, r)); d != "" {
		t.Errorf("snapshot (-want +got):\n%s", d)
	}
	if r.Name() != "static" {
		t.Errorf("name %q, want static", r.Name())
	}
}

func TestEntriesHoldFromInclusiveToExclusive(t *testing.T) {
	r, fake, _ := newReader(t, `
owners:
  - {index: 0, tenant: a, to: 2026-11-21T12:00:10Z}
  - {index: 0, tenant: b, from: 2026-11-21T13:00:10+01:00, to: 2026-11-21T12:00:20Z}
  - {index: 0, tenant: a, from: 2026-11-21T12:00:20Z}
`)
	for _, c := range []struct {
		at   time.Duration
		want string
	}{{0, "a"}, {10*time.Second - 1, "a"}, {10 * time.Second, "b"}, {20*time.Second - 1, "b"}, {20 * time.Second, "a"}, {1e6 * time.Second, "a"}} {
		fake.Set(noon.Add(c.at))
		want := attribution.Snapshot{Holdings: []attribution.Holding{{Device: attribution.Device{Index: u32(0)}, Owner: &wire.Owner{Tenant: c.want}}}}
		if d := diff(want, read(t, r)); d != "" {
			t.Errorf("after %s (-want +got):\n%s", c.at, d)
		}
	}
}

func TestANewVersionIsReadAndABadOneFailsUntilItIsRight(t *testing.T) {
	r, _, path := newReader(t, "owners: [{index: 0, tenant: a}]\n")
	read(t, r)
	put(t, path, "owners: [{index: 0, tenant: b}]\n") // same length
	if got := read(t, r).Holdings[0].Owner.Tenant; got != "b" {
		t.Errorf("tenant after the change: %q, want b", got)
	}
	put(t, path, "owners: [{index: 0, tennant: b}]\n")
	for range 2 {
		if _, err := r.Read(t.Context()); err == nil || !strings.Contains(err.Error(), path+":1: owners[0].tennant: unknown key") {
			t.Errorf("error %v, want the unknown key with its line", err)
		}
	}
	put(t, path, "owners: []\n")
	if d := diff(attribution.Snapshot{}, read(t, r)); d != "" {
		t.Errorf("nobody has anything (-want +got):\n%s", d)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("error %v, want the missing file", err)
	}
	put(t, path, "owners: [{index: 0, tenant: c}]\n")
	if got := read(t, r).Holdings[0].Owner.Tenant; got != "c" {
		t.Errorf("tenant once the file is back: %q, want c", got)
	}
}

func TestAnEditInPlaceIsSeen(t *testing.T) {
	r, _, path := newReader(t, "owners: [{index: 0, tenant: a}]\n")
	read(t, r)
	if err := os.WriteFile(path, []byte("owners: [{index: 0, tenant: b}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, noon, noon); err != nil {
		t.Fatal(err)
	}
	if got := read(t, r).Holdings[0].Owner.Tenant; got != "b" {
		t.Errorf("tenant after the edit: %q, want b", got)
	}
}

func TestDecodeNamesPlaceAndFault(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "f: the file is empty",
		"owners:\n":              "f: no list under owners",
		"owner: []\n":            `f:1: owner: unknown key, did you mean "owners"?`,
		"owners:\n- {tenant: a}": "f:2: owners[0]: names no device",
		"owners:\n- {index: 0}":  "f:2: owners[0]: names no owner",
		"owners:\n- {index: 0, minor: 0, job: a}":                                             "f:2: owners[0]: names the device twice",
		"owners:\n\n- {gpu: GPU-1, mig: MIG-2, job: a}":                                       "f:3: owners[0]: names the device twice",
		"owners:\n- {mig: MIG-2, gi: 1, job: a}":                                              `f:2: owners[0]: mig "MIG-2": gi and ci are not allowed`,
		"owners:\n- {index: 0, ci: 1, job: a}":                                                "f:2: owners[0]: ci 1: requires gi",
		"owners:\n- {gpu: MIG-1, job: a}":                                                     `f:2: owners[0].gpu: want a static.gpuUUID, got "MIG-1": must be GPU- and a UUID`,
		"owners:\n- {mig: MIG-GPU-1/2/0, job: a}":                                             `f:2: owners[0].mig: want a static.migUUID`,
		"owners:\n- {index: -1, job: a}":                                                      "f:2: owners[0].index: want a whole number",
		"owners:\n- {index: 0, job: 7}":                                                       `f:2: owners[0].job: want a string in quotes ("7")`,
		"owners:\n- {index: 0, job: a, from: now}":                                            `f:2: owners[0].from: want a time.Time, got "now"`,
		"owners:\n- index: 0\n  job: a\n- index: 0\n  job: a\n":                               "f:4: owners[1]: repeats owners[0] on line 2",
		"owners:\n- {index: 0, job: a, from: 2026-01-02T00:00:00Z, to: 2026-01-02T00:00:00Z}": "f:2: owners[0]: from 2026-01-02T00:00:00Z: must be before to",
	} {
		_, err := decode("f", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("decode %q: got %v, want %s", text, err, want)
		}
	}
}

func TestWhatIsNoFileIsRefused(t *testing.T) {
	r, _, path := newReader(t, "owners: []\n")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("a pipe: got %v, want it refused", err)
	}
	put(t, path, strings.Repeat("#", maxFileBytes+1))
	if _, err := r.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "has more than 1048576 bytes") {
		t.Errorf("a huge file: got %v, want it refused", err)
	}
}

func TestConfig(t *testing.T) {
	if _, err := New(DefaultConfig(), Deps{}); err == nil || err.Error() != `configure static owners: file "": must be the absolute path of a YAML file with owners` {
		t.Errorf("error %v, want the missing file", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("owners: [{index: 0, tenant: a}, {mig: MIG-1, job: \"1\", from: 2026-01-02T00:00:00Z}]")
	f.Add("owners:\n- &a {gpu: GPU-1, user: b}\n- *a\n")
	f.Fuzz(func(t *testing.T, text string) {
		owners, err := decode("f", []byte(text))
		if err != nil {
			return
		}
		for _, e := range owners {
			if e.device() == (attribution.Device{}) || e.facts() == [5]string{} {
				t.Errorf("decode %q: %+v names no device or no owner", text, e)
			}
		}
	})
}
