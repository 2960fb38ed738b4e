package config

import (
	"errors"
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v3"
)

// maxFaults bounds how many faults one file reports.
const maxFaults = 20

// maxShown bounds, in characters, how much of a wrong value a message repeats.
const maxShown = 60

// Load reads the YAML file at path into the struct that into points to. What
// the file does not name keeps its value, so into carries the defaults. The
// error names every fault as "file:line: key: what is wrong, with the value";
// into is then half filled and of no use.
func Load(path string, into any) error {
	data, err := ReadFile(path)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	return Decode(path, data, into)
}

// Decode is Load for data that is already read; name is what faults call it.
func Decode(name string, data []byte, into any) error {
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("decode %s: want a pointer to a struct, got %T", name, into)
	}
	root, err := Document(name, data)
	if err != nil || root == nil {
		return err
	}
	d := &decoder{file: name}
	d.value(root, "", target.Elem())
	return d.err()
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

type decoder struct {
	file   string
	faults []error
	more   int // faults that are counted alone
}

// failed is how many faults there are so far.
func (d *decoder) failed() int { return len(d.faults) + d.more }

func (d *decoder) fault(n *yaml.Node, path, format string, args ...any) {
	if len(d.faults) == maxFaults {
		d.more++
		return
	}
	if path == "" {
		path = "(the file)"
	}
	at := fmt.Sprintf("%s:%d: %s: ", d.file, n.Line, path)
	d.faults = append(d.faults, errors.New(at+fmt.Sprintf(format, args...)))
}

func (d *decoder) err() error {
	if d.more > 0 {
		return errors.Join(append(d.faults, fmt.Errorf("%s: and %d more", d.file, d.more))...)
	}
	return errors.Join(d.faults...)
}

// describe is a node as a message shows it: a scalar's text, else its kind.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if isNull(n) {
		return "nothing"
	}
	value := shorten(n.Value)
	if n.Tag == "!!str" {
		return fmt.Sprintf("%q", value)
	}
	return value
}

// shorten cuts a text after maxShown characters.
func shorten(text string) string {
	shown := 0
	for i := range text {
		if shown++; shown > maxShown {
			return text[:i] + "…"
		}
	}
	return text
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
