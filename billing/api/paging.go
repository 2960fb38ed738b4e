package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/url"
	"slices"

	"github.com/danielgtaylor/huma/v2"
)

// Paged is the part of a request that determines where its page begins. A cursor contains a hash of its query and the
// key of the last item of the page before (key-set paging): items added or removed between two pages don't shift
// others.
type Paged struct {
	Cursor string `query:"cursor" maxLength:"2000" doc:"Field next of the previous page of the same query. It contains no secret and may be stored"`

	query [cursorQueryBytes]byte
	url   url.URL
	after []string // nil: the first page
}

// cursorQueryBytes is how much of the hash of the query a cursor contains.
const cursorQueryBytes = 8

// Resolve parses the cursor; huma calls it before the handler.
func (p *Paged) Resolve(ctx huma.Context) []error {
	p.url = ctx.URL()
	p.query = queryHash(p.url)
	if p.Cursor == "" {
		return nil
	}
	query, after, err := parseCursor(p.Cursor)
	switch {
	case err != nil:
		return []error{&huma.ErrorDetail{
			Location: "query.cursor", Message: "is not a cursor: " + err.Error(),
			Value: p.Cursor,
		}}
	case query != p.query:
		return []error{&huma.ErrorDetail{Location: "query.cursor", Message: "is a cursor of another query", Value: p.Cursor}}
	}
	p.after = after
	return nil
}

// queryHash distinguishes queries by path and parameters; a page's size may change.
func queryHash(of url.URL) (hash [cursorQueryBytes]byte) {
	values := of.Query()
	values.Del("cursor")
	values.Del("limit")
	sum := sha256.Sum256([]byte(of.EscapedPath() + "?" + values.Encode()))
	copy(hash[:], sum[:])
	return hash
}

// parseCursor parses a cursor made by next.
func parseCursor(text string) (query [cursorQueryBytes]byte, key []string, err error) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(data) < cursorQueryBytes {
		return query, nil, errors.New("truncated or altered")
	}
	copy(query[:], data)
	key = []string{}
	for data = data[cursorQueryBytes:]; len(data) > 0; {
		length, n := binary.Uvarint(data)
		if n <= 0 || length > uint64(len(data)-n) {
			return query, nil, errors.New("truncated or altered")
		}
		key = append(key, string(data[n:n+int(length)]))
		data = data[n+int(length):]
	}
	return query, key, nil
}

// foreign is the answer to a cursor whose key can't be of this query.
func (p *Paged) foreign() error {
	return invalid("query.cursor", p.Cursor, "is not a cursor of this query")
}

// list is the answer with one page.
type list[B any] struct {
	Link string `header:"Link"`
	Body B
}

// answer is the answer with a single object.
type answer[B any] struct{ Body B }

// page is one page of items with the reference to the next.
type page[T any] struct {
	items []T
	// next is the cursor of the next page, link the Link header with it; both are empty on the last page.
	next, link string
}

// cut returns the first limit items; key orders them. If there are more items than limit there is a next page.
func cut[T any](p *Paged, limit int, items []T, key func(*T) []string) page[T] {
	if len(items) <= limit {
		return page[T]{items: items}
	}
	items = items[:limit]
	next := p.cursor(key(&items[limit-1]))
	return page[T]{items: items, next: next, link: p.link(next)}
}

// pick returns a page of a whole list, which is sorted by key.
func pick[T any](p *Paged, limit int, all []T, key func(*T) []string) page[T] {
	if p.after != nil {
		first, found := slices.BinarySearchFunc(all, p.after,
			func(item T, after []string) int { return slices.Compare(key(&item), after) })
		if found {
			first++
		}
		all = all[first:]
	}
	return cut(p, limit, all, key)
}

func (p *Paged) cursor(key []string) string {
	data := slices.Clone(p.query[:])
	for _, part := range key {
		data = binary.AppendUvarint(data, uint64(len(part)))
		data = append(data, part...)
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// link is a Link header (RFC 8288) with a relative reference.
func (p *Paged) link(next string) string {
	values := p.url.Query()
	values.Set("cursor", next)
	return "<" + p.url.EscapedPath() + "?" + values.Encode() + `>; rel="next"`
}
