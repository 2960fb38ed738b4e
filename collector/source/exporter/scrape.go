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

// fetch gets an exposition. A connection that breaks, and a body over a limit,
// give nothing of it: what was read until then is the caller's to drop.
func (r *reading) fetch(ctx context.Context, client *http.Client, limit int64, maxHeld int) (series int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.target.url, nil)
	if err != nil {
		return 0, errors.New("make request: its URL is none")
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

// limited is a reader of at most so many bytes: one more, and left is negative.
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

// NoRedirects is a client that takes a redirect for the answer: who is asked is
// the configuration's to say. nil: a client of its own.
func NoRedirects(client *http.Client) *http.Client {
	if client == nil {
		client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: 2 * time.Minute}}
	}
	out := *client
	out.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &out
}

// Described is what may be said of an answer: nothing that its body says.
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

// Unquoted is an error of net/http without what the other side said, which some of
// them quote, and without the URL, which may carry a password; the caller names
// who was asked.
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
	return errors.New("the answer is not HTTP, or was broken off")
}
