package focus

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/internal/usage"
)

// Config has the names of the issuer, which are in each row of a file.
type Config struct {
	// Issuer is the name of the issuer: InvoiceIssuerName and, since both must be equal, the provider's names; empty:
	// "gputally".
	Issuer string `yaml:"issuer"`
	// Account is BillingAccountId; empty: "billing-account/" and the issuer.
	Account string `yaml:"account"`
	// AccountName is BillingAccountName; empty: the issuer.
	AccountName string `yaml:"account_name"`
}

// DefaultConfig is gputally's own name.
func DefaultConfig() Config { return Config{Issuer: "gputally"} }

// Validate returns an error for the first text that can't be written unchanged.
func (c Config) Validate() error {
	for _, field := range []struct{ key, value string }{
		{"issuer", c.Issuer}, {"account", c.Account}, {"account_name", c.AccountName},
	} {
		if err := validateName(field.value); err != nil {
			return fmt.Errorf("%s %q: %w", field.key, field.value, err)
		}
	}
	if _, err := decimal.NewFromString(c.Account); err == nil {
		return fmt.Errorf("account %q: readers parse digits as a number; want a text such as %q",
			c.Account, "account-"+c.Account)
	}
	return nil
}

func validateName(name string) error {
	switch {
	case !utf8.ValidString(name):
		return fmt.Errorf("is not UTF-8")
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("has a control character")
	case strings.TrimSpace(name) != name:
		return fmt.Errorf("has space at an end")
	case usage.TextCell(name) != name:
		return fmt.Errorf("a spreadsheet would read it as a formula")
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Issuer = cmp.Or(c.Issuer, DefaultConfig().Issuer)
	c.Account = cmp.Or(c.Account, "billing-account/"+c.Issuer)
	c.AccountName = cmp.Or(c.AccountName, c.Issuer)
	return c
}
