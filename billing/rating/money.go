package rating

import (
	"encoding/json"
	"fmt"

	"github.com/shopspring/decimal"
)

// Money is a decimal in a document: an amount in the document's currency, a price, or a quantity. It is exact; its
// canonical text, also in JSON, has its own number of places. The zero Money is absent and has no text; Valid
// distinguishes it from an amount of zero.
type Money struct {
	decimal.Decimal
	places int32 // of the text
}

// Exact returns an amount whose text has as many places as necessary.
func Exact(d decimal.Decimal) Money {
	m, _ := ParseMoney(d.String()) // a decimal's text is valid
	return m
}

// Fixed returns an amount whose text has that many places.
func Fixed(d decimal.Decimal, places int32) Money { return Money{d, places} }

// ParseMoney parses a canonical text; the empty text is the zero Money.
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

// Valid returns whether the amount is present; it may be zero.
func (m Money) Valid() bool { return m != Money{} }

// Equal returns whether both have the same amount and text.
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

// UnmarshalJSON parses a text.
func (m *Money) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	return m.UnmarshalText([]byte(text))
}

// UnmarshalText parses a canonical text.
func (m *Money) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMoney(string(text))
	return err
}
