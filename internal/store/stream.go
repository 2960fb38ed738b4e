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

// streamBufferBytes is more than ch-go's reader would make for itself, so that
// it takes this one and Peek sees what it sees.
const streamBufferBytes = 1 << 20

// Stream runs a SELECT and decodes it block by block into columns named and
// typed as in the result, at the engine's own speed: millions of rows a
// second. onBlock sees each block once; the columns are reused for the next.
// An error of onBlock ends the query and is returned as it is. An answer that
// breaks off is an error, never a short result.
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
		// Only between two blocks is the end of the data the end of the result.
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

// decodeError prefers an exception that follows in the data: the line break
// before it is what looked like a bad block.
func decodeError(err error, rest io.Reader) error {
	if _, later := io.CopyN(io.Discard, rest, streamBufferBytes); later != nil && !errors.Is(later, io.EOF) {
		return later
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("decode block: %w", err)
}

// plainNative marks a request whose answer is to be Native at revision 0:
// ch-go can't read the sparse columns a server sends at later ones.
type plainNative struct{}

// preflight is clickhouse-go's question on a new connection. It may be asked
// in the name of a marked request, and needs the revision it asks for.
const preflight = "SELECT displayName(), version(), revision(), timezone()"

const revisionParameter = "client_protocol_version"

// revisionTransport takes the protocol version out of marked requests.
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
