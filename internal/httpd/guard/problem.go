package guard

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// ProblemType is the media type of every error (RFC 9457).
const ProblemType = "application/problem+json"

// problem has the fields of every problem document.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// WriteProblem answers with a problem document.
func WriteProblem(w http.ResponseWriter, status int, detail string) {
	body, err := json.Marshal(problem{http.StatusText(status), status, detail})
	if err != nil {
		// Marshalling a number and two strings can't fail.
		body = []byte(`{"status":` + strconv.Itoa(status) + `}`)
	}
	header := w.Header()
	header.Set("Content-Type", ProblemType)
	header.Del("ETag")
	header.Del("Content-Disposition")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client has disconnected
}
