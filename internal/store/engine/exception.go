package engine

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
)

// Codes of ClickHouse's ErrorCodes.cpp that this package itself returns.
const (
	codeNotImplemented     = 48
	codeSyntaxError        = 62
	codeUnknownFormat      = 73
	codeBadArguments       = 36
	codeQueryWasCancelled  = 394
	codeCannotConnect      = 279
	codeUnknownCompression = 89
	codeTooLarge           = 307
)

// exception is an error of the engine with ClickHouse's code, and its text as a server would send it: "Code: 60.
// DB::Exception: …".
type exception struct {
	code int
	text string
}

func (e *exception) Error() string { return e.text }

var exceptionCode = regexp.MustCompile(`Code: (\d+)\.`)

// newException parses the code of a library's error text.
func newException(text string) *exception {
	code := 0
	if m := exceptionCode.FindStringSubmatch(text); m != nil {
		code, _ = strconv.Atoi(m[1])
	}
	if code == 0 {
		const unknownException = 1002
		return raise(unknownException, text)
	}
	return &exception{code: code, text: text}
}

// raise returns an exception of this package.
func raise(code int, message string) *exception {
	return &exception{code: code, text: fmt.Sprintf("Code: %d. DB::Exception: %s", code, message)}
}

// statusByCode follows ClickHouse's src/Server/HTTP/exceptionCodeToHTTPStatus.cpp; other codes are status 500.
var statusByCode = map[int]int{
	6: 400, 26: 400, 27: 400, 32: 400, 33: 400, 35: 400, 38: 400, 41: 400, 42: 400, 43: 400,
	53: 400, 62: 400, 69: 400, 70: 400, 72: 400, 117: 400, 158: 400, 386: 400, 456: 400, 469: 400,
	16: 404, 46: 404, 47: 404, 50: 404, 56: 404, 60: 404, 73: 404, 81: 404, 115: 404,
	48: 501, 75: 503, 76: 503, 209: 503, 159: 408, 202: 503, 307: 413, 394: 499,
	192: 403, 497: 403, 516: 401,
}

func (e *exception) status() int {
	if status, ok := statusByCode[e.code]; ok {
		return status
	}
	return http.StatusInternalServerError
}
