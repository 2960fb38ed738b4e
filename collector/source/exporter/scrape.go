package exporter

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"time"
)

// fetch scrapes an exposition. If the connection breaks or the body exceeds a limit, it returns an error, and the
// caller must drop what was read.
func (r *reading) fetch(ctx context.Context, client *http.Client, limit int64, maxHeld int) (series int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.target.url, nil)
	if err != nil {
		return 0, errors.New("create request: invalid URL")
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	req.Header.Set("User-Agent", "gputally")
	resp, err := client.Do(req)
	if err != nil {
		return 0, Unquoted(err)
	}
	defer resp.Body.Close() //nolint:errcheck // nothing was written
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("answered %s", Described(resp))
	}
	body := &limited{from: resp.Body, left: limit}
	series, err = r.parse(body, maxHeld)
	if body.left < 0 {
		return series, fmt.Errorf("read body: more than body_limit_bytes %d", limit)
	}
	if err != nil {
		return series, fmt.Errorf("parse exposition, %s: %w", Described(resp), err)
	}
	return series, nil
}

// limited is a reader of at most so many bytes; after one more, left is negative.
type limited struct {
	from io.Reader
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left < 0 {
		return 0, io.ErrUnexpectedEOF
	}
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.from.Read(p)
	l.left -= int64(n)
	return n, err
}

// NoRedirects returns a client that returns a redirect as the answer: the configuration determines which servers are
// queried. nil: a new client.
func NoRedirects(client *http.Client) *http.Client {
	if client == nil {
		client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: 2 * time.Minute}}
	}
	out := *client
	out.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &out
}

// Described is what errors may contain of an answer: nothing of its body.
func Described(resp *http.Response) string {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		kind = "unknown"
	}
	length := "of unknown length"
	if resp.ContentLength >= 0 {
		length = fmt.Sprintf("%d bytes long", resp.ContentLength)
	}
	return fmt.Sprintf("%d %s (content type %.40q, %s)", resp.StatusCode, http.StatusText(resp.StatusCode), kind, length)
}

// Unquoted returns an error of net/http without the server's text, which some of them quote, and without the URL,
// which may contain a password; the caller adds which server was queried.
func Unquoted(err error) error {
	var op *net.OpError
	var verify *tls.CertificateVerificationError
	var timeout net.Error
	for _, known := range []error{
		context.DeadlineExceeded, context.Canceled, io.ErrUnexpectedEOF, io.EOF, http.ErrSchemeMismatch,
	} {
		if errors.Is(err, known) {
			return known
		}
	}
	switch {
	case errors.As(err, &op):
		return op
	case errors.As(err, &verify):
		return verify
	case errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("no answer in time")
	}
	return errors.New("the answer is not HTTP, or is truncated")
}
