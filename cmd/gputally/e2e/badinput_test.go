package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/placetest"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/engine"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/wire"
)

// TestWrongFilesAreNamedByKeyAndLine: a configuration or a price book that
// can't be right stops every command before it touches anything.
func TestWrongFilesAreNamedByKeyAndLine(t *testing.T) {
	for name, c := range map[string]struct{ config, prices, want string }{
		"unknown key": {
			config: "cluster: {name: x}\nledger:\n  tenant_file: t.yaml\n",
			want:   `config.yaml:3: ledger.tenant_file: unknown key, did you mean "tenants_file"?`,
		},
		"wrong unit": {config: "kafka:\n  retention: 5 parsecs\n", want: `config.yaml:2: kafka.retention: want a duration`},
		"negative price": {
			config: "billing: {prices: prices.yaml}\n",
			prices: "currency: USD\ntime_zone: UTC\nversions:\n- effective: 2020-01-01T00:00:00Z\n  models:\n    Tesla T4:\n " +
				"     gpu_hour: \"-2.49\"\n",
			want: `prices.yaml:7: versions[0].models."Tesla T4".gpu_hour: "-2.49" is not a non-negative decimal`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			placetest.WriteFile(t, filepath.Join(dir, "config.yaml"), c.config)
			placetest.WriteFile(t, filepath.Join(dir, "prices.yaml"), c.prices)
			data := filepath.Join(dir, "data")
			for _, line := range []string{
				"standalone --listen 127.0.0.1:0", "import batches " + filepath.Join(programtest.CasesDir, "r12_replicas.jsonl"),
				"usage", "verify",
				"invoice list --period 2026-03",
			} {
				got := programtest.Invoke(t,
					append(strings.Fields(line), "--data", data, "--config", filepath.Join(dir, "config.yaml"))...)
				if got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, c.want) || got.Stdout != "" {
					t.Errorf("gputally %s: got %+v, want %q", line, got, c.want)
				}
			}
			if _, err := os.Stat(filepath.Join(data, "clickhouse")); err == nil {
				t.Error("a command began its work in spite of the error")
			}
		})
	}
}

// TestUnusableSurroundingsLoseNothing: whatever is in the way is named, with
// exit code 3, and the ledger is as before once it is gone.
func TestUnusableSurroundingsLoseNothing(t *testing.T) {
	storetest.Library(t)
	data := programtest.NewDataDir(t)
	programtest.MustImport(t, data, filepath.Join(programtest.CasesDir, "r12_replicas.jsonl"))
	before := programtest.UsageCSV(t, data)
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	text := filepath.Join(t.TempDir(), "libchdb.so")
	placetest.WriteFile(t, text, "This is no library.\n")
	format := filepath.Join(data, "FORMAT")
	own, err := os.ReadFile(format)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		library, format, listen string
		commands                []string
		want                    []string
	}{
		"port in use": {
			listen: taken.Addr().String(), commands: []string{"standalone"},
			want: []string{taken.Addr().String(), "another process uses this address"},
		},
		"library missing": {
			library: text + ".gone", commands: []string{"standalone", "usage", "verify"},
			want: []string{text + ".gone", engine.LibraryEnv, "`make build` fetches it"},
		},
		"library of another kind": {
			library: text, commands: []string{"standalone", "usage"},
			want: []string{text, "SHA-256", "`make build` fetches the right one"},
		},
		"newer format": {
			format: "gputally data directory, format 2\n", commands: []string{"standalone", "usage", "verify"},
			want: []string{data, "its format 2 is newer than 1"},
		},
		"no format": {
			format: "hello\n", commands: []string{"usage"},
			want: []string{data, "FORMAT", `"hello"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.library != "" {
				t.Setenv(engine.LibraryEnv, c.library)
			}
			if c.format != "" {
				placetest.WriteFile(t, format, c.format)
				defer placetest.WriteFile(t, format, string(own))
			}
			for _, command := range c.commands {
				args := []string{command, "--data", data}
				if command == "standalone" {
					args = append(args, "--listen", "127.0.0.1:0")
				}
				if c.listen != "" {
					args[len(args)-1] = c.listen
				}
				got := programtest.Invoke(t, args...)
				if got.Code != cli.ExitEnvironment || got.Stdout != "" {
					t.Errorf("%s: got %+v, want code %d", command, got, cli.ExitEnvironment)
				}
				for _, want := range c.want {
					if !strings.Contains(got.Stderr, want) {
						t.Errorf("%s: got %q, want %q in it", command, got.Stderr, want)
					}
				}
			}
		})
	}
	if diff := cmp.Diff(before, programtest.UsageCSV(t, data)); diff != "" {
		t.Errorf("usage (-before +after):\n%s", diff)
	}
	programtest.MustVerify(t, data)
}

// TestBadLinesAreListedAndGoodOnesGoIn mixes lines that can't be right into a
// case.
func TestBadLinesAreListedAndGoodOnesGoIn(t *testing.T) {
	storetest.Library(t)
	c := programtest.ReadCase(t, "r1_fewer_owners")
	good := c.Lines[0]
	with := func(old, replacement string) string {
		t.Helper()
		if !strings.Contains(good, old) {
			t.Fatalf("no %s in %s", old, good)
		}
		return strings.Replace(good, old, replacement, 1)
	}
	lines := slices.Concat(c.Lines, []string{
		"", // no line at all is no bad line
		`{"cluster": "k", `,
		`[1, 2]`,
		with(`"node": "n1"`, `"node": ""`),
		with(`"slot_ms": 10000`, `"slot_ms": 7000`),
		with(`"slot_ms": 10000`, `"slot_ms": 60000`),
		with(`"slot_ms": 10000`, `"slot_ms": "10 s"`),
		with(`"leaf": "gpu"`, `"leaf": "gi7"`),
		with(`"mig": false`, `"mig": false, "energy_mj": -5`),
		with(`"seq": 0, `, ``),
	})
	file, data := programtest.WriteLines(t, lines), programtest.NewDataDir(t)
	got := programtest.Invoke(t, "import", "batches", file, "--data", data)
	want := programtest.Came(cli.ExitFailed, fmt.Sprintf("%d batches imported, 9 bad lines\n", len(c.Lines)), "")
	if diff := cmp.Diff(want, programtest.Came(got.Code, got.Stdout, "")); diff != "" {
		t.Errorf("import (-want +got):\n%s", diff)
	}
	for i, reason := range []string{
		"unexpected end", "array", "node", "slot_ms 7000", `slot_ms 60000: must be 10000`, "slot_ms: got string",
		`holds[0].leaf "gi7"`, "energy_mj -5", "seq",
	} {
		place := fmt.Sprintf("%s:%d: ", file, len(c.Lines)+2+i)
		_, after, found := strings.Cut(got.Stderr, place)
		line, _, _ := strings.Cut(after, "\n")
		if !found || !strings.Contains(line, reason) {
			t.Errorf("stderr %q: want %s%s", got.Stderr, place, reason)
		}
	}
	if diff := cmp.Diff(c.Want, programtest.PrintedLines(t, programtest.UsageCSV(t, data, c.Span...)),
		programtest.WithinTwoMJ); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	programtest.MustVerify(t, data)
	if got := programtest.Invoke(t, "import", "batches", file+".gone", "--data",
		data); got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, file+".gone") {
		t.Errorf("a file that is not there: got %+v", got)
	}
}

// newcomer is a batch of a node and cluster of its own, from a collector of
// this or another version.
func newcomer(t *testing.T, format uint32, extra []byte, change func(b *wire.Batch)) broker.Message {
	t.Helper()
	b := programtest.BootOf(1000, 1, nil)[0]
	b.Cluster, b.Node, b.Counters, b.Gpus[0].Uuid = "newer", "n7", nil, "GPU-n7"
	if change != nil {
		change(b)
	}
	b.Format = format
	value, err := proto.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return broker.Message{Topic: broker.TopicSamples, Key: []byte(b.Node), Value: append(value, extra...)}
}

const selectDead = `
SELECT groupArray(reason) AS reasons, (SELECT sum(unknown_fields) FROM batches FINAL) AS unknown
FROM (SELECT reason FROM batches FINAL WHERE status = 'dead' ORDER BY reason)`

// TestGarbageOnTheTopicIsSetAside: what can't be used goes to the dead letters
// with its reason and is journalled; everything else is as it would be.
func TestGarbageOnTheTopicIsSetAside(t *testing.T) {
	data := programtest.NewFleet(t)
	before := programtest.UsageCSV(t, data)
	large := bytes.Repeat([]byte{0xff, 0x13}, 100_000)
	unknownField := protowire.AppendVarint(protowire.AppendTag(nil, 999, protowire.VarintType), 7)
	dead := map[string]broker.Message{
		"garbage":     {Topic: broker.TopicSamples, Key: []byte("n1"), Value: large},
		"format":      newcomer(t, 2, nil, nil),
		"invalid":     newcomer(t, wire.Format, nil, func(b *wire.Batch) { b.Cluster = "" }),
		"slot_length": newcomer(t, wire.Format, nil, func(b *wire.Batch) { b.Cluster, b.SlotMs = "fleet", 30_000 }),
		"late": newcomer(t, wire.Format, nil, func(b *wire.Batch) {
			b.Origin, b.SlotStartMs = wire.Origin_ORIGIN_LIVE, 1_000_000_000_000/b.SlotMs*b.SlotMs
		}),
		"window": newcomer(t, wire.Format, nil, func(b *wire.Batch) { b.SlotStartMs -= 3_600_000 }),
	}
	reasons := slices.Sorted(maps.Keys(dead))
	msgs := slices.Collect(maps.Values(dead))
	programtest.OpenRun(t, data, "newer", "1m")
	programtest.OpenRun(t, data, "fleet", "1m")
	programtest.Produce(t, data, append(msgs, newcomer(t, wire.Format, unknownField, nil)))

	const added = "2026-03-01T00:00:00Z,GPU-n7,,0,0,0,60000,0,0,0,0.016666667,0.000\n"
	if diff := cmp.Diff(programtest.WithLine(before, added), programtest.UsageCSV(t, data)); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	r := programtest.MustVerify(t, data)
	if figures := r.Checks["C3"].Figures; !strings.Contains(figures, "361 stored, 6 dead, 0 holes") {
		t.Errorf("C3: got %q, want 361 stored, 6 dead", figures)
	}
	programtest.WithTables(t, data, func(db *store.DB) {
		var journal []struct {
			Reasons []string `ch:"reasons"`
			Unknown uint64   `ch:"unknown"`
		}
		if err := db.Select(t.Context(), &journal, selectDead); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(reasons, journal[0].Reasons); diff != "" || journal[0].Unknown != 1 {
			t.Errorf("journal: %d unknown fields, want 1; reasons (-want +got):\n%s", journal[0].Unknown, diff)
		}
	})
	letters := map[string]broker.Message{}
	for _, m := range programtest.ReadTopic(t, data, broker.TopicDeadLetter) {
		letters[programtest.HeaderOf(m, "reason")] = m
	}
	if diff := cmp.Diff(reasons, slices.Sorted(maps.Keys(letters))); diff != "" {
		t.Fatalf("dead letters (-want +got):\n%s", diff)
	}
	for reason, m := range letters {
		sent := dead[reason].Value
		sum := sha256.Sum256(sent)
		if programtest.HeaderOf(m, "error") == "" || programtest.HeaderOf(m, "offset") == "" || programtest.HeaderOf(m,
			"topic") != broker.TopicSamples ||
			programtest.HeaderOf(m, "size") != strconv.Itoa(len(sent)) || programtest.HeaderOf(m,
			"sha256") != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: got headers %s", reason, m.Headers)
		}
		if !bytes.Equal(m.Value, sent[:min(len(sent), 64<<10)]) {
			t.Errorf("%s: got %d bytes of %d, want the first 64 KiB", reason, len(m.Value), len(sent))
		}
	}
	if e := programtest.HeaderOf(letters["format"], "error"); !strings.Contains(e,
		"format 2, this version reads format 1") {
		t.Errorf("format: got error %q", e)
	}
}

// TestTroubledExporterIsNamedAndItsTimeUnobserved: a standalone lives through
// an exporter that is away, that answers half, and that comes back.
func TestTroubledExporterIsNamedAndItsTimeUnobserved(t *testing.T) {
	t.Parallel() // it waits
	storetest.Library(t)
	target, data := programtest.NewFlakyExporter(t), programtest.NewDataDir(t)
	running, log := programtest.StartLogged(t, "standalone", "--data", data, "--slot", "1s", "--scrape", target.URL())
	quoted := regexp.QuoteMeta(target.URL())
	log.Await(t, regexp.MustCompile("scrape "+quoted+": .*connection refused"))
	if status, body := programtest.Fetch(t, running.Url+"/-/ready"); status != http.StatusOK {
		t.Errorf("/-/ready with an exporter away: got %d %q", status, body)
	}
	success := `gputally_exporter_scrape_success{target="` + target.URL() + `"} `
	if _, metrics := programtest.Fetch(t, running.Url+"/metrics"); !strings.Contains(metrics, success+"0\n") {
		t.Errorf("metrics lack %s0", success)
	}
	second := programtest.Invoke(t, "standalone", "--data", data, "--listen", "127.0.0.1:0")
	holder := fmt.Sprintf("is in use by process %d (gputally standalone --data %s", os.Getpid(), data)
	if second.Code != cli.ExitEnvironment || !strings.Contains(second.Stderr, holder) {
		t.Errorf("a second standalone: got %+v, want %q", second, holder)
	}

	freeMS := func(column int) (sum int64) {
		for _, l := range programtest.PrintedLines(t, programtest.UsageCSV(t, data)) {
			sum += l.SliceMS[column]
		}
		return sum
	}
	const free, unobserved = 3, 6
	target.Start(t)
	programtest.Eventually(t, "data of an exporter that came up", func() bool { return freeMS(free) >= 1000 })
	for pattern, spoil := range map[string]func(w http.ResponseWriter){
		`: parse exposition, 200 OK .*: cut off at line 2, after 100 bytes`: func(w http.ResponseWriter) {
			_, _ = io.WriteString(w,
				programtest.Exposition[:strings.Index(programtest.Exposition, "\n")+1]+"DCGM_FI_DEV_POWER_US")
		},
		`: parse exposition, 200 OK .*: cut off at line 2, after 105 bytes`: func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", strconv.Itoa(len(programtest.Exposition)))
			_, _ = io.WriteString(w, programtest.Exposition[:105])
		},
		`: answered 503`: func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
	} {
		target.Spoil.Store(&spoil)
		log.Await(t, regexp.MustCompile("scrape "+quoted+pattern))
	}
	target.Spoil.Store(nil)
	seen := freeMS(free)
	programtest.Eventually(t, "data of an exporter that came back", func() bool { return freeMS(free) > seen })
	programtest.Eventually(t, "the three spoilt slots are unobserved", func() bool { return freeMS(unobserved) >= 3000 })
	if ms := freeMS(unobserved); ms%1000 != 0 {
		t.Errorf("unobserved: got %d ms, want whole slots of 1000 ms", ms)
	}
	if code := running.Stop(); code != cli.ExitOK {
		t.Errorf("standalone ended with %d", code)
	}
	programtest.MustVerify(t, data)
}
