package prometheus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/collector/source/exporter"
	"github.com/gpuledger/gpuledger/internal/clock"
)

// QueryError is a query that has no whole answer.
type QueryError struct {
	URL      string // without a password
	Query    string // shortened
	From, To time.Time
	Err      error
}

func (e *QueryError) Error() string {
	return fmt.Sprintf("ask %s for %s, window %s to %s: %v", e.URL, e.Query, e.From.UTC().Format(time.RFC3339), e.To.UTC().Format(time.RFC3339), e.Err)
}

// Unwrap gives the cause.
func (e *QueryError) Unwrap() error { return e.Err }

// answer is the envelope of the HTTP API (Prometheus, "HTTP API", format
// overview); isPartial is VictoriaMetrics'.
type answer[T any] struct {
	Status    string   `json:"status"`
	Data      T        `json:"data"`
	ErrorType string   `json:"errorType"`
	Error     string   `json:"error"`
	Warnings  []string `json:"warnings"`
	Partial   bool     `json:"isPartial"`
}

// matrix is the answer to a range selector.
type matrix struct {
	ResultType string         `json:"resultType"`
	Result     []matrixSeries `json:"result"`
}

type matrixSeries struct {
	Metric map[string]string `json:"metric"`
	Values points            `json:"values"`
}

// point is a stored sample: [1700000000.123, "42.5"] in JSON.
type point struct {
	ms    int64
	value float64
}

// points are a series' samples.
type points []point

// UnmarshalJSON reads pairs of a time in seconds and a value in quotes. An
// answer holds some 100,000 of them, so that they are not taken apart by
// reflection; that it is JSON the decoder has seen to.
func (p *points) UnmarshalJSON(text []byte) error {
	rest := bytes.TrimPrefix(bytes.TrimSpace(text), []byte("["))
	*p = make(points, 0, bytes.Count(rest, []byte("[")))
	for {
		open := bytes.IndexByte(rest, '[')
		if open < 0 {
			return nil
		}
		end := bytes.IndexByte(rest[open:], ']')
		if end < 0 {
			return errors.New("a sample is not closed")
		}
		one, err := parsePoint(rest[open+1 : open+end])
		if err != nil {
			return err
		}
		*p, rest = append(*p, one), rest[open+end+1:]
	}
}

func parsePoint(text []byte) (p point, err error) {
	at, value, ok := bytes.Cut(text, []byte(","))
	if !ok {
		return p, errors.New("a sample lacks a time or a value")
	}
	seconds, err := strconv.ParseFloat(string(bytes.TrimSpace(at)), 64)
	if err != nil || math.Abs(seconds) > 1e12 {
		return p, errors.New("a sample's time is not a number of seconds")
	}
	if p.value, err = strconv.ParseFloat(string(bytes.Trim(value, "\" \t\r\n")), 64); err != nil {
		return p, errors.New("a sample's value is no number")
	}
	p.ms = int64(math.Round(seconds * 1000))
	return p, nil
}

// Why an answer is none.
var (
	errTooLarge = errors.New("the answer is too large")
	errNoAnswer = errors.New("no answer") // worth asking again
)

// client asks one server.
type client struct {
	base     *url.URL
	http     *http.Client
	token    string
	limit    int64
	timeout  time.Duration
	attempts int
	retryMin time.Duration
	clock    clock.Clock
	metrics  *metrics
}

// shown is the server's URL for people.
func (c *client) shown() string { return c.base.Redacted() }

// query asks for the stored samples of a selector in [from, to).
func (c *client) query(ctx context.Context, selector string, from, to time.Time) ([]matrixSeries, error) {
	last := to.UnixMilli() - 1 // a range includes its end
	form := url.Values{
		"query": {fmt.Sprintf("%s[%dms]", selector, last-from.UnixMilli()+1)},
		"time":  {fmt.Sprintf("%d.%03d", last/1000, last%1000)},
	}
	var got answer[matrix]
	if err := c.ask(ctx, http.MethodPost, "api/v1/query", form, &got); err != nil {
		return nil, err
	}
	if err := whole(got.Status, got.ErrorType, got.Error, got.Warnings, got.Partial); err != nil {
		return nil, err
	}
	if got.Data.ResultType != "matrix" {
		return nil, errors.New("answered with something else than a matrix")
	}
	return got.Data.Result, nil
}

// labelValues asks for the values of a label among the series that any of the
// selectors matches. Only the index is read.
func (c *client) labelValues(ctx context.Context, label string, selectors []string, from, to time.Time) ([]string, error) {
	form := url.Values{
		"match[]": selectors,
		"start":   {strconv.FormatInt(from.Unix(), 10)}, "end": {strconv.FormatInt(to.Unix(), 10)},
	}
	var got answer[[]string]
	if err := c.ask(ctx, http.MethodGet, "api/v1/label/"+label+"/values", form, &got); err != nil {
		return nil, err
	}
	return got.Data, whole(got.Status, got.ErrorType, got.Error, got.Warnings, got.Partial)
}

// whole refuses what isn't all that was asked for.
func whole(status, errorType, message string, warnings []string, partial bool) error {
	switch {
	case status != "success":
		return refusal(errorType, message)
	case len(warnings) > 0:
		return fmt.Errorf("the answer may be partial, it has %d warnings", len(warnings))
	case partial:
		return errors.New("the answer is partial: part of the storage did not answer")
	}
	return nil
}

// ask asks until there is an answer, or too often.
func (c *client) ask(ctx context.Context, method, path string, form url.Values, into any) error {
	for attempt, pause := 1, c.retryMin; ; attempt, pause = attempt+1, 2*pause {
		err := c.askOnce(ctx, method, path, form, into)
		if err == nil {
			c.metrics.queries.WithLabelValues("ok").Inc()
			return nil
		}
		c.metrics.queries.WithLabelValues("error").Inc()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if attempt == c.attempts || !errors.Is(err, errNoAnswer) {
			return err
		}
		if err := clock.Sleep(ctx, c.clock, pause); err != nil {
			return err
		}
	}
}

// busy are states in which a server, or the proxy before it, may answer soon.
var busy = []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

func (c *client) askOnce(ctx context.Context, method, path string, form url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := c.request(ctx, method, path, form)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, exporter.Unquoted(err))
	}
	defer resp.Body.Close() //nolint:errcheck // nothing was written
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.limit+1))
	switch {
	case err != nil:
		return fmt.Errorf("%w: cut off after %d bytes: %w", errNoAnswer, len(body), exporter.Unquoted(err))
	case int64(len(body)) > c.limit:
		return fmt.Errorf("%w: more than %d bytes", errTooLarge, c.limit)
	case resp.StatusCode != http.StatusOK:
		err := refused(resp, body)
		if slices.Contains(busy, resp.StatusCode) {
			return fmt.Errorf("%w: %w", errNoAnswer, err)
		}
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		at := int64(len(body)) // where the JSON is well formed its content isn't
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			at = min(syntax.Offset, at)
		}
		return fmt.Errorf("answered what is not the HTTP API's JSON, %s: line %d of %d bytes",
			exporter.Described(resp), 1+bytes.Count(body[:at], []byte("\n")), len(body))
	}
	return nil
}

func (c *client) request(ctx context.Context, method, path string, form url.Values) (*http.Request, error) {
	target := c.base.JoinPath(path)
	var body io.Reader
	if method == http.MethodGet {
		target.RawQuery = form.Encode()
	} else {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", unwrapURL(err))
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	req.Header.Set("User-Agent", "gpuledger")
	return req, nil
}

// refused is an answer that isn't 200.
func refused(resp *http.Response, body []byte) error {
	var got answer[json.RawMessage]
	if json.Unmarshal(body, &got) != nil || got.Error == "" {
		return fmt.Errorf("answered %s", exporter.Described(resp))
	}
	return fmt.Errorf("answered %d %s: %w", resp.StatusCode, http.StatusText(resp.StatusCode), refusal(got.ErrorType, got.Error))
}

// errorTypes are the API's; of an error nothing else is told, since the message is
// whatever the other side puts there.
var errorTypes = []string{
	"timeout", "canceled", "execution", "bad_data", "internal", "unavailable", "not_found", "not_acceptable",
}

// refusal is the API's error. A query over --query.max-samples is too large.
func refusal(errorType, message string) error {
	if !slices.Contains(errorTypes, errorType) {
		errorType = "of a type that is not known"
	}
	err := fmt.Errorf("an error, %s, with a message of %d bytes: the server's log or its own page has it", errorType, len(message))
	if strings.Contains(message, "too many samples") {
		return fmt.Errorf("%w: too many samples for the server (--query.max-samples): %w", errTooLarge, err)
	}
	return err
}

// unwrapURL takes off net/http's own mention of the URL, which may carry a
// password; the caller names the server.
func unwrapURL(err error) error {
	var withURL *url.Error
	if errors.As(err, &withURL) {
		return withURL.Err
	}
	return err
}
