package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode"

	"github.com/ClickHouse/ch-go/compress"
)

// drainBytes bounds how much of a body is read after its insert has failed, so that a client that is still sending
// can read the error.
const drainBytes = 64 << 20

// ServeHTTP answers GET and POST / (a statement) and GET /ping.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/ping":
		_, _ = io.WriteString(w, "Ok.\n")
	case r.URL.Path != "/":
		http.Error(w, "not found: the paths are / and /ping", http.StatusNotFound)
	case r.Method != http.MethodGet && r.Method != http.MethodPost:
		http.Error(w, "method "+r.Method+" is not one of GET, POST", http.StatusMethodNotAllowed)
	default:
		out := &output{w: w}
		if err := e.serve(r, out); err != nil {
			_, _ = io.CopyN(io.Discard, r.Body, drainBytes)
			e.log.Debug("statement failed", "err", err)
			out.fail(asException(err))
		}
	}
}

func (e *Engine) serve(r *http.Request, out *output) error {
	req, err := parseRequest(r)
	if err != nil {
		return err
	}
	out.compress(req.compress)
	if isPreflight(req.sql) {
		return e.answerPreflight(req, out)
	}
	st := parseStatement(req.sql)
	if strings.TrimFunc(req.sql, blank) == "" {
		return raise(codeSyntaxError, "Syntax error: the statement is empty (SYNTAX_ERROR)")
	}
	c, err := e.pool.get(r.Context(), req.session)
	if err != nil {
		return err
	}
	defer e.pool.put(c)
	return e.runStatement(r.Context(), c, req, st, out)
}

func blank(r rune) bool { return unicode.IsSpace(r) || r == ';' }

func (e *Engine) runStatement(ctx context.Context, c *conn, req *request, st statement, out *output) error {
	if st.kind != kindInsert && strings.Contains(strings.TrimRightFunc(st.sql, blank), ";") &&
		c.statementCount(st.sql) > 1 {
		return raise(codeSyntaxError, "Syntax error (Multi-statements are not allowed) (SYNTAX_ERROR)")
	}
	stop := e.watch(ctx, c)
	defer stop()
	switch st.kind {
	case kindSelect:
		return c.stream(st.sql, req.format, req.params, out.write)
	case kindInsert:
		return e.runInsert(c, req, st, out)
	default:
		data, rows, err := c.run(st.sql, req.format, req.params)
		if err != nil {
			return err
		}
		out.written(rows)
		return out.write(data)
	}
}

func (e *Engine) runInsert(c *conn, req *request, st statement, out *output) error {
	format := firstOf(st.format, "Values")
	rows, err := c.insert(st.sql, format, req.params, io.MultiReader(strings.NewReader(st.data), req.body))
	if err != nil {
		return err
	}
	out.written(rows)
	return nil
}

func asException(err error) *exception {
	var ex *exception
	switch {
	case errors.As(err, &ex):
		return ex
	case errors.Is(err, errClosed):
		const aborted = 236
		return raise(aborted, err.Error())
	case errors.Is(err, context.Canceled):
		return raise(codeQueryWasCancelled, err.Error())
	}
	const cannotReadAllData = 33
	return raise(cannotReadAllData, err.Error())
}

// output is an answer whose headers are sent with its first byte, so that earlier errors get their own status.
type output struct {
	w          http.ResponseWriter
	compressor *compress.Writer
	started    bool
}

const (
	codeHeader    = "X-ClickHouse-Exception-Code"
	tagHeader     = "X-ClickHouse-Exception-Tag"
	summaryHeader = "X-ClickHouse-Summary"

	// exceptionTag frames an exception within a body. A server chooses a random one per answer; only its length
	// matters.
	exceptionTag = "gputallyengine0"
)

func (o *output) compress(method compress.Method) {
	if method != compress.None {
		o.compressor = compress.NewWriter(compress.LevelZero, method)
	}
}

// written sets the header with the number of inserted rows, like the server.
func (o *output) written(rows uint64) {
	o.w.Header().Set(summaryHeader, `{"written_rows":"`+strconv.FormatUint(rows, 10)+`"}`)
}

// write sends one chunk of output.
func (o *output) write(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if !o.started {
		o.started = true
		o.w.Header().Set("Content-Type", "application/octet-stream")
		o.w.Header().Set(tagHeader, exceptionTag)
	}
	if o.compressor != nil {
		if err := o.compressor.Compress(data); err != nil {
			return fmt.Errorf("compress output: %w", err)
		}
		data = o.compressor.Data
	}
	if _, err := o.w.Write(data); err != nil {
		return raise(codeQueryWasCancelled, "the client disconnected: "+err.Error())
	}
	return nil
}

// fail ends the answer with an exception: as status and text if nothing was sent yet, else as a frame after the data,
// never compressed.
func (o *output) fail(ex *exception) {
	if !o.started {
		o.w.Header().Set(codeHeader, strconv.Itoa(ex.code))
		o.w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
		o.w.WriteHeader(ex.status())
		_, _ = io.WriteString(o.w, ex.text+"\n")
		return
	}
	const frame = "\r\n__exception__\r\n%s\r\n%s\n%d %s\r\n__exception__\r\n"
	_, _ = fmt.Fprintf(o.w, frame, exceptionTag, ex.text, len(ex.text)+1, exceptionTag)
}
