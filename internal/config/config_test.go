package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/costtest"
)

type room struct {
	Slot      time.Duration
	MaxLate   time.Duration
	Targets   []target
	IdleWatts map[string]float64
	Retries   uint8
	Simulated bool
	Since     time.Time
	Ratio     float64
	Limit     *int
	Password  Secret
	Skipped   func() `yaml:"-"`
}

type target struct {
	URL  string `yaml:"url"`
	Node string
}

type file struct {
	Cluster string `yaml:"cluster"`
	Room    room   `yaml:"room"`
}

func defaults() file {
	return file{Cluster: "default", Room: room{
		Slot: 10 * time.Second, Targets: []target{{URL: "http://127.0.0.1:9400/metrics"}},
		IdleWatts: map[string]float64{"H100": 70}, Retries: 3,
	}}
}

func TestDecodeKeepsDefaultsAndTakesTheRest(t *testing.T) {
	got := defaults()
	err := Decode("gputally.yaml", []byte(`
cluster: "42"
room:
  max_late: 35d
  targets:
  - {url: "http://127.0.0.1:9401/metrics", node: n1}
  - {url: "http://127.0.0.1:9402/metrics"}
  idle_watts: {A100: 55.5}
  simulated: true
  since: 2026-10-01T00:00:00Z
  ratio: 1
  limit: 7
`), &got)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	seven := 7
	want := file{Cluster: "42", Room: room{
		Slot: 10 * time.Second, MaxLate: 35 * 24 * time.Hour,
		Targets:   []target{{"http://127.0.0.1:9401/metrics", "n1"}, {"http://127.0.0.1:9402/metrics", ""}},
		IdleWatts: map[string]float64{"H100": 70, "A100": 55.5}, Retries: 3, Simulated: true,
		Since: time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC), Ratio: 1, Limit: &seven,
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Secret{})); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
}

func TestDecodeOfNothingKeepsDefaults(t *testing.T) {
	for _, text := range []string{"", "# only a comment\n", "---\n", "room:\n", "room:\n  idle_watts:\n  targets:\n"} {
		got := defaults()
		if err := Decode("f", []byte(text), &got); err != nil {
			t.Errorf("decode %q: %v", text, err)
		}
		if diff := cmp.Diff(defaults(), got, cmp.AllowUnexported(Secret{})); diff != "" {
			t.Errorf("decode %q (-want +got):\n%s", text, diff)
		}
	}
}

func TestDecodeNamesFileLineKeyAndValue(t *testing.T) {
	for text, want := range map[string]string{
		"room:\n  sloot: 10s":                      `f:2: room.sloot: unknown key, did you mean "slot"?`,
		"clutser: x":                               `f:1: clutser: unknown key, did you mean "cluster"?`,
		"zzz: x":                                   `f:1: zzz: unknown key; known here: cluster, room`,
		"room:\n  slot: 10":                        `f:2: room.slot: want a duration with its unit, such as "10s", "72h" or "35d", got 10`,
		"room:\n  slot: ten":                       `f:2: room.slot: want a duration with its unit, such as "10s", "72h" or "35d", got "ten"`,
		"room:\n  slot: [1s]":                      `f:2: room.slot: want a duration with its unit, such as "10s", "72h" or "35d", got a list`,
		"room:\n  retries: -1":                     `f:2: room.retries: want a whole number from 0 on, of 8 bits, got -1`,
		"room:\n  retries: 256":                    `f:2: room.retries: want a whole number from 0 on, of 8 bits, got 256`,
		"room:\n  retries: \"3\"":                  `f:2: room.retries: want a whole number from 0 on, of 8 bits, got "3"`,
		"room:\n  limit: 1.5":                      `f:2: room.limit: want a whole number of 64 bits, got 1.5`,
		"room:\n  simulated: yes":                  `f:2: room.simulated: want true or false, got "yes"`,
		"room:\n  ratio: .nan":                     `f:2: room.ratio: want a number, got .nan`,
		"room:\n  ratio: x":                        `f:2: room.ratio: want a number, got "x"`,
		"room:\n  targets: {url: x}":               `f:2: room.targets: want a list, got a mapping`,
		"room:\n  targets:\n  - {url: u, port: 1}": `f:3: room.targets[0].port: unknown key; known here: node, url`,
		"room:\n  idle_watts: {H100: warm}":        `f:2: room.idle_watts.H100: want a number, got "warm"`,
		"room:\n  idle_watts: 3":                   `f:2: room.idle_watts: want a mapping of keys, got 3`,
		"room:\n  since: yesterday":                `f:2: room.since: want a time.Time, got "yesterday": parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"`,
		"cluster: 7":                               `f:1: cluster: want a string in quotes ("7"), got 7`,
		"cluster:":                                 `f:1: cluster: want a string, got nothing`,
		"cluster: a\ncluster: b":                   `f:2: cluster: the key is already on line 1`,
		"cluster: a\n---\ncluster: b":              `f:2: a second document, want one`,
		"- cluster":                                `f:1: (the file): want a mapping of keys, got a list`,
		"cluster: &c a\nroom: *c":                  `f:1: anchors and aliases are not supported, write the value out`,
		"room:\n  skipped: 1":                      `f:2: room.skipped: unknown key`,
		"room:\n  password: hunter2":               `f:2: room.password: a secret is read only from a file or the environment: use room.password_file or room.password_env`,
		"room:\n  password_env: GPUTALLY_NO_SUCH":  `f:2: room.password_env: environment variable GPUTALLY_NO_SUCH is not set`,
		"room:\n  password_file: /nonexistent/pw":  `f:2: room.password_file: read secret: open /nonexistent/pw: no such file or directory`,
		"room:\n  password_file: 3":                `f:2: room.password_file: want the name of a file, got 3`,
		"room: " + strings.Repeat("x", 80): `f:1: room: want a mapping of keys, got "` + strings.Repeat("x",
			60) + `…"`,
		"cluster: [": `parse f: yaml: line 1: did not find expected node content`,
	} {
		got := defaults()
		err := Decode("f", []byte(text), &got)
		if err == nil {
			t.Errorf("decode %q: no error, want %q", text, want)
			continue
		}
		if diff := cmp.Diff(want, err.Error()); diff != "" && !strings.HasPrefix(err.Error(), want+"; ") {
			t.Errorf("decode %q (-want +got):\n%s", text, diff)
		}
	}
}

func TestDecodeReportsEveryFaultUpToALimit(t *testing.T) {
	got := defaults()
	err := Decode("f", []byte("clutser: x\nroom:\n  slot: 1\n"), &got)
	if want := 2; err == nil || strings.Count(err.Error(), "f:") != want {
		t.Errorf("faults: got %v, want %d", err, want)
	}
	var many strings.Builder
	for i := range maxFaults + 5 {
		fmt.Fprintf(&many, "key%d: x\n", i)
	}
	err = Decode("f", []byte(many.String()), &got)
	if err == nil || !strings.HasSuffix(err.Error(), "f: and 5 more") {
		t.Errorf("many faults: got %v, want them cut", err)
	}
}

func TestLoadReadsSecrets(t *testing.T) {
	dir := t.TempDir()
	secretPath, path := filepath.Join(dir, "pw"), filepath.Join(dir, "gputally.yaml")
	write(t, secretPath, "hunter2\n")
	write(t, path, "room:\n  password_file: "+secretPath+"\n")
	var got file
	if err := Load(path, &got); err != nil {
		t.Fatalf("load: %v", err)
	}
	if got.Room.Password.Reveal() != "hunter2" {
		t.Errorf("secret from its file: got %q", got.Room.Password.Reveal())
	}
	write(t, path, "room: {password_file: pw}\n")
	got = file{}
	if err := Load(path, &got); err != nil || got.Room.Password.Reveal() != "hunter2" {
		t.Errorf("secret from a file beside the configuration: got %q, %v", got.Room.Password.Reveal(), err)
	}
	t.Setenv("GPUTALLY_TEST_SECRET", "hunter3")
	write(t, path, "room: {password_env: GPUTALLY_TEST_SECRET}\n")
	got = file{}
	if err := Load(path, &got); err != nil {
		t.Fatalf("load: %v", err)
	}
	if got.Room.Password.Reveal() != "hunter3" {
		t.Errorf("secret from the environment: got %q", got.Room.Password.Reveal())
	}
	write(t, path, "room: {password_env: GPUTALLY_TEST_SECRET, password_file: "+secretPath+"}\n")
	if err := Load(path, &file{}); err == nil || !strings.Contains(err.Error(), "already named by its env") {
		t.Errorf("secret from two places: got %v", err)
	}
	write(t, secretPath, "\n")
	write(t, path, "room: {password_file: "+secretPath+"}\n")
	if err := Load(path, &file{}); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("empty secret: got %v", err)
	}
	if err := Load(filepath.Join(dir, "none.yaml"), &file{}); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("missing file: got %v", err)
	}
}

func TestSecretNeverShows(t *testing.T) {
	s := NewSecret("hunter2")
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, nil)).Info("start", "password", s, "in", struct{ S Secret }{s})
	asJSON, err := json.Marshal(struct{ Password Secret }{s})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "%s %v %+v %#v %q %x %v %s", s, s, s, s, s, s, struct{ S Secret }{s}, asJSON)
	if err := Encode(&b, struct{ Password Secret }{s}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "hunter2") || strings.Contains(b.String(), "68756e74657232") {
		t.Errorf("the secret shows: %s", b.String())
	}
	if got := fmt.Sprint(Secret{}); got != "" {
		t.Errorf("no secret: got %q, want nothing", got)
	}
}

func TestEncodeIsWhatDecodeReads(t *testing.T) {
	secretPath := filepath.Join(t.TempDir(), "pw")
	write(t, secretPath, "hunter2")
	want := defaults()
	text := "cluster: \"42\"\nroom: {slot: 90s, max_late: 72h, since: 2026-10-01T00:00:00Z, limit: 3, password_file: " +
		secretPath + "}"
	if err := Decode("f", []byte(text), &want); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Encode(&b, want); err != nil {
		t.Fatalf("encode: %v", err)
	}
	wantText := `cluster: "42"
room:
  slot: 1m30s
  max_late: 72h
  targets:
    - url: http://127.0.0.1:9400/metrics
      node: ""
  idle_watts:
    H100: 70
  retries: 3
  simulated: false
  since: "2026-10-01T00:00:00Z"
  ratio: 0
  limit: 3
  password_file: ` + secretPath + "\n"
	if diff := cmp.Diff(wantText, b.String()); diff != "" {
		t.Errorf("encoded (-want +got):\n%s", diff)
	}
	var got file
	if err := Decode("encoded", b.Bytes(), &got); err != nil {
		t.Fatalf("decode what was encoded: %v", err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Secret{})); diff != "" {
		t.Errorf("round trip (-want +got):\n%s", diff)
	}
}

func TestSnake(t *testing.T) {
	for name, want := range map[string]string{
		"Slot": "slot", "MaxLate": "max_late", "GPUHour": "gpu_hour", "URL": "url", "URLs": "urls",
		"GPUs": "gpus", "HTTPListen": "http_listen", "ClusterID": "cluster_id", "FSyncMS": "f_sync_ms",
	} {
		if got := snake(name); got != want {
			t.Errorf("snake(%q): got %q, want %q", name, got, want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{"10s": 10 * time.Second, "35d": 840 * time.Hour, "0s": 0} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q): got %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "1.5d", "999999999d", "10"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("ParseDuration(%q): got %s, want an error", text, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("cluster: a\nroom: {slot: 10s}\n")
	f.Add("room:\n  targets: [{url: u}]\n")
	for _, text := range hostileYAML() {
		f.Add(text[:min(len(text), 4<<10)])
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := defaults()
		var err error
		costtest.Within(t, costtest.Time, 64<<20+4<<10*uint64(len(text)), func() { err = Decode("f", []byte(text), &got) })
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := Encode(&b, got); err != nil {
			t.Fatalf("encode what %q decoded to: %v", text, err)
		}
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
