package guard

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/gputally/gputally/internal/clock"
)

// answer keeps what a handler writes until its end, so that it can have an
// ETag and its length. A handler that flushes makes a stream of it.
type answer struct {
	w        http.ResponseWriter
	clock    clock.Clock
	sent     int           // bytes of a stream
	waited   time.Duration // for its reader
	status   int
	body     bytes.Buffer
	streamed bool
}

// Header is the answer's.
func (a *answer) Header() http.Header { return a.w.Header() }

// WriteHeader keeps the first status.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write keeps the bytes, or passes them on when the answer is a stream.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.streamed {
		return a.send(p)
	}
	return a.body.Write(p)
}

// FlushError begins a stream, or sends on what there is of it.
func (a *answer) FlushError() error {
	if !a.streamed {
		a.WriteHeader(http.StatusOK)
		a.streamed = true
		a.w.WriteHeader(a.status)
		if _, err := a.send(a.body.Bytes()); err != nil {
			return err
		}
	}
	return http.NewResponseController(a.w).Flush()
}

// send writes part of a stream. All the time that its reader has taken so far
// must stay within what its size allows; the time it takes to make the stream
// is not the reader's.
func (a *answer) send(p []byte) (int, error) {
	began := a.clock.Now()
	a.sent += len(p)
	a.limit(began.Add(allowance(a.sent) - a.waited))
	n, err := a.w.Write(p)
	a.waited += a.clock.Since(began)
	return n, err
}

// limit sets the deadline of what is written next. Recorders of tests have none.
func (a *answer) limit(deadline time.Time) {
	_ = http.NewResponseController(a.w).SetWriteDeadline(deadline)
}

// Unwrap lets http.ResponseController reach deadlines.
func (a *answer) Unwrap() http.ResponseWriter { return a.w }

// finish sends what was kept, or 304 where the client has it already.
func (a *answer) finish(r *http.Request) (notModified bool) {
	if a.streamed {
		return false
	}
	a.WriteHeader(http.StatusOK)
	header := a.w.Header()
	if a.status == http.StatusOK && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		tag := header.Get("ETag") // a draft's is the content that its document will have
		if tag == "" {
			sum := sha256.Sum256(a.body.Bytes())
			tag = `"` + hex.EncodeToString(sum[:]) + `"`
			header.Set("ETag", tag)
		}
		if matches(r.Header.Values("If-None-Match"), tag) {
			header.Del("Content-Type")
			a.w.WriteHeader(http.StatusNotModified)
			return true
		}
	}
	a.limit(a.clock.Now().Add(allowance(a.body.Len())))
	a.w.WriteHeader(a.status)
	_, _ = a.w.Write(a.body.Bytes()) // the client has gone
	return false
}

// matches compares weakly, as RFC 9110, section 13.1.2, wants of If-None-Match.
func matches(conditions []string, tag string) bool {
	for _, condition := range strings.Split(strings.Join(conditions, ","), ",") {
		condition = strings.TrimSpace(condition)
		if condition == "*" || strings.TrimPrefix(condition, "W/") == tag {
			return true
		}
	}
	return false
}
