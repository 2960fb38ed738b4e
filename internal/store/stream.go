package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/ClickHouse/ch-go/proto"
)

// streamBufferBytes is larger than the buffer that ch-go's reader would allocate, so that ch-go uses this one and
// Peek sees its unread data.
const streamBufferBytes = 1 << 20

// Stream runs a SELECT and decodes it block by block into columns with the names and types of the result: millions of
// rows a second. onBlock is called once per block; the columns are reused for the next. An error of onBlock ends the
// query and is returned unchanged. A truncated answer is an error, never a short result.
func (db *DB) Stream(ctx context.Context, columns proto.Results, onBlock func(rows int) error, sql string,
	args ...any,
) error {
	body, err := db.conn.QueryFormat(context.WithValue(ctx, plainNative{}, true), nativeFormat, sql, args...)
	if err != nil {
		return wrap("stream", err)
	}
	defer func() { _ = body.Close() }()
	buffered := bufio.NewReaderSize(body, streamBufferBytes)
	reader := proto.NewReader(buffered)
	for {
		// The result is complete only if the data ends between two blocks.
		if _, err := buffered.Peek(1); errors.Is(err, io.EOF) {
			return nil
		}
		var block proto.Block
		if err := block.DecodeRawBlock(reader, 0, columns); err != nil {
			return wrap("stream", decodeError(err, buffered))
		}
		if block.Rows == 0 {
			continue
		}
		if err := onBlock(block.Rows); err != nil {
			return err
		}
	}
}

// decodeError prefers an exception that follows in the data: the line break before it looks like an invalid block.
func decodeError(err error, rest io.Reader) error {
	if _, later := io.CopyN(io.Discard, rest, streamBufferBytes); later != nil && !errors.Is(later, io.EOF) {
		return later
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("decode block: %w", err)
}

// plainNative marks a request whose answer is to be Native at revision 0: ch-go can't decode the sparse columns that
// a server sends at later revisions.
type plainNative struct{}

// preflight is clickhouse-go's query on a new connection. It may run with the context of a marked request, but needs
// the revision that it requests.
const preflight = "SELECT displayName(), version(), revision(), timezone()"

const revisionParameter = "client_protocol_version"

// revisionTransport removes the protocol version from marked requests.
type revisionTransport struct{ next http.RoundTripper }

func (t revisionTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Context().Value(plainNative{}) == nil || hasBody(r, preflight) {
		return t.next.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	query := r.URL.Query()
	query.Del(revisionParameter)
	r.URL.RawQuery = query.Encode()
	return t.next.RoundTrip(r)
}

func hasBody(r *http.Request, text string) bool {
	if r.GetBody == nil || r.ContentLength != int64(len(text)) {
		return false
	}
	body, err := r.GetBody()
	if err != nil {
		return false
	}
	defer func() { _ = body.Close() }()
	got, err := io.ReadAll(body)
	return err == nil && string(got) == text
}
