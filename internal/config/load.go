package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

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
	data, err := os.ReadFile(path)
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
	root, err := parse(name, data)
	if err != nil || root == nil {
		return err
	}
	d := &decoder{file: name}
	d.value(root, "", target.Elem())
	return d.err()
}

// parse returns the one document's root, or nil when the file is empty.
func parse(name string, data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) || (err == nil && isNull(doc.Content[0])) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", name, err)
		}
		return nil, fmt.Errorf("%s:%d: a second document, want one", name, second.Line)
	}
	return doc.Content[0], nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

type decoder struct {
	file   string
	faults []error
}

func (d *decoder) fault(n *yaml.Node, path, format string, args ...any) {
	if path == "" {
		path = "(the file)"
	}
	at := fmt.Sprintf("%s:%d: %s: ", d.file, n.Line, path)
	d.faults = append(d.faults, errors.New(at+fmt.Sprintf(format, args...)))
}

func (d *decoder) err() error {
	faults := d.faults
	if more := len(faults) - maxFaults; more > 0 {
		faults = append(faults[:maxFaults:maxFaults], fmt.Errorf("%s: and %d more", d.file, more))
	}
	return errors.Join(faults...)
}

// describe is a node as a message shows it: a scalar's text, else its kind.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if isNull(n) {
		return "nothing"
	}
	value := n.Value
	if runes := []rune(value); len(runes) > maxShown {
		value = string(runes[:maxShown]) + "…"
	}
	if n.Tag == "!!str" {
		return fmt.Sprintf("%q", value)
	}
	return value
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
