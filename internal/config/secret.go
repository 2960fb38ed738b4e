package config

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"

	"go.yaml.in/yaml/v3"

	"github.com/gputally/gputally/internal/trust"
)

const redacted = "(redacted)"

// Secret is a value that is never shown: printed, logged or marshalled it is "(redacted)". A configuration names its
// source by its key with the suffix "_file" (a path, which may be relative to the configuration's folder) or "_env" (a
// variable's name).
type Secret struct {
	value  string
	source string // "file" or "env"
	from   string // the path or the variable
}

// NewSecret wraps a value that doesn't come from a configuration.
func NewSecret(value string) Secret { return Secret{value: value} }

// Reveal returns the value itself. Call it only where the value is used.
func (s Secret) Reveal() string { return s.value }

// IsZero returns whether the secret is empty.
func (s Secret) IsZero() bool { return s.value == "" }

// String is "(redacted)", or empty for an empty secret.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return redacted
}

// Format redacts the value for every verb of package fmt, including %#v.
func (s Secret) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, s.String()) // Format can't return errors
}

// MarshalText redacts the value for encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue redacts the value for slog.
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
	from := n.Value
	if source == "file" && !filepath.IsAbs(from) {
		dir, err := filepath.Abs(filepath.Dir(d.file))
		if err != nil {
			d.fault(n, path, "%v", err)
			return
		}
		from = filepath.Join(dir, from)
	}
	value, err := readSecret(source, from)
	if err != nil {
		d.fault(n, path, "%v", err)
		return
	}
	v.Set(reflect.ValueOf(Secret{value: value, source: source, from: from}))
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
