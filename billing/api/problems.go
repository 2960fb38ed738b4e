package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/fault"
	"github.com/gputally/gputally/internal/usage"
)

// invalid returns a 422 with a parameter and its value.
func invalid(location string, value any, message string) error {
	return huma.NewError(http.StatusUnprocessableEntity, "invalid parameter "+location,
		&huma.ErrorDetail{Message: message, Location: location, Value: value})
}

// problem converts an error to an answer, by its class. Errors that the client can fix are shown; others are only
// logged.
func (a *api) problem(ctx context.Context, err error) error {
	if _, ready := errors.AsType[huma.StatusError](err); ready {
		return err
	}
	if quota, ok := errors.AsType[*decisions.QuotaError](err); ok {
		return huma.ErrorWithHeaders(huma.NewError(quota.Class().Status(), quota.Error()),
			http.Header{"Retry-After": {quota.Next.UTC().Format(http.TimeFormat)}})
	}
	if status := fault.Of(err).Status(); status < http.StatusInternalServerError {
		return huma.NewError(status, err.Error())
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		a.deps.Log.WarnContext(ctx, "finance API request took too long", "error", err)
		return huma.ErrorWithHeaders(
			huma.Error503ServiceUnavailable("the request took too long; ask for less, or again later"), http.Header{"Retry-After": {"5"}})
	case ctx.Err() != nil:
		return huma.Error503ServiceUnavailable("the client has disconnected") // the client has disconnected
	}
	a.deps.Log.ErrorContext(ctx, "finance API request failed", "error", err)
	return huma.Error500InternalServerError("the request failed; the service's log says why")
}

// failed returns whether it is unknown after a problem if something was decided.
func failed(problem error) bool {
	var status huma.StatusError
	return !errors.As(problem, &status) || status.GetStatus() >= http.StatusInternalServerError
}

// maxRange is the longest range of one request.
const maxRange = 400 * 24 * time.Hour

// span parses a range of whole UTC hours; each bound is an RFC 3339 time or a day such as 2026-10-01.
func span(from, to string) (start, end time.Time, err error) {
	if start, err = instant("query.from", from); err != nil {
		return start, end, err
	}
	if end, err = instant("query.to", to); err != nil {
		return start, end, err
	}
	switch {
	case !start.Before(end):
		err = invalid("query.to", to, "to must come after from")
	case end.Sub(start) > maxRange:
		err = invalid("query.to", to, "a range is at most 400 days")
	}
	return start, end, err
}

func instant(location, text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		at, err := time.Parse(layout, text)
		if err == nil && usage.InYears(at) != nil {
			return at, invalid(location, text, fmt.Sprintf("want a time in the years %d to %d", usage.MinYear, usage.MaxYear))
		}
		if err == nil && at.Equal(at.Truncate(time.Hour)) {
			return at.UTC(), nil
		}
	}
	return time.Time{}, invalid(location, text, "want the start of a UTC hour, such as 2026-10-01 or 2026-10-01T08:00:00Z")
}

func rfc3339(at time.Time) string { return at.UTC().Format(time.RFC3339) }
