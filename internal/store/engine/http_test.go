package engine_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/store/storetest"
)

func socketClient(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}}
}

type answer struct {
	Status int
	Code   string
	Body   string
}

// post sends body with query parameters as alternating names and values.
func post(t *testing.T, body io.Reader, header http.Header, parameters ...string) answer {
	t.Helper()
	return do(t.Context(), t, http.MethodPost, body, header, parameters...)
}

func do(ctx context.Context, t *testing.T, method string, body io.Reader, header http.Header,
	parameters ...string,
) answer {
	t.Helper()
	q := url.Values{}
	for i := 0; i < len(parameters); i += 2 {
		q.Set(parameters[i], parameters[i+1])
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://engine/?"+q.Encode(), body)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	response, err := socketClient(storetest.Socket(t)).Do(r)
	if err != nil {
		return answer{Body: err.Error()}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("read answer: %v", err)
	}
	return answer{response.StatusCode, response.Header.Get("X-ClickHouse-Exception-Code"), string(text)}
}

func sql(text string) io.Reader { return strings.NewReader(text) }

// mustExec runs a statement and fails the test when it is refused.
func mustExec(t *testing.T, statement string) {
	t.Helper()
	if got := post(t, sql(statement), nil); got.Status != http.StatusOK {
		t.Fatalf("%s: %+v", statement, got)
	}
}

func scalar(t *testing.T, statement string, parameters ...string) string {
	t.Helper()
	got := post(t, sql(statement), nil, parameters...)
	if got.Status != http.StatusOK {
		t.Fatalf("%s: %+v", statement, got)
	}
	return strings.TrimSuffix(got.Body, "\n")
}

// database makes one for the test and drops it at its end.
func database(t *testing.T) string {
	t.Helper()
	return storetest.Open(t).Database()
}

func TestExceptionsHaveTheServersStatusAndCode(t *testing.T) {
	tests := map[string]struct {
		sql        string
		parameters []string
		status     int
		code       string
		mentions   string
	}{
		"unknown table":    {"SELECT * FROM nowhere", nil, 404, "60", "nowhere"},
		"syntax":           {"SELEC 1", nil, 400, "62", "Syntax error"},
		"empty":            {" ;\n", nil, 400, "62", "empty"},
		"two statements":   {"SELECT 1; SELECT 2", nil, 400, "62", "Multi-statements"},
		"unknown setting":  {"SELECT 1", []string{"max_thread", "1"}, 404, "115", "max_thread"},
		"bad setting name": {"SELECT 1", []string{"a b", "1"}, 500, "36", `"a b"`},
		"unknown database": {"SELECT 1", []string{"database", "nobase"}, 404, "81", "nobase"},
		"division by zero": {"SELECT intDiv(1, 0)", nil, 500, "153", "zero"},
		"time limit": {
			"SELECT sleepEachRow(1) FROM numbers(5) SETTINGS max_block_size = 1",
			[]string{"max_execution_time", "0.2"},
			408, "159", "TIMEOUT",
		},
		"memory limit": {
			"SELECT groupArray(number) FROM numbers(100000000)",
			[]string{"max_memory_usage", "10000000"},
			500, "241", "MEMORY",
		},
		"missing parameter": {"SELECT {x:UInt8}", nil, 400, "456", "x"},
		"session":           {"SELECT 1", []string{"session_id", "s"}, 501, "48", "session_id"},
		"unknown compression": {
			"SELECT 1",
			[]string{"compress", "1", "network_compression_method", "lzma"},
			500,
			"89", "LZMA",
		},
		"bad insert data": {"INSERT INTO FUNCTION null('x UInt8') FORMAT CSV\nfoo\n", nil, 400, "117", "end of line"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := post(t, sql(test.sql), nil, test.parameters...)
			if got.Status != test.status || test.code != "" && got.Code != test.code || !strings.Contains(got.Body,
				test.mentions) {
				t.Errorf("got %+v, want status %d, code %s and a text with %q", got, test.status, test.code, test.mentions)
			}
		})
	}
}

func TestPingAndOtherPaths(t *testing.T) {
	client := socketClient(storetest.Socket(t))
	for path, want := range map[string]int{"/ping": 200, "/play": 404} {
		response, err := client.Get("http://engine" + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("GET %s: status %d, want %d", path, response.StatusCode, want)
		}
	}
}

func TestGetOnlyReads(t *testing.T) {
	name := database(t)
	got := do(t.Context(), t, http.MethodGet, nil, nil, "database", name, "query",
		"CREATE TABLE x (a UInt8) ENGINE = Memory")
	const readonly = "164"
	if got.Code != readonly {
		t.Errorf("CREATE by GET: %+v, want code %s", got, readonly)
	}
	if got := do(t.Context(), t, http.MethodGet, nil, nil, "query", "SELECT 7"); got.Body != "7\n" {
		t.Errorf("SELECT by GET: %+v", got)
	}
}

func TestSettingsAndSessionDoNotLeak(t *testing.T) {
	const ask = "SELECT getSetting('max_block_size')"
	before := scalar(t, ask)
	if got := scalar(t, ask, "max_block_size", "1234"); got != "1234" {
		t.Errorf("with the setting: %s, want 1234", got)
	}
	mustExec(t, "SET max_block_size = 4321")
	mustExec(t, "USE system")
	if got := scalar(t, ask); got != before {
		t.Errorf("after others set it: %s, want %s", got, before)
	}
	if got := scalar(t, "SELECT currentDatabase()"); got != "default" {
		t.Errorf("database after USE of another request: %s, want default", got)
	}
	if got := scalar(t, "SELECT timezone() = 'UTC' OR getSetting('session_timezone') = 'UTC'"); got != "1" {
		t.Errorf("session is not in UTC")
	}
}

func TestFsyncSettingsAreOn(t *testing.T) {
	const ask = `SELECT name, value FROM system.merge_tree_settings WHERE name IN ('fsync_after_insert', 'fsync_part_directory',
		'min_rows_to_fsync_after_merge', 'min_compressed_bytes_to_fsync_after_merge') ORDER BY name`
	want := "fsync_after_insert\t1\nfsync_part_directory\t1\nmin_compressed_bytes_to_fsync_after_merge\t1\nmin_rows_to_fsync_after_merge\t1"
	if diff := cmp.Diff(want, scalar(t, ask)); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func TestInsertKeepsBlankLinesAndSemicolons(t *testing.T) {
	name := database(t)
	mustExec(t, "CREATE TABLE "+name+".t (n UInt32, s String) ENGINE = MergeTree ORDER BY n")
	inserts := []struct{ url, body string }{
		{"", "INSERT INTO t FORMAT JSONEachRow\n{\"n\":1,\"s\":\"a\"}\n\n\n{\"n\":2,\"s\":\"b;\"}\n"},
		{"INSERT INTO t (n, s) FORMAT TSV", "3\t\\n\\n\n4\t;\n"},
		{"", "INSERT INTO t VALUES (5, '\n\n'), (6, 'FORMAT (');"},
		{"INSERT INTO t (n, s) VALUES", "(7, 'x')"},
		{"", "INSERT INTO t SELECT 8, ''"},
		{"INSERT INTO t FORMAT CSV", ""},
	}
	for _, insert := range inserts {
		parameters := []string{"database", name}
		if insert.url != "" {
			parameters = append(parameters, "query", insert.url)
		}
		if got := post(t, sql(insert.body), nil, parameters...); got.Status != http.StatusOK {
			t.Errorf("insert %q: %+v", insert, got)
		}
	}
	want := "1\ta\n2\tb;\n3\t\\n\\n\n4\t;\n5\t\\n\\n\n6\tFORMAT (\n7\tx\n8\t"
	if diff := cmp.Diff(want, scalar(t, "SELECT * FROM t ORDER BY n", "database", name)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// A client that dies in the middle of a block leaves nothing of it.
func TestInsertThatBreaksOffWritesNothing(t *testing.T) {
	name := database(t)
	mustExec(t, "CREATE TABLE "+name+".t (n UInt64) ENGINE = MergeTree ORDER BY n")
	head := sql("\x01\x02\x01n\x06UInt64\x01\x00\x00\x00\x00\x00\x00\x00")
	body := io.MultiReader(head, iotest.ErrReader(io.ErrClosedPipe))
	got := post(t, body, nil, "database", name, "query", "INSERT INTO t (n) FORMAT Native")
	if got.Status == http.StatusOK {
		t.Errorf("answer: %+v, want none", got)
	}
	const running = "SELECT count() FROM system.processes WHERE query LIKE 'INSERT INTO t%'"
	await(t, func() bool { return scalar(t, running) == "0" })
	if got := scalar(t, "SELECT count() FROM "+name+".t"); got != "0" {
		t.Errorf("rows: %s, want 0", got)
	}
}

func TestBodiesMayBeCompressed(t *testing.T) {
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(zw, "SELECT 41 + 1")
	_ = zw.Close()
	if got := post(t, &zipped, http.Header{"Content-Encoding": {"gzip"}}); got.Body != "42\n" {
		t.Errorf("gzip body: %+v", got)
	}
	w := compress.NewWriter(compress.LevelZero, compress.LZ4)
	if err := w.Compress([]byte("SELECT 42 + 1")); err != nil {
		t.Fatal(err)
	}
	if got := post(t, bytes.NewReader(w.Data), nil, "decompress", "1"); got.Body != "43\n" {
		t.Errorf("native compressed body: %+v", got)
	}
	if got := post(t, sql("x"), http.Header{"Content-Encoding": {"br"}}); got.Code != "89" {
		t.Errorf("br body: %+v, want code 89", got)
	}
}

func TestExceptionAfterRowsIsFramed(t *testing.T) {
	got := post(t, sql("SELECT throwIf(number = 300000) FROM numbers(1000000)"), nil, "max_block_size", "1000")
	if got.Status != http.StatusOK || !strings.Contains(got.Body, "\r\n__exception__\r\n") || !strings.Contains(got.Body,
		"Code: 395.") {
		t.Errorf("status %d, %d bytes, want 200 with a framed code 395 at the end: …%q", got.Status, len(got.Body),
			got.Body[max(0, len(got.Body)-300):])
	}
}

func TestParametersAreBoundByTheEngine(t *testing.T) {
	const ask = "SELECT {s:String}, {n:Int64}, {a:Array(UInt8)}"
	got := scalar(t, ask, "param_s", `'); DROP\tTABLE x --`, "param_n", "-5", "param_a", "[1,2]", "default_format", "CSV")
	if diff := cmp.Diff("\"'); DROP\tTABLE x --\",-5,\"[1,2]\"", got); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

func TestCancelledStatementsAreKilled(t *testing.T) {
	for _, statement := range []string{
		"SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 42",
		"INSERT INTO FUNCTION null('x UInt64') SELECT sipHash64(number) FROM numbers(1000000000000)",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan struct{})
		go func() {
			defer close(left)
			do(ctx, t, http.MethodPost, sql(statement), nil)
		}()
		const running = "SELECT count() FROM system.processes WHERE query LIKE '%1000000000000%' AND query NOT LIKE " +
			"'%system.processes%'"
		await(t, func() bool { return scalar(t, running) == "1" })
		cancel()
		<-left
		await(t, func() bool { return scalar(t, running) == "0" })
	}
}

// await polls until ok, for as long as the test may run.
func await(t *testing.T, ok func() bool) {
	t.Helper()
	for !ok() {
		if err := clock.Sleep(t.Context(), clock.Real(), 5*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}
