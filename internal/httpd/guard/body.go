package guard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

var errMemory = errors.New("too many request bodies are being read; retry later")

var tooLong = fmt.Sprintf("the body is longer than %d bytes", MaxBodyBytes)

// readBody reads a request's whole body, or answers with an error. While it is being read, the request takes no place
// and only as much memory as has arrived. done frees the memory.
func (g *Guard) readBody(w http.ResponseWriter, r *http.Request) (done func(), ok bool) {
	if r.Body == nil || r.Body == http.NoBody {
		return func() {}, true
	}
	if r.ContentLength > MaxBodyBytes {
		w.Header().Set("Connection", "close") // the body isn't read
		WriteProblem(w, http.StatusRequestEntityTooLarge, tooLong)
		return nil, false
	}
	size := r.ContentLength
	if size < 0 {
		size = MaxBodyBytes
	}
	// Recorders in tests have no deadlines; then the server's own applies.
	_ = http.NewResponseController(w).SetReadDeadline(g.deps.Clock.Now().Add(allowance(int(size))))
	body, taken, err := g.collect(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
	if err == nil {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		r.Body = io.NopCloser(bytes.NewReader(body))
		return func() { g.bodies.Release(taken) }, true
	}
	g.bodies.Release(taken)
	w.Header().Set("Connection", "close")
	var long *http.MaxBytesError
	var late net.Error
	switch {
	case errors.As(err, &long):
		WriteProblem(w, http.StatusRequestEntityTooLarge, tooLong)
	case errors.Is(err, errMemory):
		g.metrics.refused.WithLabelValues(reasonMemory).Inc()
		retryAfter(w, time.Second)
		WriteProblem(w, http.StatusServiceUnavailable, err.Error())
	case errors.As(err, &late) && late.Timeout():
		WriteProblem(w, http.StatusRequestTimeout, "the request body arrived too slowly")
	default:
		WriteProblem(w, http.StatusBadRequest, "the request body is shorter than its Content-Length")
	}
	return nil, false
}

// allowance is the time allowed for receiving or sending that many bytes.
func allowance(size int) time.Duration {
	return grace + time.Duration(size)*time.Second/bytesPerSecond
}

// collect reads to the end; taken is the memory acquired from the budget for bodies, which grows as data arrives.
func (g *Guard) collect(from io.Reader) (body []byte, taken int64, err error) {
	const step = 64 << 10
	chunk := make([]byte, step)
	var all bytes.Buffer
	for {
		n, err := from.Read(chunk)
		if !g.bodies.TryAcquire(int64(n)) {
			return nil, taken, errMemory
		}
		taken += int64(n)
		all.Write(chunk[:n])
		if errors.Is(err, io.EOF) {
			return all.Bytes(), taken, nil
		}
		if err != nil {
			return nil, taken, err
		}
	}
}
