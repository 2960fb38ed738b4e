package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/strangertest"
)

func TestOptionsAreChecked(t *testing.T) {
	dir := t.TempDir()
	notPEM := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(notPEM, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		options store.Options
		want    string
	}{
		"no database":   {store.Options{Address: "http://h:1"}, `database ""`},
		"database name": {store.Options{Address: "http://h:1", Database: "a;b"}, `"a;b"`},
		"scheme":        {store.Options{Address: "tcp://h:9000", Database: "d"}, `"tcp"`},
		"relative":      {store.Options{Address: "unix://sock", Database: "d"}, "unix:///absolute/path"},
		"no port":       {store.Options{Address: "http://h", Database: "d"}, "http://host:port"},
		"a path":        {store.Options{Address: "http://h:1/x", Database: "d"}, "http://host:port"},
		"a user":        {store.Options{Address: "http://u:p@h:1", Database: "d"}, "http://host:port"},
		"conns":         {store.Options{Address: "http://h:1", Database: "d", MaxOpenConns: -1}, "-1"},
		"no password": {store.Options{
			Address: "http://h:1", Database: "d",
			PasswordFile: filepath.Join(dir, "none"),
		}, "none"},
		"CA": {store.Options{Address: "https://h:1", Database: "d", CAFile: notPEM}, "no PEM"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := store.Open(t.Context(), test.options)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestPasswordIsReadFromItsFile(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		got = user + "/" + password
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := store.Open(t.Context(), store.Options{Address: server.URL, Database: "d", User: "u", PasswordFile: file})
	if got != "u/s3cret" {
		t.Errorf("credentials sent: %q, want u/s3cret", got)
	}
	if !store.Retryable(err) {
		t.Errorf("status 503: %v, want it to be retryable", err)
	}
}

func TestExceptionsCarryTheirCode(t *testing.T) {
	db := storetest.Open(t)
	err := db.Exec(t.Context(), "INSERT INTO nowhere VALUES (1)")
	var ex *store.Exception
	if !errors.As(err, &ex) || ex.Code != store.CodeUnknownTable || ex.Name != "UNKNOWN_TABLE" || store.Retryable(err) {
		t.Errorf("unknown table: %#v, want code 60, not retryable", err)
	}
	err = db.QueryRow(t.Context(),
		"SELECT groupArray(number) FROM numbers(100000000) SETTINGS max_memory_usage = 10000000").Err()
	if code, ok := store.Code(err); !ok || code != store.CodeMemoryLimit || !store.Retryable(err) {
		t.Errorf("memory limit: %v, want code 241, retryable", err)
	}
}

func TestRetryable(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("refused")}
	tests := map[string]struct {
		err  error
		want bool
	}{
		"nil":                {nil, false},
		"canceled":           {fmt.Errorf("x: %w", context.Canceled), false},
		"deadline":           {context.DeadlineExceeded, true},
		"refused":            {fmt.Errorf("x: %w", refused), true},
		"broke off":          {fmt.Errorf("x: %w", io.ErrUnexpectedEOF), true},
		"ours":               {errors.New("encode"), false},
		"constraint":         {&store.Exception{Code: store.CodeConstraintViolation}, false},
		"disk full":          {fmt.Errorf("x: %w", &store.Exception{Code: store.CodeNoSpace}), true},
		"a file's":           {fmt.Errorf("x: %w", &fs.PathError{Op: "open", Path: "f", Err: syscall.ENOTDIR}), false},
		"unknown identifier": {&store.Exception{Code: 47}, false},
	}
	for name, test := range tests {
		if got := store.Retryable(test.err); got != test.want {
			t.Errorf("%s: retryable %t, want %t", name, got, test.want)
		}
	}
}

func TestEngineGoneIsRetryable(t *testing.T) {
	_, err := store.Open(t.Context(), store.Options{Address: "unix:///nonexistent/sock", Database: "d"})
	if err == nil || !store.Retryable(err) || !strings.Contains(err.Error(), "/nonexistent/sock") {
		t.Errorf("error %v, want a retryable one with the socket's path", err)
	}
}

func TestStreamDecodesBlocks(t *testing.T) {
	db := storetest.Open(t)
	var (
		n     proto.ColUInt64
		label = new(proto.ColStr).LowCardinality()
	)
	columns := proto.Results{{Name: "n", Data: &n}, {Name: "label", Data: label}}
	var rows, sum uint64
	labels := map[string]int{}
	count := func(blockRows int) error {
		rows += uint64(blockRows)
		for i := range blockRows {
			sum += n.Row(i)
			labels[label.Row(i)]++
		}
		return nil
	}
	const ask = "SELECT number AS n, toLowCardinality(if(number % 2 = 0, 'even', 'odd')) AS label FROM numbers({n:UInt64})"
	if err := db.Stream(t.Context(), columns, count, ask, store.Named("n", 200_000)); err != nil {
		t.Fatal(err)
	}
	if rows != 200_000 || sum != 200_000*199_999/2 {
		t.Errorf("rows %d, sum %d", rows, sum)
	}
	if diff := cmp.Diff(map[string]int{"even": 100_000, "odd": 100_000}, labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if err := db.Stream(t.Context(), columns, count, ask, store.Named("n", 0)); err != nil {
		t.Errorf("no rows: %v", err)
	}
	enough := errors.New("enough")
	if err := db.Stream(t.Context(), columns, func(int) error { return enough }, ask,
		store.Named("n", 200_000)); !errors.Is(err, enough) {
		t.Errorf("stopped by the callback: %v, want its error", err)
	}
	const boom = "SELECT toUInt64(throwIf(number = 300000)) AS n, toLowCardinality('') AS label FROM numbers(1000000)"
	if code, _ := store.Code(db.Stream(t.Context(), columns, count, boom)); code != 395 {
		t.Errorf("exception after rows: code %d, want 395", code)
	}
}

// A server's answer that breaks off between two columns must not look like its end.
func TestStreamOfABrokenAnswerIsAnError(t *testing.T) {
	var versions []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "displayName()") {
			answerHello(t, w)
			return
		}
		if strings.Contains(string(body), "SELECT 1") {
			writeBlock(t, w, proto.InputColumn{Name: "1", Data: proto.ColUInt8{1}})
			return
		}
		versions = append(versions, r.URL.Query().Get("client_protocol_version"))
		var buf proto.Buffer
		buf.PutInt(2)
		buf.PutInt(1)
		buf.PutString("n")
		buf.PutString("UInt64")
		buf.PutUInt64(7)
		_, _ = w.Write(buf.Buf)
	}))
	defer server.Close()
	db, err := store.Open(t.Context(), store.Options{Address: server.URL, Database: "d"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var n, m proto.ColUInt64
	err = db.Stream(t.Context(),
		proto.Results{{Name: "n", Data: &n}, {Name: "m", Data: &m}}, func(int) error { return nil }, "SELECT n, m FROM t")
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("broken answer: %v, want io.ErrUnexpectedEOF", err)
	}
	if diff := cmp.Diff([]string{""}, versions); diff != "" {
		t.Errorf("protocol versions asked for (-want +got):\n%s", diff)
	}
}

func TestInsertChecksItsInput(t *testing.T) {
	db := storetest.Open(t)
	one := proto.ColUInt64{1}
	tests := map[string]struct {
		table string
		in    proto.Input
		want  string
	}{
		"no columns": {"leaves", nil, "no columns"},
		"table":      {"a b", proto.Input{{Name: "id", Data: one}}, `"a b"`},
		"column":     {"leaves", proto.Input{{Name: "id) VALUES", Data: one}}, `"id) VALUES"`},
		"uneven": {
			"leaves",
			proto.Input{{Name: "id", Data: one}, {Name: "slices", Data: proto.ColUInt16{1, 2}}},
			`"slices" has 2 rows`,
		},
		"unknown column": {"leaves", proto.Input{{Name: "nope", Data: one}}, "nope"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := db.Insert(t.Context(), test.table, test.in)
			if err == nil || !strings.Contains(err.Error(), test.want) || store.Retryable(err) {
				t.Errorf("error %v, want %q in it, not retryable", err, test.want)
			}
		})
	}
	if err := db.Insert(t.Context(), "leaves", proto.Input{{Name: "id", Data: proto.ColUInt64{}}}); err != nil {
		t.Errorf("no rows: %v", err)
	}
}

func TestCancelledContextEndsAQuery(t *testing.T) {
	db := storetest.Open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := db.Exec(ctx, "INSERT INTO FUNCTION null('x UInt64') SELECT sipHash64(number) FROM numbers(1000000000000)")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the context's", err)
	}
}

// The engine's socket is named to us: another user who listens there is not asked.
func TestOpenHangsUpOnAnotherUser(t *testing.T) {
	address := "unix://" + strangertest.Listen(t)
	if _, err := store.Open(t.Context(), store.Options{Address: address, Database: "d"}); err == nil ||
		!strings.Contains(err.Error(), "belongs to user 65534") {
		t.Errorf("error %v, want one that names the listener's user", err)
	}
}
