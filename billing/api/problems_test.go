package api

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gputally/gputally/internal/decisions"
)

// TestM6AQuotaSaysWhenToComeBack: a decision that must wait is no conflict.
func TestM6AQuotaSaysWhenToComeBack(t *testing.T) {
	quota := &decisions.QuotaError{Kind: decisions.KindPriceBook, Limit: 10, Next: time.Date(2026, 11, 10, 12, 0, 0, 0, time.UTC)}
	err := new(api).problem(t.Context(), fmt.Errorf("publish price book: %w", quota))
	var status huma.StatusError
	var headers huma.HeadersError
	if !errors.As(err, &status) || status.GetStatus() != http.StatusTooManyRequests {
		t.Errorf("the answer is %v, want status 429", err)
	}
	if !errors.As(err, &headers) || headers.GetHeaders().Get("Retry-After") != "Tue, 10 Nov 2026 12:00:00 GMT" {
		t.Errorf("the answer %v doesn't say when", err)
	}
}
