package prometheus

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/gputally/gputally/internal/costtest"
	"github.com/gputally/gputally/internal/jsonstream"
)

// matrixOf reads the answer to a range selector.
func matrixOf(text io.Reader) (got matrix, err error) {
	d := jsonstream.New(text, jsonstream.Limits{Text: DefaultConfig().BodyLimitBytes, Value: maxValueBytes})
	_, err = readAnswer(d, func() error { return got.read(d) })
	return got, errors.Join(err, d.ReadErr())
}

// again is a text that comes again until there are so many bytes.
type again struct {
	text string
	left int
}

func (a *again) Read(p []byte) (n int, err error) {
	for n < len(p) && a.left > 0 {
		more := copy(p[n:], a.text)
		n, a.left, a.text = n+more, a.left-more, a.text[more:]+a.text[:more]
	}
	if a.left <= 0 {
		return n, io.EOF
	}
	return n, nil
}

// TestM10PrometheusAnswersAreBounded: what a few bytes of an answer become is held
// to a bound, and the rest of the answer is not read.
func TestM10PrometheusAnswersAreBounded(t *testing.T) {
	const result = `{"status":"success","data":{"resultType":"matrix","result":[`
	for name, c := range map[string]struct {
		head, text string
		mb         uint64
	}{
		"empty series":       {result, `{},`, 420},
		"series of a label":  {result, `{"metric":{"a":""}},`, 420},
		"samples":            {result + `{"values":[`, `[1,1],`, 32},
		"samples of series":  {result, `{"values":[` + strings.Repeat(`[1,1],`, 9999) + `[1,1]]},`, 420},
		"samples again":      {result + `{`, `"values":[[1,"1"]],`, 32},
		"brackets":           {result + `{"values":[`, strings.Repeat(`[`, 1<<10), 32},
		"brackets in a text": {result + `{"values":"`, strings.Repeat(`[`, 1<<10), 32},
		"labels":             {result + `{"metric":{`, `"a":"",`, 32},
		"a label":            {result + `{"metric":{"a":"`, `aaaa`, 32},
		"warnings":           {`{"warnings":[`, `"",`, 32},
		"members":            {`{`, `"":1,`, 32},
		"a message":          {`{"error":"`, `aaaa`, 32},
		"what nobody reads":  {`{"stats":[`, `{"a":[]},`, 32},
		"spaces":             {result, strings.Repeat(` `, 1<<10), 32},
	} {
		t.Run(name, func(t *testing.T) {
			peak := costtest.Peak(func() {
				got, err := matrixOf(io.MultiReader(strings.NewReader(c.head), &again{c.text, 24 << 20}))
				if err == nil {
					t.Errorf("%d series were taken", len(got.series))
				}
			})
			if peak > c.mb<<20 {
				t.Errorf("held %d MiB, want at most %d", peak>>20, c.mb)
			}
			t.Logf("held %d MiB", peak>>20)
		})
	}
}
