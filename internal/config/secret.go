package config

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"

	"go.yaml.in/yaml/v3"

	"github.com/gputally/gputally/internal/trust"
)

const redacted = "(redacted)"

// Secret is a value that never shows: printed, logged or marshalled it reads
// "(redacted)". A configuration names it by its key with "_file" (a path) or
// "_env" (a variable's name) added.
type Secret struct {
	value  string
	source string // "file" or "env"
	from   string // the path or the variable
}

// NewSecret wraps a value that did not come from a configuration.
func NewSecret(value string) Secret { return Secret{value: value} }

// Reveal returns the value itself, for the one call that needs it.
func (s Secret) Reveal() string { return s.value }

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.value == "" }

// String is "(redacted)", or empty where there is no secret.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return redacted
}

// Format keeps every verb of package fmt, %#v included, from the value.
func (s Secret) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, s.String()) // fmt has no way to report it
}

// MarshalText keeps encoders from the value.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue keeps slog from the value.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

func (d *decoder) secret(n *yaml.Node, path, source string, v reflect.Value) {
	if n.Tag != "!!str" || n.Value == "" {
		d.fault(n, path, "want the name of a %s, got %s", map[string]string{"file": "file", "env": "variable"}[source],
			Describe(n))
		return
	}
	if earlier, _ := v.Interface().(Secret); earlier.source != "" {
		d.fault(n, path, "the secret is already named by its %s (%s)", earlier.source, earlier.from)
		return
	}
	value, err := readSecret(source, n.Value)
	if err != nil {
		d.fault(n, path, "%v", err)
		return
	}
	v.Set(reflect.ValueOf(Secret{value: value, source: source, from: n.Value}))
}

func readSecret(source, from string) (string, error) {
	if source == "env" {
		value, ok := os.LookupEnv(from)
		if !ok || value == "" {
			return "", fmt.Errorf("environment variable %s is not set", from)
		}
		return value, nil
	}
	value, err := trust.ReadSecret(from)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	return value, nil
}
