package rating

import (
	"encoding/json"
	"fmt"

	"github.com/shopspring/decimal"
)

// Money is a decimal of a document: an amount in the document's currency, a price
// in it, or a quantity. It is exact; its canonical text, also in JSON, has a number
// of places of its own. The zero Money is none at all, and has no text; an amount of
// zero is told from it by Valid.
type Money struct {
	decimal.Decimal
	places int32 // of the text
}

// Exact is an amount whose text has as many places as it needs.
func Exact(d decimal.Decimal) Money {
	m, _ := ParseMoney(d.String()) // what a decimal writes is one
	return m
}

// Fixed is an amount whose text has so many places.
func Fixed(d decimal.Decimal, places int32) Money { return Money{d, places} }

// ParseMoney reads a canonical text; the empty one is none.
func ParseMoney(text string) (Money, error) {
	if text == "" {
		return Money{}, nil
	}
	d, err := decimal.NewFromString(text)
	if err != nil {
		return Money{}, fmt.Errorf("read amount %.60q: %w", text, err)
	}
	return Money{d, max(0, -d.Exponent())}, nil
}

// Valid tells an amount, zero included, from none.
func (m Money) Valid() bool { return m != Money{} }

// Equal tells whether both are the same amount with the same text.
func (m Money) Equal(o Money) bool { return m.Decimal.Equal(o.Decimal) && m.String() == o.String() }

// Places is the number of places of the text.
func (m Money) Places() int32 { return m.places }

// String is the canonical text.
func (m Money) String() string {
	if !m.Valid() {
		return ""
	}
	return m.StringFixed(m.places)
}

// MarshalJSON writes the canonical text.
func (m Money) MarshalJSON() ([]byte, error) { return json.Marshal(m.String()) }

// MarshalText writes the canonical text.
func (m Money) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalJSON reads a text.
func (m *Money) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	return m.UnmarshalText([]byte(text))
}

// UnmarshalText reads a canonical text.
func (m *Money) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMoney(string(text))
	return err
}
