package prometheus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputally/gputally/collector/source/exporter"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/jsonstream"
)

// QueryError is a query without a complete answer.
type QueryError struct {
	URL      string // without a password
	Query    string // shortened
	From, To time.Time
	Err      error
}

func (e *QueryError) Error() string {
	return fmt.Sprintf("query %s for %s, window %s to %s: %v", e.URL, e.Query, e.From.UTC().Format(time.RFC3339),
		e.To.UTC().Format(time.RFC3339), e.Err)
}

// Unwrap gives the cause.
func (e *QueryError) Unwrap() error { return e.Err }

// errNoAnswer means that the query may succeed if repeated.
var errNoAnswer = errors.New("no answer")

// client queries one server.
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

// shown is the server's URL for display.
func (c *client) shown() string { return c.base.Redacted() }

// query returns the stored samples of a selector in [from, to).
func (c *client) query(ctx context.Context, selector string, from, to time.Time) ([]matrixSeries, error) {
	last := to.UnixMilli() - 1 // a range includes its end
	form := url.Values{
		"query": {fmt.Sprintf("%s[%dms]", selector, last-from.UnixMilli()+1)},
		"time":  {fmt.Sprintf("%d.%03d", last/1000, last%1000)},
	}
	var got matrix
	err := c.ask(ctx, http.MethodPost, "api/v1/query", form, func(d *jsonstream.Decoder) error {
		got = matrix{}
		return got.read(d)
	})
	if err == nil && got.resultType != "matrix" {
		err = errors.New("the answer is not a matrix")
	}
	return got.series, err
}

// labelValues returns the values of a label among the series that any of the selectors matches. It reads only the
// index.
func (c *client) labelValues(ctx context.Context, label string, selectors []string, from, to time.Time) ([]string,
	error,
) {
	form := url.Values{
		"match[]": selectors,
		"start":   {strconv.FormatInt(from.Unix(), 10)}, "end": {strconv.FormatInt(to.Unix(), 10)},
	}
	var got []string
	err := c.ask(ctx, http.MethodGet, "api/v1/label/"+label+"/values", form, func(d *jsonstream.Decoder) error {
		var memory held
		got = nil
		return d.Elements(func() error {
			var value string
			err := d.Decode(&value)
			got = append(got, value)
			return cmp.Or(err, memory.add(labelBytes+len(value)))
		})
	})
	return got, err
}

// whole returns an error if the answer is incomplete.
func (a answer) whole() error {
	switch {
	case a.status != "success":
		return refusal(a.errorType, a.message)
	case a.warnings > 0:
		return fmt.Errorf("the answer may be partial, it has %d warnings", a.warnings)
	case a.partial:
		return errors.New("the answer is partial: part of the storage did not answer")
	}
	return nil
}

// ask repeats a query until it succeeds, at most Attempts times; data reads the field data.
func (c *client) ask(ctx context.Context, method, path string, form url.Values,
	data func(*jsonstream.Decoder) error,
) error {
	for attempt, pause := 1, c.retryMin; ; attempt, pause = attempt+1, 2*pause {
		got, err := c.askOnce(ctx, method, path, form, data)
		if err == nil {
			c.metrics.queries.WithLabelValues("ok").Inc()
			return got.whole()
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

// busy are statuses after which a server, or the proxy before it, may soon answer.
var busy = []int{
	http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
	http.StatusGatewayTimeout,
}

func (c *client) askOnce(ctx context.Context, method, path string, form url.Values,
	data func(*jsonstream.Decoder) error,
) (got answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := c.request(ctx, method, path, form)
	if err != nil {
		return got, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return got, fmt.Errorf("%w: %w", errNoAnswer, exporter.Unquoted(err))
	}
	defer resp.Body.Close() //nolint:errcheck // nothing was written
	d := jsonstream.New(resp.Body, jsonstream.Limits{Text: c.limit, Value: maxValueBytes})
	if resp.StatusCode != http.StatusOK {
		err := refused(resp, d)
		if slices.Contains(busy, resp.StatusCode) {
			return got, fmt.Errorf("%w: %w", errNoAnswer, err)
		}
		return got, err
	}
	got, err = readAnswer(d, func() error { return data(d) })
	switch cut := d.ReadErr(); {
	case err == nil:
		return got, nil
	case errors.Is(cut, jsonstream.ErrTooLarge):
		return got, cut
	case cut != nil:
		return got, fmt.Errorf("%w: cut off after %d bytes: %w", errNoAnswer, d.BytesRead(), exporter.Unquoted(cut))
	case errors.Is(err, jsonstream.ErrTooLarge):
		return got, err
	}
	return got, fmt.Errorf("the answer is not the HTTP API's JSON, %s: byte %d of %d or more",
		exporter.Described(resp), d.InputOffset(), d.BytesRead())
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
		return nil, fmt.Errorf("create request: %w", unwrapURL(err))
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	req.Header.Set("User-Agent", "gputally")
	return req, nil
}

// refused is the error of an answer that isn't 200.
func refused(resp *http.Response, d *jsonstream.Decoder) error {
	got, err := readAnswer(d, d.Skip)
	switch {
	case errors.Is(d.ReadErr(), jsonstream.ErrTooLarge):
		return d.ReadErr()
	case err != nil || got.message == "":
		return fmt.Errorf("answered %s", exporter.Described(resp))
	}
	return fmt.Errorf("answered %d %s: %w", resp.StatusCode, http.StatusText(resp.StatusCode),
		refusal(got.errorType, got.message))
}

// errorTypes are the API's error types. Errors contain only the type, since the message may contain anything.
var errorTypes = []string{
	"timeout", "canceled", "execution", "bad_data", "internal", "unavailable", "not_found", "not_acceptable",
}

// refusal returns the API's error. A query over --query.max-samples is too large.
func refusal(errorType, message string) error {
	if !slices.Contains(errorTypes, errorType) {
		errorType = "of an unknown type"
	}
	err := fmt.Errorf(
		"the server reports the error %s with a message of %d bytes, which its log or web page shows", errorType,
		len(message))
	if strings.Contains(message, "too many samples") {
		return fmt.Errorf("%w: too many samples for the server (--query.max-samples): %w", jsonstream.ErrTooLarge, err)
	}
	return err
}

// unwrapURL removes the URL, which may contain a password, from an error of net/http; the caller adds the server.
func unwrapURL(err error) error {
	var withURL *url.Error
	if errors.As(err, &withURL) {
		return withURL.Err
	}
	return err
}
