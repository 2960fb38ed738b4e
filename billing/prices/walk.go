package prices

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/shopspring/decimal"
	"go.yaml.in/yaml/v3"
)

// maxShown is how many errors, and how many names, are listed; maxText how many
// bytes of a value an error repeats.
const (
	maxShown = 20
	maxText  = 200
)

// walker goes through the nodes of a file and keeps the first errors it meets.
type walker struct {
	name string
	errs []error
	more int // errors that are counted alone
}

// failf records an error at a node; key is its path in the file. Texts among
// args are cut.
func (w *walker) failf(n *yaml.Node, key, format string, args ...any) {
	if len(w.errs) == maxShown {
		w.more++
		return
	}
	for i, arg := range args {
		if text, is := arg.(string); is && len(text) > maxText {
			args[i] = strings.ToValidUTF8(text[:maxText], "") + "…"
		}
	}
	w.errs = append(w.errs, fmt.Errorf("%s:%d: %s: %s", w.name, n.Line, key, fmt.Sprintf(format, args...)))
}

// err is all errors so far as one, nil when there were none.
func (w *walker) err() error {
	if w.more > 0 {
		return errors.Join(append(w.errs, fmt.Errorf("%s: and %d more", w.name, w.more))...)
	}
	return errors.Join(w.errs...)
}

// entry is one key of a mapping with its value and the value's path.
type entry struct {
	name  string
	key   *yaml.Node
	value *yaml.Node
	path  string
}

// entries are a mapping's, in the file's order; a key that stands twice is an
// error. An empty value is an empty mapping.
func (w *walker) entries(n *yaml.Node, path string) []entry {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		w.failf(n, path, "%s is not a mapping", show(n))
		return nil
	}
	found := make([]entry, 0, len(n.Content)/2)
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := join(path, key.Value)
		if key.Kind != yaml.ScalarNode || key.Value == "" {
			w.failf(key, path, "a key must be a name that isn't empty")
			continue
		}
		if line, twice := seen[key.Value]; twice {
			w.failf(key, at, "key stands twice, first in line %d", line)
			continue
		}
		seen[key.Value] = key.Line
		found = append(found, entry{name: key.Value, key: key, value: n.Content[i+1], path: at})
	}
	return found
}

// field handles one known key of a mapping.
type field struct {
	name     string
	required bool
	read     func(n *yaml.Node, path string)
}

// fields hands each key of a mapping to its field, in the file's order;
// unknown and missing keys are errors.
func (w *walker) fields(n *yaml.Node, path string, known ...field) {
	present := map[string]bool{}
	for _, e := range w.entries(n, path) {
		at := slices.IndexFunc(known, func(f field) bool { return f.name == e.name })
		if at < 0 {
			w.failf(e.key, e.path, "unknown key %q (known here: %s)", e.name, names(known))
			continue
		}
		present[e.name] = true
		known[at].read(e.value, e.path)
	}
	for _, f := range known {
		if f.required && !present[f.name] {
			w.failf(n, join(path, f.name), "key is missing")
		}
	}
}

// items are a sequence's values; an empty value is an empty sequence.
func (w *walker) items(n *yaml.Node, path string) []entry {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		w.failf(n, path, "%s is not a list", show(n))
		return nil
	}
	found := make([]entry, 0, len(n.Content))
	for i, item := range n.Content {
		found = append(found, entry{value: item, path: fmt.Sprintf("%s[%d]", path, i)})
	}
	return found
}

// text is a scalar that isn't empty.
func (w *walker) text(n *yaml.Node, path string) string {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Value == "" {
		w.failf(n, path, "%s is not a text", show(n))
		return ""
	}
	return n.Value
}

// digits is a decimal as books have it: up to a trillion, in trillionths.
var digits = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,12})?$`)

// wantDigits is what digits takes, for errors.
const wantDigits = "a non-negative decimal: up to 12 digits, with an optional point and up to 12 more"

// number is a quoted non-negative decimal. Unquoted numbers are refused: YAML
// would take 2.10 for a float, and 010 for eight.
func (w *walker) number(n *yaml.Node, path string) decimal.Decimal {
	if n.Kind != yaml.ScalarNode {
		w.failf(n, path, "%s is not a number", show(n))
		return decimal.Zero
	}
	if n.Tag != "!!str" {
		w.failf(n, path, "%s must be quoted, such as \"2.49\"", show(n))
		return decimal.Zero
	}
	if !digits.MatchString(n.Value) {
		w.failf(n, path, "%q is not "+wantDigits, n.Value)
		return decimal.Zero
	}
	return decimal.RequireFromString(n.Value)
}

// share is a number in 0…1.
func (w *walker) share(n *yaml.Node, path string) decimal.Decimal {
	value := w.number(n, path)
	if value.GreaterThan(decimal.NewFromInt(1)) {
		w.failf(n, path, "%q is more than 1: it is a share, a tenth is \"0.10\"", n.Value)
	}
	return value
}

func show(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.Tag == "!!null" {
		return "an empty value"
	}
	return fmt.Sprintf("%q", n.Value)
}

func join(path, name string) string {
	if strings.ContainsAny(name, ". ") {
		name = fmt.Sprintf("%q", name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

func names(known []field) string {
	list := make([]string, len(known))
	for i, f := range known {
		list[i] = f.name
	}
	return strings.Join(list, ", ")
}
