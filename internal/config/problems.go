package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Problems collects the errors of a configuration, so that a Validate reports all of them at once.
type Problems struct{ errs []error }

// Want adds an error if ok is false: the text has key and value, and what the value must be.
func (p *Problems) Want(ok bool, format string, args ...any) {
	if !ok {
		p.errs = append(p.errs, fmt.Errorf(format, args...))
	}
}

// Add adds the errors of a part; nil: none.
func (p *Problems) Add(err error) {
	if err != nil {
		p.errs = append(p.errs, err)
	}
}

// OneOf requires one of a list of words.
func (p *Problems) OneOf(key, value string, words ...string) {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	last := len(words) - 1
	p.Want(slices.Contains(words, value), "%s %q: must be %s or %s", key, value, strings.Join(quoted[:last], ", "),
		quoted[last])
}

// Positive requires a number or a duration above zero.
func Positive[N ~int | ~int64](p *Problems, key string, value N) {
	p.Want(value > 0, "%s %v: must be positive", key, value)
}

// Err joins all errors; nil: none.
func (p *Problems) Err() error { return errors.Join(p.errs...) }

// HTTPURL parses the URL of an HTTP server; its error contains no password.
func HTTPURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("is not a URL") // net/url's error would repeat it
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("scheme %q must be http or https", u.Scheme)
	case u.Host == "":
		return nil, errors.New("has no host")
	}
	return u, nil
}

// Redacted is a URL without its password, for display. Of an invalid URL, or one without a host, it is what follows
// the last @.
func Redacted(raw string) string {
	if u, err := url.Parse(raw); err == nil && u.Host != "" {
		return u.Redacted()
	}
	return raw[strings.LastIndex(raw, "@")+1:]
}
