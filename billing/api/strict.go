package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
)

// strictJSON is the format of bodies. It refuses ambiguous JSON: a repeated field, null as a value, invalid UTF-8,
// and more than one value.
func strictJSON() huma.Format {
	format := huma.DefaultJSONFormat
	read := format.Unmarshal
	format.Unmarshal = func(data []byte, v any) error {
		if err := checkJSON(data); err != nil {
			return err
		}
		return read(data, v)
	}
	return format
}

func checkJSON(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("the body is not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	if err := checkValue(decoder, maxDepth); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the body has more than one JSON value")
	}
	return nil
}

// fold maps all spellings of a name that encoding/json accepts for one field to the same text: each character becomes
// the smallest of those that differ from it only in case.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		smallest := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			smallest = min(smallest, other)
		}
		return smallest
	}, name)
}

// maxDepth is more than the nesting of any valid body.
const maxDepth = 8

// checkValue reads one value, nested at most so deep.
func checkValue(decoder *json.Decoder, depth int) error {
	token, err := decoder.Token()
	if err != nil {
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	if token == nil {
		return errors.New("null is not allowed: leave the field out")
	}
	open, nested := token.(json.Delim)
	if !nested {
		return nil
	}
	if depth == 0 {
		return errors.New("the body is nested too deep")
	}
	names := map[string]bool{}
	for decoder.More() {
		if open == '{' {
			name, err := decoder.Token()
			if err != nil {
				return fmt.Errorf("the body is not JSON: %w", err)
			}
			folded := fold(fmt.Sprint(name))
			if names[folded] {
				return fmt.Errorf("the field %.60q is repeated, perhaps in another spelling", name)
			}
			names[folded] = true
		}
		if err := checkValue(decoder, depth-1); err != nil {
			return err
		}
	}
	if _, err = decoder.Token(); err != nil {
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	return nil
}
