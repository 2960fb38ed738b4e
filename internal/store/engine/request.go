package engine

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/ch-go/compress"
)

// maxStatementBytes bounds a statement without its data.
const maxStatementBytes = 16 << 20

// request is a parsed HTTP request of ClickHouse's interface.
type request struct {
	session  session
	sql      string
	body     io.Reader // the data after the statement
	format   string    // of the output, unless the statement names one
	params   []param
	compress compress.Method // of the output; compress.None: plain
	revision int             // client_protocol_version
}

// ownNames are the interface's query parameters that aren't settings. log_comment is reserved by the engine, and
// parameters about a server's buffering or compression level have no effect here.
var ownNames = []string{
	"query", "database", "default_format", "query_id", "user", "password", "quota_key", "role",
	"compress", "decompress", "client_protocol_version", "buffer_size", "wait_end_of_query",
	"network_compression_method", "network_zstd_compression_level", "enable_http_compression",
	"send_progress_in_http_headers", "session_timeout", "session_check", "stacktrace", "log_comment",
	"async_insert", "wait_for_async_insert", "http_write_exception_in_output_format",
}

var settingName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

func parseRequest(r *http.Request) (*request, error) {
	q := r.URL.Query()
	if q.Get("session_id") != "" {
		return nil, raise(codeNotImplemented, "session_id is not supported: each request has its own session")
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
		return nil, raise(codeNotImplemented, "external tables are not supported")
	}
	body, err := decodedBody(r, q)
	if err != nil {
		return nil, err
	}
	req := &request{
		body:   body,
		format: firstOf(q.Get("default_format"), r.Header.Get("X-ClickHouse-Format"), "TabSeparated"),
	}
	req.session.database = firstOf(q.Get("database"), r.Header.Get("X-ClickHouse-Database"), defaultDatabase)
	if err := req.readSettings(q, r.Method); err != nil {
		return nil, err
	}
	if err := req.readStatement(q); err != nil {
		return nil, err
	}
	req.compress, err = outputCompression(q)
	if err != nil {
		return nil, err
	}
	req.revision, _ = strconv.Atoi(q.Get("client_protocol_version"))
	return req, nil
}

func (req *request) readSettings(q url.Values, method string) error {
	for name, values := range q {
		value := values[len(values)-1]
		if parameter, ok := strings.CutPrefix(name, "param_"); ok {
			req.params = append(req.params, param{parameter, value})
			continue
		}
		if slices.Contains(ownNames, name) {
			continue
		}
		if !settingName.MatchString(name) {
			return raise(codeBadArguments, fmt.Sprintf("setting name %q is not an identifier", name))
		}
		req.session.settings = append(req.session.settings, setting{name, value})
	}
	if method == http.MethodGet {
		req.session.settings = append(req.session.settings, setting{"readonly", "1"})
	}
	sortSettings(req.session.settings)
	return nil
}

// readStatement reads the statement from the URL, or else from the body up to the data of an INSERT, which stays in
// req.body.
func (req *request) readStatement(q url.Values) error {
	if q.Has("query") {
		req.sql = q.Get("query")
		if len(req.sql) > 0 {
			return nil
		}
	}
	head, err := io.ReadAll(io.LimitReader(req.body, maxStatementBytes+1))
	if err != nil {
		return fmt.Errorf("read statement: %w", err)
	}
	if len(head) > maxStatementBytes {
		return raise(codeTooLarge,
			fmt.Sprintf("the statement is longer than %d bytes; send an insert's data in the body, with the statement in "+
				"the URL", maxStatementBytes))
	}
	req.sql, req.body = string(head), bytes.NewReader(nil)
	return nil
}

func decodedBody(r *http.Request, q url.Values) (io.Reader, error) {
	var body io.Reader = r.Body
	switch encoding := r.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "gzip":
		zr, err := gzip.NewReader(body)
		if err != nil {
			return nil, raise(codeUnknownCompression, "the body is not gzip: "+err.Error())
		}
		body = zr
	default:
		return nil, raise(codeUnknownCompression, fmt.Sprintf("Content-Encoding %q is not supported, want gzip", encoding))
	}
	if q.Get("decompress") == "1" {
		body = blockReader{compress.NewReader(body)}
	}
	return body, nil
}

// blockReader returns the end of compressed blocks as a plain io.EOF, which compress.Reader wraps.
type blockReader struct{ r io.Reader }

func (b blockReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

func outputCompression(q url.Values) (compress.Method, error) {
	if q.Get("compress") != "1" {
		return compress.None, nil
	}
	switch method := strings.ToUpper(q.Get("network_compression_method")); method {
	case "", "LZ4":
		return compress.LZ4, nil
	case "ZSTD":
		return compress.ZSTD, nil
	default:
		return compress.None, raise(codeUnknownCompression,
			fmt.Sprintf("network_compression_method %q is not supported, want LZ4 or ZSTD", method))
	}
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
