package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFaults bounds the number of errors that are reported for one file.
const maxFaults = 20

// maxShown bounds, in characters, how much of a wrong value an error repeats.
const maxShown = 60

// Load reads the YAML file at path into the struct that into points to. Keys missing in the file keep their value, so
// into contains the defaults. The error lists every fault as "file:line: key: what is wrong, with the value"; into is
// then incomplete.
func Load(path string, into any) error {
	data, err := ReadFile(path)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	return Decode(path, data, into)
}

// Decode is Load for data that is already in memory; name is the file's name in errors.
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

// Readers decode types with a function of their own: from a node into a pointer to the type.
type Readers map[reflect.Type]func(n *yaml.Node, into any) error

// DecodeWith is Decode with readers, and with a check of the whole file, which reports errors through the file's
// root. A field whose tag has the option "required" must be in the file.
func DecodeWith(name string, data []byte, into any, readers Readers, check func(root Place)) error {
	root, err := Document(name, data)
	if err != nil {
		return err
	}
	if root == nil {
		return fmt.Errorf("%s: the file is empty", name)
	}
	d := &decoder{file: name, readers: readers, values: map[*yaml.Node]map[string]*yaml.Node{}}
	d.value(root, "", reflect.ValueOf(into).Elem())
	check(Place{d, root, ""})
	return d.err()
}

// Place is the position of a value in a file.
type Place struct {
	d    *decoder
	node *yaml.Node // if the value is missing, the node that should contain it
	path string
}

// At returns the place of a value below: by a mapping's key or a list's index.
func (p Place) At(steps ...any) Place {
	for _, step := range steps {
		if index, item := step.(int); item {
			p.path = fmt.Sprintf("%s[%d]", p.path, index)
			if index < len(p.node.Content) {
				p.node = p.node.Content[index]
			}
			continue
		}
		key, _ := step.(string)
		p.path = Join(p.path, key)
		if value := p.d.valueOf(p.node, key); value != nil {
			p.node = value
		}
	}
	return p
}

// Has returns whether a mapping has a key.
func (p Place) Has(key string) bool { return p.d.valueOf(p.node, key) != nil }

// Keys are a mapping's keys, in the file's order.
func (p Place) Keys() (keys []string) {
	for i := 0; i < len(p.node.Content) && p.node.Kind == yaml.MappingNode; i += 2 {
		keys = append(keys, p.node.Content[i].Value)
	}
	return keys
}

// Line is the value's line, from 1.
func (p Place) Line() int { return p.node.Line }

// Sound returns whether no error was found so far.
func (p Place) Sound() bool { return p.d.failed() == 0 }

// Faultf adds an error about the value. Long texts among args are truncated.
func (p Place) Faultf(format string, args ...any) {
	for i, arg := range args {
		if text, is := arg.(string); is {
			args[i] = shorten(text)
		}
	}
	p.d.fault(p.node, p.path, format, args...)
}

// valueOf returns the value of a mapping's key; nil: none.
func (d *decoder) valueOf(n *yaml.Node, key string) *yaml.Node {
	values, known := d.values[n]
	if !known && n.Kind == yaml.MappingNode {
		values = map[string]*yaml.Node{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			values[n.Content[i].Value] = n.Content[i+1]
		}
		d.values[n] = values
	}
	return values[key]
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

type decoder struct {
	file    string
	readers Readers
	values  map[*yaml.Node]map[string]*yaml.Node // of the mappings in which places were looked up
	faults  []error
	more    int // errors that are only counted
}

// failed is the number of errors so far.
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

// Describe is a node's text in an error: a scalar's value, truncated, else its kind.
func Describe(n *yaml.Node) string {
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

// shorten truncates a text after maxShown characters.
func shorten(text string) string {
	shown := 0
	for i := range text {
		if shown++; shown > maxShown {
			return text[:i] + "…"
		}
	}
	return text
}

// Join appends a key to a path. A key with a dot or a space is quoted.
func Join(path, key string) string {
	if strings.ContainsAny(key, ". ") {
		key = fmt.Sprintf("%q", key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
