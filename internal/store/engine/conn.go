package engine

import (
	"runtime"
	"strconv"
	"strings"
	"unsafe"
)

const nativeFormat = "Native"

// param is a {name:Type} parameter with its value in ClickHouse's escaped text format.
type param struct{ name, value string }

// conn is one session of the engine, for one statement.
type conn struct {
	lib    *library
	outer  pointer // returned by connect, passed to closeConn
	handle pointer // passed to every other function
	id     string  // log_comment of its statements, by which a kill finds them
}

func newConn(lib *library, arguments []string) (*conn, error) {
	argv := make([]*byte, len(arguments))
	for i, a := range arguments {
		argv[i] = unsafe.SliceData(append([]byte(a), 0))
	}
	outer := lib.connect(int32(len(argv)), pointer(&argv[0]))
	runtime.KeepAlive(argv)
	if outer == nil {
		return nil, raise(codeCannotConnect, "the engine refused a connection; the reason is on standard error")
	}
	return &conn{lib: lib, outer: outer, handle: *(*pointer)(outer)}, nil
}

func (c *conn) close() { c.lib.closeConn(c.outer) }

// cParams has parameters in the layout of the C interface. It must stay reachable during the call.
type cParams struct {
	names, values         []*byte
	nameLens, valueLens   []uintptr
	nameBytes, valueBytes [][]byte
}

func newCParams(params []param) *cParams {
	p := &cParams{}
	for _, q := range params {
		// A spare byte keeps the pointer of an empty value valid.
		name, value := append([]byte(q.name), 0), append([]byte(q.value), 0)
		p.nameBytes, p.valueBytes = append(p.nameBytes, name), append(p.valueBytes, value)
		p.names, p.values = append(p.names, &name[0]), append(p.values, &value[0])
		p.nameLens, p.valueLens = append(p.nameLens, uintptr(len(q.name))), append(p.valueLens, uintptr(len(q.value)))
	}
	return p
}

// call calls one of the three statement functions.
func (c *conn) call(f statementFunc, sql, format string, params []param) pointer {
	p := newCParams(params)
	result := f(c.handle,
		pointer(unsafe.StringData(sql)), uintptr(len(sql)),
		pointer(unsafe.StringData(format)), uintptr(len(format)),
		pointer(unsafe.SliceData(p.names)), pointer(unsafe.SliceData(p.nameLens)),
		pointer(unsafe.SliceData(p.values)), pointer(unsafe.SliceData(p.valueLens)),
		uintptr(len(params)))
	runtime.KeepAlive(sql)
	runtime.KeepAlive(format)
	runtime.KeepAlive(p)
	return result
}

// run executes a statement and returns a copy of its whole output.
func (c *conn) run(sql, format string, params []param) ([]byte, uint64, error) {
	result := c.call(c.lib.query, sql, format, params)
	return c.take(result)
}

// take copies a result and frees it. A nil result is an error.
func (c *conn) take(result pointer) ([]byte, uint64, error) {
	if result == nil {
		return nil, 0, raise(codeCannotConnect, "the engine returned neither a result nor an error")
	}
	defer c.lib.resultDestroy(result)
	if text := c.lib.resultError(result); text != "" {
		return nil, 0, newException(text)
	}
	return append([]byte(nil), c.bytes(result)...), c.lib.resultRowsWritten(result), nil
}

// bytes is the result's buffer, valid until the result is destroyed.
func (c *conn) bytes(result pointer) []byte {
	n := c.lib.resultLength(result)
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(c.lib.resultBuffer(result)), n)
}

// stream executes a SELECT and calls emit for each chunk of output, which emit must not keep. An error of emit ends
// the query and is returned.
func (c *conn) stream(sql, format string, params []param, emit func([]byte) error) error {
	stream := c.call(c.lib.streamQuery, sql, format, params)
	if stream == nil {
		return raise(codeCannotConnect, "the engine returned neither a stream nor an error")
	}
	defer c.lib.resultDestroy(stream)
	if text := c.lib.resultError(stream); text != "" {
		return newException(text)
	}
	for {
		more, err := c.emitChunk(stream, emit)
		if err != nil {
			c.lib.cancelQuery(c.handle, stream)
			return err
		}
		if !more {
			return nil
		}
	}
}

func (c *conn) emitChunk(stream pointer, emit func([]byte) error) (more bool, err error) {
	chunk := c.lib.fetch(c.handle, stream)
	if chunk == nil {
		return false, raise(codeCannotConnect, "the engine's stream ended without result or error")
	}
	defer c.lib.resultDestroy(chunk)
	if text := c.lib.resultError(chunk); text != "" {
		return false, newException(text)
	}
	data := c.bytes(chunk)
	if len(data) == 0 {
		return false, nil
	}
	return true, emit(data)
}

// statementCount returns the number of statements according to the engine's parser; 0: a syntax error.
func (c *conn) statementCount(sql string) int {
	analysis := struct{ size, count, flags, class uint32 }{size: 16}
	state := c.lib.classify(c.handle, pointer(unsafe.StringData(sql)), uintptr(len(sql)), nil, 0, pointer(&analysis))
	runtime.KeepAlive(sql)
	if state != 0 {
		return 0
	}
	return int(analysis.count)
}

// begin sets up the session: its settings, its database, and its own log_comment on every statement.
func (c *conn) begin(id string, s session) error {
	c.id = id
	if _, _, err := c.run("USE "+quoteIdentifier(s.database), nativeFormat, nil); err != nil {
		return err
	}
	var sql strings.Builder
	sql.WriteString("SET log_comment = ")
	sql.WriteString(quoteString(id))
	for _, setting := range s.settings {
		sql.WriteString(", ")
		sql.WriteString(setting.name)
		sql.WriteString(" = ")
		sql.WriteString(quoteString(setting.value))
	}
	_, _, err := c.run(sql.String(), nativeFormat, nil)
	return err
}

func connID(n uint64) string { return "gputally-" + strconv.FormatUint(n, 10) }

var (
	stringEscaper     = strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\x00", `\0`)
	identifierEscaper = strings.NewReplacer(`\`, `\\`, "`", "\\`", "\x00", `\0`)
)

func quoteString(s string) string     { return "'" + stringEscaper.Replace(s) + "'" }
func quoteIdentifier(s string) string { return "`" + identifierEscaper.Replace(s) + "`" }
