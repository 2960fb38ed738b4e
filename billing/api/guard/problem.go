package guard

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// ProblemType is the media type of every error (RFC 9457).
const ProblemType = "application/problem+json"

// WriteProblem answers with a problem of the kind that huma's handlers answer with.
func WriteProblem(w http.ResponseWriter, status int, detail string) {
	body, err := json.Marshal(huma.NewError(status, detail))
	if err != nil {
		// An error model of a number and two texts always encodes.
		body = []byte(`{"status":` + strconv.Itoa(status) + `}`)
	}
	header := w.Header()
	header.Set("Content-Type", ProblemType)
	header.Del("ETag")
	header.Del("Content-Disposition")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client has gone
}
