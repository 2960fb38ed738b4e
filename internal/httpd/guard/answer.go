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

// answer buffers what a handler writes until its end, so that it can set ETag and length. If the handler flushes, the
// answer becomes a stream.
type answer struct {
	w        http.ResponseWriter
	clock    clock.Clock
	sent     int           // bytes of a stream
	waited   time.Duration // time spent waiting for the client to read
	status   int
	body     bytes.Buffer
	streamed bool
}

// Header is the answer's.
func (a *answer) Header() http.Header { return a.w.Header() }

// WriteHeader stores the first status.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write buffers the bytes, or sends them if the answer is a stream.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.streamed {
		return a.send(p)
	}
	return a.body.Write(p)
}

// FlushError turns the answer into a stream, or sends what is buffered.
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

// send writes part of a stream. The client's total reading time must stay within the allowance for its size; the time
// that the handler takes doesn't count.
func (a *answer) send(p []byte) (int, error) {
	began := a.clock.Now()
	a.sent += len(p)
	a.limit(began.Add(allowance(a.sent) - a.waited))
	n, err := a.w.Write(p)
	a.waited += a.clock.Since(began)
	return n, err
}

// limit sets the deadline of the next write. Recorders in tests have none.
func (a *answer) limit(deadline time.Time) {
	_ = http.NewResponseController(a.w).SetWriteDeadline(deadline)
}

// Unwrap gives http.ResponseController access to deadlines.
func (a *answer) Unwrap() http.ResponseWriter { return a.w }

// finish sends the buffered answer, or 304 if the client's copy is current.
func (a *answer) finish(r *http.Request) (notModified bool) {
	if a.streamed {
		return false
	}
	a.WriteHeader(http.StatusOK)
	header := a.w.Header()
	if a.status == http.StatusOK && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		tag := header.Get("ETag") // a draft invoice sets it to the hash of its future document
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
	_, _ = a.w.Write(a.body.Bytes()) // the client has disconnected
	return false
}

// matches compares If-None-Match weakly (RFC 9110, section 13.1.2).
func matches(conditions []string, tag string) bool {
	for _, condition := range strings.Split(strings.Join(conditions, ","), ",") {
		condition = strings.TrimSpace(condition)
		if condition == "*" || strings.TrimPrefix(condition, "W/") == tag {
			return true
		}
	}
	return false
}
