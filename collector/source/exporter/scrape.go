package exporter

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gpuledger/gpuledger/collector/source/field"
)

// sample is one series of an exposition with a name that is known.
type sample struct {
	field  *field.Field
	labels map[string]string
	value  float64
	at     time.Time // of the scrape; zero: the reading's
}

// fetch gets an exposition. The whole body is read before any of it counts: a
// connection that breaks, and a body over the limit, give nothing.
func fetch(ctx context.Context, client *http.Client, target string, limit int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	req.Header.Set("User-Agent", "gpuledger")
	resp, err := client.Do(req)
	if err != nil {
		return nil, unwrapURL(err)
	}
	defer resp.Body.Close() //nolint:errcheck // nothing was written
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("answered %s", resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("read body: cut off at line %d, after %d bytes: %w", 1+bytes.Count(body, []byte("\n")), len(body), err)
	case err != nil:
		return nil, fmt.Errorf("read body: after %d bytes: %w", len(body), unwrapURL(err))
	case int64(len(body)) > limit:
		return nil, fmt.Errorf("read body: more than body_limit_bytes %d", limit)
	}
	return body, nil
}

// unwrapURL takes off net/http's own mention of the URL, which may carry a
// password; the caller names the target.
func unwrapURL(err error) error {
	var withURL *url.Error
	if errors.As(err, &withURL) {
		return withURL.Err
	}
	return err
}

// parse reads an exposition in the text format. It returns the samples of known
// fields, sorted by nothing, and the number of all series. Exact duplicates are
// kept: folding takes them once. Comments are blanked out first, since a field
// that is configured under two names comes with a second # TYPE line, which the
// format forbids, and the types are wrong at times anyway.
func parse(body []byte) (samples []sample, series int, err error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(blankComments(body)))
	if err != nil {
		return nil, 0, describeParseError(err, body)
	}
	for name, family := range families {
		series += len(family.Metric)
		f := field.ByName(name)
		if f == nil {
			continue
		}
		for _, m := range family.Metric {
			samples = append(samples, sample{field: f, labels: labelMap(m), value: valueOf(m)})
		}
	}
	return samples, series, nil
}

func blankComments(body []byte) []byte {
	out := make([]byte, 0, len(body))
	for len(body) > 0 {
		line := body
		if i := bytes.IndexByte(body, '\n'); i >= 0 {
			line = body[:i+1]
		}
		body = body[len(line):]
		if !bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("#")) {
			out = append(out, line...)
		} else if line[len(line)-1] == '\n' {
			out = append(out, '\n')
		}
	}
	return out
}

var parseErrorLine = regexp.MustCompile(`in line (\d+)`)

// describeParseError adds the line's beginning, so that a cut-off body or an
// HTML page shows itself.
func describeParseError(err error, body []byte) error {
	m := parseErrorLine.FindStringSubmatch(err.Error())
	if m == nil {
		return fmt.Errorf("parse exposition: %w", err)
	}
	scanner := bufio.NewScanner(bytes.NewReader(body))
	scanner.Buffer(nil, len(body)+1)
	for n := 1; scanner.Scan(); n++ {
		if fmt.Sprint(n) == m[1] {
			return fmt.Errorf("parse exposition: %w: %.120q", err, scanner.Text())
		}
	}
	return fmt.Errorf("parse exposition: %w", err)
}

func labelMap(m *dto.Metric) map[string]string {
	labels := make(map[string]string, len(m.Label))
	for _, l := range m.Label {
		if v := l.GetValue(); v != "" { // an empty label is an absent one
			labels[l.GetName()] = v
		}
	}
	return labels
}

func valueOf(m *dto.Metric) float64 {
	switch {
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Counter != nil:
		return m.Counter.GetValue()
	default:
		return m.Untyped.GetValue()
	}
}
