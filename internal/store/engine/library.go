package engine

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// The oldest version that has the functions this package uses: streamed inserts, parameters and statement counting.
const (
	minMajor = 26
	minMinor = 7
)

// pointer is a handle of the library, never Go memory.
type pointer = unsafe.Pointer

// statementFunc is the signature shared by query, stream query and stream insert: statement and format as (data,
// length), then param_count names and values.
type statementFunc func(conn, sql pointer, sqlLen uintptr, format pointer, formatLen uintptr,
	names, nameLens, values, valueLens pointer, paramCount uintptr) pointer

// library is libchdb's C interface (chdb.h of 26.7), binary-safe forms only.
type library struct {
	path    string
	version func() string

	setSignalHandlers func(enabled int32)
	connect           func(argc int32, argv pointer) pointer
	closeConn         func(conn pointer)
	classify          func(conn, sql pointer, sqlLen uintptr, database pointer, databaseLen uintptr,
		analysis pointer) int32

	query       statementFunc
	streamQuery statementFunc
	fetch       func(conn, stream pointer) pointer
	cancelQuery func(conn, stream pointer)

	insert        statementFunc
	insertAppend  func(stream, data pointer, length uintptr) int32
	insertDone    func(stream pointer) pointer
	insertCancel  func(stream pointer)
	insertError   func(stream pointer) string
	insertDestroy func(stream pointer)

	resultBuffer      func(result pointer) pointer
	resultLength      func(result pointer) uintptr
	resultError       func(result pointer) string
	resultRowsWritten func(result pointer) uint64
	resultDestroy     func(result pointer)
}

func (l *library) symbols() map[string]any {
	return map[string]any{
		"chdb_version":                     &l.version,
		"chdb_set_signal_handlers_enabled": &l.setSignalHandlers,
		"chdb_connect":                     &l.connect,
		"chdb_close_conn":                  &l.closeConn,
		"chdb_classify_query_n":            &l.classify,
		"chdb_query_with_params_n":         &l.query,
		"chdb_stream_query_with_params_n":  &l.streamQuery,
		"chdb_stream_fetch_result":         &l.fetch,
		"chdb_stream_cancel_query":         &l.cancelQuery,
		"chdb_stream_insert_with_params_n": &l.insert,
		"chdb_stream_append":               &l.insertAppend,
		"chdb_stream_done":                 &l.insertDone,
		"chdb_stream_cancel_insert":        &l.insertCancel,
		"chdb_stream_insert_error":         &l.insertError,
		"chdb_destroy_insert_stream":       &l.insertDestroy,
		"chdb_result_buffer":               &l.resultBuffer,
		"chdb_result_length":               &l.resultLength,
		"chdb_result_error":                &l.resultError,
		"chdb_result_rows_written":         &l.resultRowsWritten,
		"chdb_destroy_query_result":        &l.resultDestroy,
	}
}

// libraries are the loaded libraries, by path: a C++ library of this size can't be unloaded.
var libraries struct {
	sync.Mutex
	byPath map[string]*library
}

// load opens the library at path once per process and checks its version.
func load(path string) (*library, error) {
	libraries.Lock()
	defer libraries.Unlock()
	if l := libraries.byPath[path]; l != nil {
		return l, nil
	}
	l, err := bind(path)
	if err != nil {
		return nil, err
	}
	if libraries.byPath == nil {
		libraries.byPath = map[string]*library{}
	}
	libraries.byPath[path] = l
	return l, nil
}

func bind(path string) (*library, error) {
	if err := verify(path); err != nil {
		return nil, err
	}
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("load library %s: %w: `make build` fetches the right one", path, err)
	}
	l := &library{path: path}
	for name, target := range l.symbols() {
		symbol, err := purego.Dlsym(handle, name)
		if err != nil {
			return nil, fmt.Errorf(
				"load library %s: no function %s, so it isn't libchdb %d.%d or newer: `make build` fetches the right one",
				path, name, minMajor, minMinor)
		}
		purego.RegisterFunc(target, symbol)
	}
	if err := checkVersion(l.version()); err != nil {
		return nil, fmt.Errorf("load library %s: %w: `make build` fetches the right one", path, err)
	}
	// Before the first connect: with the library's own signal handlers a nil dereference in Go hangs the process.
	l.setSignalHandlers(0)
	return l, nil
}

func checkVersion(version string) error {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) >= 2 {
		major, errMajor := strconv.Atoi(parts[0])
		minor, errMinor := strconv.Atoi(parts[1])
		if errMajor == nil && errMinor == nil && (major > minMajor || major == minMajor && minor >= minMinor) {
			return nil
		}
	}
	return fmt.Errorf("version is %q, want %d.%d or newer", version, minMajor, minMinor)
}
